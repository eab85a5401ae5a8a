#include "src/association/best_channel.h"
#include "tools/sim/card.h"
#include "tools/sim/channel_scenarios.h"
#include "tools/sim/scenarios.h"
#include "tools/sim/transfer.h"

#include <memory>

namespace tandem::sim
{
namespace
{

using nlohmann::json;
using namespace tandem::association;

Algorithm algorithm(const std::string& name)
{
  for (const Algorithm one : { Algorithm::reno, Algorithm::cubic, Algorithm::lia, Algorithm::olia })
    if (sim::name(one) == name) return one;
  throw BadScenario("switching: --cc " + name + ": allowed: reno, cubic, lia, olia");
}

Card::Rule rule(const SwitchingRun& run, Transfer*& transfer)
{
  const Duration cycle = from_seconds(run.cycle_ms / 1e3), least = from_seconds(run.least_ms / 1e3);
  if (run.rule == "published")
    return [=, alpha = run.alpha, interval = run.interval, cycles = 0u, seen = std::vector<Card::Visit>(),
            slots = std::vector<Duration>()](const std::vector<Card::Visit>& visits) mutable
    {
      seen.resize(visits.size());
      for (std::size_t i = 0; i < visits.size(); ++i)
      {
        seen[i].bytes += visits[i].bytes;
        seen[i].there += visits[i].there;
      }
      if (!slots.empty() && ++cycles % interval != 0) return slots;
      std::vector<double> measured; // bytes in the slot, "dividing it by c_i"
      for (const Card::Visit& one : seen)
        measured.push_back(one.there > Duration {} ? one.bytes / seconds(one.there) : 0);
      seen.assign(visits.size(), {});
      return slots = channel_slots(measured, alpha, cycle, least);
    };
  return [&transfer, best = BestChannel({ .cycle = cycle })](const std::vector<Card::Visit>& visits) mutable
  {
    std::vector<BestChannel::Visit> seen;
    for (const Card::Visit& one : visits)
      seen.push_back({ one.bytes, one.receiving });
    const BestChannel::Plan plan = best.next(seen);
    for (std::size_t i = 0; transfer != nullptr && i < transfer->subflows(); ++i)
      if (transfer->asked(i) != plan.backup[i]) transfer->prioritize(i, plan.backup[i]);
    return plan.slots;
  };
}

} // namespace

json switching(const SwitchingRun& run)
{
  if (run.warmup >= run.seconds) throw BadScenario("switching: the warm-up leaves nothing to count");
  for (const double mbps : run.mbps)
    if (!(mbps > 0)) throw BadScenario("switching: --mbps: a rate above 0 for each channel is needed");
  try
  {
    World world(run.seed);
    Transfer* steered = nullptr;
    Card card(world, run.mbps, from_seconds(run.cost_ms / 1e3), run.buffer, rule(run, steered));
    TransferConfig config;
    config.mptcp = run.mbps.size() > 1;
    config.receive_buffer = static_cast<std::uint64_t>(run.receive_buffer);
    config.sender.algorithm = config.mptcp ? algorithm(run.cc) : Algorithm::reno;
    Transfer transfer(world, config);
    std::vector<std::unique_ptr<Wire>> wires;
    const auto wire = [&]
    {
      wires.push_back(std::make_unique<Wire>(
          world, medium::PipeConfig { .delay = from_seconds(run.rtt_ms / 2e3), .queue_packets = 100'000 }));
      return static_cast<Stage*>(wires.back().get());
    };
    for (std::size_t i = 0; i < run.mbps.size(); ++i)
      transfer.add({ .down = { wire(), &card.down(i) },
                     .up = { &card.up(i), wire() },
                     .signal_delay = from_seconds(run.rtt_ms / 2e3) },
                   Tick {} + from_seconds(0.05 * static_cast<double>(i)));

    steered = &transfer;

    std::vector<double> before(run.mbps.size());
    std::uint64_t delivered = 0;
    world.loop.run_until(Tick {} + from_seconds(run.warmup));
    delivered = transfer.delivered();
    for (std::size_t i = 0; i < before.size(); ++i)
      before[i] = static_cast<double>(transfer.subflow(i).sender->window().acked);
    world.loop.run_until(Tick {} + from_seconds(run.seconds));

    const double span = run.seconds - run.warmup;
    json result { { "mbps", static_cast<double>(transfer.delivered() - delivered) * 8e-6 / span } };
    for (std::size_t i = 0; i < before.size(); ++i)
    {
      const Sender& sender = *transfer.subflow(i).sender;
      result["subflows"].push_back(
          { { "mbps", (static_cast<double>(sender.window().acked) - before[i]) * sender.config().mss * 8e-6 / span },
            { "rtt_ms", milliseconds(sender.window().rtt) },
            { "timeouts", sender.stats().timeouts },
            { "retransmissions", sender.stats().retransmissions },
            { "share", seconds(card.total(i)) / run.seconds } });
    }
    return result;
  }
  catch (const std::invalid_argument& error)
  {
    throw BadScenario(std::string("switching: ") + error.what());
  }
}

} // namespace tandem::sim
