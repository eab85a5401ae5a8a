#include "src/kernel/keeper/keeper_state.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace tandem::kernel
{
namespace
{

using nlohmann::json;

TEST(Keeper, RoutesSurviveTheWayThere)
{
  const RoutePlan plan { .cell = "wwan0", .mark = { 2, 6 }, .table = 7, .priority = 9 };
  EXPECT_EQ(json::parse(json(plan).dump()).get<RoutePlan>(), plan);
  EXPECT_NE(json::parse(json(RoutePlan {}).dump()).get<RoutePlan>(), plan);
}

TEST(Keeper, StateSurvivesTheWayBack)
{
  KeeperState state;
  state.phase = KeeperState::Phase::suspended;
  state.watching = true;
  state.since = Tick { Duration { 123456789 } };
  state.suspensions = 3;
  state.suspended_total = Duration { 77 };
  state.applied = 5;
  state.restored = 2;
  state.backend = "nftables";
  state.why = "a";
  state.route = { .v4 = true, .v6 = false, .gateway_v4 = "192.0.2.1", .gateway_v6 = "fe80::1", .lower = true };
  state.steering.endpoints_added = 11;
  state.placement.last_error = "c";
  state.pacing.begun = 4;
  state.last_error = "b";
  const json sent = state;
  EXPECT_EQ(sent.size(), 14u) << "as many as the struct has fields";
  const json again = json::parse(sent.dump()).get<KeeperState>();
  EXPECT_EQ(again, sent);
  EXPECT_EQ(again["route"], (json { { "v4", true },
                                    { "v6", false },
                                    { "gateway_v4", "192.0.2.1" },
                                    { "gateway_v6", "fe80::1" },
                                    { "lower", true } }));
}

} // namespace
} // namespace tandem::kernel
