#include "src/kernel/mptcp/steering.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <stdexcept>

namespace tandem::kernel
{
namespace
{

SteeringPlan full()
{
  return { .ce = { { "wlan0", 0.03 }, { "wlan1", 0 } },
           .paths = { { .interface = "wlan0",
                        .addresses = { "192.0.2.1", "2001:db8::1" },
                        .endpoint = true,
                        .backup = true,
                        .backup_stays = true },
                      { .interface = "wwan0", .addresses = {} } },
           .setup = true,
           .foreign = true };
}

TEST(Steering, SurvivesTheWayToTheKeeper)
{
  EXPECT_EQ(nlohmann::json::parse(nlohmann::json(full()).dump()).get<SteeringPlan>(), full());
  MptcpEndpoint endpoint {};
  endpoint.address = "192.0.2.1";
  endpoint.id = 7;
  endpoint.flags = 6;
  endpoint.own = true;
  endpoint.interface = "wlan0";
  SteeringState state {};
  state.ce_backend = "nftables";
  state.ce_why = "a";
  state.ce = { { "wlan0", 0.0001 } };
  state.mptcp_why = "b";
  state.endpoints = { endpoint };
  state.limit_subflows = 2;
  state.limit_add_addr = 1;
  state.refused = { { "c", "d" } };
  state.recovered = "e";
  state.last_error = "f";
  state.suspended = true;
  state.plans = 3;
  state.ce_changes = 4;
  state.flag_changes = 5;
  state.endpoints_added = 6;
  state.endpoints_deleted = 7;
  EXPECT_EQ(nlohmann::json::parse(nlohmann::json(state).dump()).get<SteeringState>(), state);
}

TEST(Steering, RefusesWhatCannotBeMeant)
{
  auto refused = [](auto change)
  {
    SteeringPlan plan = full();
    change(plan);
    EXPECT_THROW(validate(plan), std::invalid_argument);
  };
  EXPECT_NO_THROW(validate(full()));
  EXPECT_NO_THROW(validate({}));
  refused([](SteeringPlan& p) { p.ce[0].interface = "wlan0\" accept; #"; });
  refused([](SteeringPlan& p) { p.ce[0].rate = 1.01; });
  refused([](SteeringPlan& p) { p.ce[0].rate = -0.01; });
  refused([](SteeringPlan& p) { p.ce[0].rate = std::nan(""); });
  refused([](SteeringPlan& p) { p.ce[1].interface = "wlan0"; });
  refused([](SteeringPlan& p) { p.ce.assign(most_steered + 1, { "wlan0", 0 }); });
  refused([](SteeringPlan& p) { p.paths[0].interface = ""; });
  refused([](SteeringPlan& p) { p.paths[0].addresses[0] = "192.0.2.1/24"; });
  refused([](SteeringPlan& p) { p.paths[0].addresses[0] = "example.org"; });
  refused([](SteeringPlan& p) { p.paths[0].addresses.assign(most_path_addresses + 1, "192.0.2.1"); });
}

} // namespace
} // namespace tandem::kernel
