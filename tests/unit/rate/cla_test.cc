#include "modules/rate/cla.h"
#include "modules/rate/promise.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tandem::rate
{
namespace
{

using namespace std::chrono_literals;

const ClaParameters table_2 {};

ClaState state(double s1, std::optional<double> s2, double r1, double r2, double r2p = 0)
{
  return { .S1 = s1, .S2 = s2, .R1 = r1 * 1e6, .R2 = r2 * 1e6, .R2p = r2p * 1e6 };
}

TEST(cla, stages_follow_the_conditions_of_the_algorithms)
{
  EXPECT_EQ(stage(table_2, state(40, 10, 15, 4)), ClaStage::none) << "R_tot reaches R0";
  EXPECT_EQ(stage(table_2, state(40, 10, 15, 0)), ClaStage::stationary) << "S1 > S2 + 25";
  EXPECT_EQ(stage(table_2, state(30, 10, 15, 0)), ClaStage::pre_handoff);
  EXPECT_EQ(stage(table_2, state(30, {}, 15, 0)), ClaStage::stationary) << "no candidate";
}

TEST(cla, stationary_fills_the_difference_as_printed)
{
  EXPECT_NEAR(stationary(table_2, state(40, 10, 10, 0)).cell, 8e6, 1);
  EXPECT_NEAR(stationary(table_2, state(40, 10, 9, 8)).cell, 1e6, 1) << "delta counts the R2 that is there";
  EXPECT_NEAR(stationary({ .C2 = 5e6 }, state(40, 10, 3, 0)).cell, 5e6, 1) << "at most C2";
  EXPECT_NEAR(stationary(table_2, state(40, 10, 20, 4)).cell, 0, 1) << "never below 0";
  EXPECT_NEAR(stationary(table_2, state(40, 10, 10, 0)).wifi, 10e6, 1);
}

TEST(cla, pre_handoff_is_the_line_through_its_two_points)
{
  // C1 at S1 = S2 + delta1, R1h at S1 = S2 - delta2; R2p and C2 there.
  EXPECT_NEAR(pre_handoff(table_2, state(35, 10, 0, 0, 4)).wifi, 25e6, 1);
  EXPECT_NEAR(pre_handoff(table_2, state(10, 22, 0, 0, 4)).wifi, 5e6, 1);
  EXPECT_NEAR(pre_handoff(table_2, state(35, 10, 0, 0, 4)).cell, 4e6, 1);
  EXPECT_NEAR(pre_handoff(table_2, state(10, 22, 0, 0, 4)).cell, 18e6, 1);
  // (25 - 5) / 37 * (20 - 15 - 25) + 25
  EXPECT_NEAR(pre_handoff(table_2, state(20, 15, 0, 0, 0)).wifi, (20.0 / 37 * -20 + 25) * 1e6, 1);
  EXPECT_GE(pre_handoff(table_2, state(0, 90, 0, 0, 0)).wifi, 0);
  EXPECT_LE(pre_handoff(table_2, state(0, 90, 0, 0, 0)).cell, 18e6);
}

TEST(cla, hands_off_by_signal_or_by_the_candidates_rate)
{
  EXPECT_TRUE(hands_off(table_2, state(8, 21, 24, 0))) << "S2 > S1 + 12";
  EXPECT_TRUE(hands_off(table_2, state(15, 16, 5, 0))) << "R_1^2 > R_1^1";
  EXPECT_FALSE(hands_off(table_2, state(30, 10, 20, 0))) << "S1 above the scan trigger, R_tot reaches R0";
  EXPECT_FALSE(hands_off(table_2, state(15, {}, 5, 0)));
  EXPECT_NEAR(candidate_rate(table_2, state(10, 22, 0, 0)), 25e6, 1);
  EXPECT_NEAR(candidate_rate(table_2, state(35, 10, 0, 0)), 5e6, 1) << "as printed; by the linear system 0";
  EXPECT_FALSE(hands_off_traditionally(table_2, state(15, 16, 5, 0)));
  EXPECT_TRUE(hands_off_traditionally(table_2, state(8, 21, 24, 0)));
  EXPECT_FALSE(hands_off_traditionally(table_2, state(21, 40, 24, 0))) << "above the scan trigger";
}

TEST(cla, windows_are_bandwidth_delay_products)
{
  EXPECT_NEAR(bdp_path(18e6, 40ms, 1500), 60, 1e-9);
  EXPECT_EQ(bdp_path(0, 40ms, 1500), 1);
  EXPECT_EQ(bdp_upper_bound(3, 3), 6) << "S * N with S one packet";
  // Equation 2 bounds equation 1: with equal rates and packets they are the same.
  const double equal[] = { 1e6, 1e6, 1e6 }, mixed[] = { 1e6, 10e6, 100e6 };
  EXPECT_NEAR(bdp_equation_1(1500, equal, 3, 1500, equal, 3), 1500 * bdp_upper_bound(3, 3), 1e-6);
  EXPECT_LT(bdp_equation_1(1500, mixed, 3, 1500, mixed, 3), 1500 * bdp_upper_bound(3, 3));
}

TEST(cla, refuses_what_no_link_carries)
{
  const auto why = [](ClaParameters parameters)
  {
    try
    {
      check(parameters);
    }
    catch (const BadInput& error)
    {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_EQ(why({}), "accepted");
  EXPECT_EQ(why({ .R0 = 50e6 }), "R0 is 50 Mb/s; the links carry at most 43 Mb/s together");
  EXPECT_EQ(why({ .R0 = 0 }), "R0 must be above 0");
  EXPECT_EQ(why({ .C1 = -1 }), "C1 must be above 0");
  EXPECT_EQ(why({ .R1h = 26e6 }), "R1h must be between 0 and C1, 25 Mb/s");
  EXPECT_EQ(why({ .delta2 = 0 }), "delta2 must be above 0");
  EXPECT_NEAR(held_at_handoff({ .R0 = 24e6 }), 23e6, 1) << "R1h + C2";
  EXPECT_NEAR(held_at_handoff({ .R0 = 18e6 }), 18e6, 1);
}

Promise::Input input(Tick now, double s1, std::optional<double> s2, double r1, double r2)
{
  return { .now = now, .signals = state(s1, s2, r1, r2), .wifi_rtt = 10ms, .cell_rtt = 40ms };
}

TEST(promise, leaves_cellular_alone_while_wifi_suffices)
{
  Promise promise({});
  Promise::Output out;
  for (int i = 0; i < 20; ++i)
    out = promise.look(input(Tick {} + 100ms * i, 40, 10, 20, 0));
  EXPECT_EQ(out.cell_window, 0);
  EXPECT_GT(out.wifi_window, bdp_path(20e6, 10ms, 1448));
  EXPECT_LT(out.wifi_window, 2 * bdp_path(20e6, 10ms, 1448)) << "no queue";
  EXPECT_FALSE(out.hand_off);
}

TEST(promise, asks_cellular_for_the_difference)
{
  Promise promise({});
  Promise::Output out;
  double r2 = 0;
  for (int i = 0; i < 40; ++i)
  {
    out = promise.look(input(Tick {} + 100ms * i, 22, 10, 10, r2));
    r2 = out.cell_window * 1448 * 8 / 0.04 / 1e6; // what such a window carries
  }
  EXPECT_NEAR(10 + r2, 18.5, 1.2);
}

TEST(promise, empties_wifi_before_it_hands_off_and_carries_all_by_cellular)
{
  Promise promise({});
  promise.look(input(Tick {}, 10, 20, 8, 10));
  const Promise::Output first = promise.look(input(Tick {} + 20ms, 10, 20, 8, 10));
  EXPECT_EQ(first.wifi_window, 0);
  EXPECT_FALSE(first.hand_off);
  EXPECT_NEAR(first.cell_window, bdp_path(18e6, 40ms, 1448) + 1, 1e-6);
  EXPECT_TRUE(promise.look(input(Tick {} + 100ms, 10, 20, 1, 17)).hand_off);
  // At the new access point it begins anew: it does not leave again.
  for (int i = 2; i < 10; ++i)
  {
    const Promise::Output after = promise.look(input(Tick {} + 100ms * i, 20.5, 10, 10, 8));
    EXPECT_FALSE(after.hand_off);
    EXPECT_GT(after.wifi_window, 0);
  }
}

TEST(promise, does_not_go_to_and_fro_between_equal_access_points)
{
  Promise promise({});
  int handoffs = 0;
  for (int i = 0; i < 100; ++i)
    handoffs += promise.look(input(Tick {} + 100ms * i, 15 + i % 3, 15 + (i + 1) % 3, 8, 10)).hand_off;
  EXPECT_EQ(handoffs, 0);
}

} // namespace
} // namespace tandem::rate
