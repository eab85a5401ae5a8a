// The daemon's modules, unchanged, inside the simulator.

#include "tests/sim/simulator/rig.h"
#include "tools/sim/client_host.h"
#include "tools/sim/scenarios.h"
#include "tools/sim/stages.h"
#include "tools/sim/transfer.h"

#include <gtest/gtest.h>

namespace tandem::sim::test
{

namespace
{

using nlohmann::json;

// A download over 802.11g whose acknowledgements may leave by a second link.
json offload(bool on, double cell_ms)
{
  json description { { "seconds", 12 },
                     { "warmup", 4 },
                     { "wifi", { { "standard", "g" }, { "mbps", 54 }, { "queue", 100 } } },
                     { "links",
                       { { { "name", "ap" }, { "type", "wifi" } },
                         { { "name", "cell" }, { "mbps", 10 }, { "delay_ms", cell_ms } } } },
                     { "flows",
                       { { { "client", true },
                           { "subflows", json::array({ { { "rtt_ms", 40 },
                                                         { "down", { "ap" } },
                                                         { "up", { "ap" } },
                                                         { "up_by_cell", { "cell" } } } }) } } } } };
  if (on) description["modules"] = { "offload" };
  return simulate(description);
}

TEST(ClientHost, OffloadMovesTheAcknowledgementsAndTheAirCarriesMore)
{
  const json off = offload(false, 5), on = offload(true, 5);
  EXPECT_EQ(off["client"]["rerouted"], 0);
  EXPECT_EQ(off["links"][1]["delivered"], 0);
  EXPECT_GT(on["client"]["rerouted"], 5000);
  EXPECT_GT(on["client"]["reasons"]["offload: path validated"], 0);
  EXPECT_LT(on["links"][0]["back"].get<double>(), off["links"][0]["back"].get<double>() / 4);
  EXPECT_GT(on["flows"][0]["mbps"].get<double>(), 1.1 * off["flows"][0]["mbps"].get<double>());
}

// 250 ms of added delay cost more than the air is worth: the module must find that out by itself.
TEST(ClientHost, OffloadStaysAtHomeWhenTheSecondLinkIsSlow)
{
  const json off = offload(false, 5), on = offload(true, 250);
  EXPECT_GT(on["flows"][0]["mbps"].get<double>(), 0.9 * off["flows"][0]["mbps"].get<double>());
  EXPECT_LT(on["client"]["rerouted"], 2000);
}

// A module that only requests.
class Requester final : public FlowModule<int>
{
public:
  std::string_view name() const override { return "ecn"; }
  std::string_view summary() const override { return ""; }
  std::string_view manual() const override { return ""; }
  std::span<const Knob> knobs() const override { return {}; }
  void set(std::string_view, double) override {}
  double get(std::string_view) const override { return 0; }
  Interest interest() const override { return { .observe = traffic::ingress_data, .radio = true }; }
  Plan decide(const Event& event, const FlowView&, int&) override
  {
    const auto& radio = (*event.links)[static_cast<std::size_t>(Link::wifi)].radio;
    if (!radio || !radio->packet_time) return {};
    request_[0] = { .kind = RequestKind::ce_rate, .link = Link::wifi, .value = *radio->packet_time > 2ms ? 0.05 : 0 };
    return { .request = request_, .why = "test" };
  }
  void describe(const FlowView&, const int&, Facts&) const override {}

private:
  std::array<LinkRequest, 1> request_ {};
};

TEST(ClientHost, CarriesOutCeRatesFromWhatTheRadioSays)
{
  for (const Duration packet_time : { Duration { 1ms }, Duration { 3ms } })
  {
    World world(7);
    Requester module;
    ClientHost client(world, { &module });
    const auto interface = client.add_interface(Link::wifi);
    client.radio(Link::wifi, { .packet_time = packet_time, .confidence = 1 });
    Wire wire(world, { .rate = 20_mbps, .delay = 20ms, .queue_packets = 100 });
    Wire back(world, { .delay = 20ms });
    TransferConfig config;
    config.sender.ecn = true;
    Transfer transfer(world, config, &client);
    transfer.add({ .down = { &wire }, .up = { &back }, .interface = interface }, Tick {});
    world.loop.run_until(Tick {} + 10s);
    const bool marks = packet_time > 2ms;
    EXPECT_EQ(client.ce_rate(interface), marks ? 0.05 : 0);
    EXPECT_EQ(client.marked(interface) > 0, marks);
    EXPECT_EQ(transfer.subflow(0).receiver->stats().marked, client.marked(interface));
    EXPECT_EQ(transfer.subflow(0).sender->stats().ecn_reductions > 0, marks);
    if (!marks) continue;
    EXPECT_NEAR(static_cast<double>(client.marked(interface))
                    / static_cast<double>(transfer.subflow(0).receiver->stats().segments),
                0.05, 0.02);
  }
}

TEST(ClientHost, MarksOnlyEcnCapablePackets)
{
  World world(7);
  ClientHost client(world, {});
  const auto interface = client.add_interface(Link::wifi);
  client.set_ce_rate(interface, 1);
  Wire wire(world, { .rate = 20_mbps, .delay = 20ms, .queue_packets = 100 });
  Wire back(world, { .delay = 20ms });
  Transfer transfer(world, {}, &client);
  transfer.add({ .down = { &wire }, .up = { &back }, .interface = interface }, Tick {});
  world.loop.run_until(Tick {} + 2s);
  EXPECT_GT(transfer.delivered(), 1'000'000u);
  EXPECT_EQ(client.marked(interface), 0u);
}

} // namespace

} // namespace tandem::sim::test
