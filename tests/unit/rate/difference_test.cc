#include "modules/rate/difference.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <optional>

namespace tandem::rate
{
namespace
{

using namespace tandem::literals;
using testing::HasSubstr;

// Two links whose sender hears of a change 300 ms late.
struct Links
{
  // So many seconds at these rates, in bits/s.
  void run(double time, double wifi_rate, double cell_rate)
  {
    for (int i = 0; i < time * 10; ++i)
    {
      now += 100ms;
      asked.push_back(use);
      bool heard = false;
      if (asked.size() > 3)
      {
        heard = asked.front();
        asked.pop_front();
      }
      paces.push_back(pace);
      if (paces.size() > 3)
      {
        obeyed = paces.front();
        paces.pop_front();
      }
      const double by_cell = heard ? std::min({ cell_rate, wanted, obeyed.value_or(cell_rate) }) : 0;
      const double by_wifi = std::min(wifi_rate, wanted - by_cell);
      wifi += static_cast<std::uint64_t>(by_wifi / 80);
      cell += static_cast<std::uint64_t>(by_cell / 80);
      use = difference.look({ .now = now,
                              .R0 = 18e6,
                              .wifi = wifi,
                              .cell = cell,
                              .wifi_up = up,
                              .limited = limited,
                              .leaving = leaving,
                              .paced = paced,
                              .hindered = hindered });
      if (obeys) pace = difference.pace();
      switches += use != asked.back() ? 1 : 0;
    }
  }
  // Mean of a stretch that begins now, bits/s.
  struct Mean
  {
    double wifi, cell, both;
  };
  Mean mean(double time, double wifi_rate, double cell_rate)
  {
    const auto w = wifi, c = cell;
    run(time, wifi_rate, cell_rate);
    const double a = static_cast<double>(wifi - w) * 8 / time, b = static_cast<double>(cell - c) * 8 / time;
    return { a, b, a + b };
  }

  Difference difference;
  std::uint64_t wifi = 0, cell = 0;
  Tick now { 10s };
  bool use = false, up = true, limited = true, leaving = false;
  double wanted = 1e9; // by the server or the application
  std::string_view hindered {};
  std::deque<bool> asked;
  bool paced = false, obeys = false; // cellular is to be kept to a pace, and is
  std::optional<double> pace {}, obeyed {};
  std::deque<std::optional<double>> paces;
  int switches = 0;
};

TEST(difference, saves_cellular_while_wifi_suffices)
{
  Links links;
  links.run(60, 20e6, 18e6);
  EXPECT_EQ(links.cell, 0u);
  EXPECT_TRUE(links.difference.held());
  EXPECT_EQ(links.difference.why(), "rate: Wi-Fi suffices, cellular is saved");
}

TEST(difference, slow_start_is_waited_for)
{
  Links links;
  for (double rate = 0.5e6; rate < 20e6; rate *= 1.35)
    links.run(0.2, rate, 18e6);
  links.run(5, 20e6, 18e6);
  EXPECT_EQ(links.cell, 0u);
}

TEST(difference, cellular_carries_what_is_missing_and_no_more)
{
  for (const double wifi : { 2e6, 5e6, 10e6, 15e6 })
  {
    Links links;
    links.run(5, 20e6, 18e6);
    links.run(5, wifi, 18e6);
    const Links::Mean mean = links.mean(30, wifi, 18e6);
    EXPECT_GT(mean.both, 18e6) << wifi;
    EXPECT_LT(mean.both, 19.5e6) << wifi;
    EXPECT_TRUE(links.difference.held()) << wifi;
    links.run(3, 25e6, 18e6);
    EXPECT_EQ(links.mean(10, 25e6, 18e6).cell, 0);
  }
}

TEST(difference, what_comes_after_the_stop_is_booked_ahead)
{
  Links links;
  links.run(10, 10e6, 18e6);
  double most = 0, least = 1e9;
  for (int i = 0; i < 20; ++i)
  {
    const double both = links.mean(1, 10e6, 18e6).both;
    most = std::max(most, both);
    least = std::min(least, both);
  }
  EXPECT_LT(most, 23e6);
  EXPECT_GT(least, 13e6);
}

// Each stop would let the sender queue on Wi-Fi what came by cellular.
TEST(difference, one_that_is_paced_carries_what_is_missing_without_a_break)
{
  for (const double wifi : { 2e6, 10e6, 15e6, 17e6 })
  {
    Links links;
    links.paced = links.obeys = true;
    links.run(5, 20e6, 18e6);
    links.run(5, wifi, 18e6);
    links.switches = 0;
    const Links::Mean mean = links.mean(30, wifi, 18e6);
    EXPECT_EQ(links.switches, 0) << wifi;
    EXPECT_GT(mean.both, 18e6) << wifi;
    EXPECT_LT(mean.both, 19.5e6) << wifi;
    EXPECT_TRUE(links.difference.held()) << wifi;
    links.run(3, 25e6, 18e6);
    EXPECT_EQ(links.mean(10, 25e6, 18e6).cell, 0);
    EXPECT_EQ(links.difference.pace(), std::nullopt) << "what is still queued by cellular shall go";
  }
}

TEST(difference, one_that_is_paced_goes_on_while_wifi_brings_a_little_more_now_and_then)
{
  Links links;
  links.paced = links.obeys = true;
  links.run(5, 20e6, 18e6);
  links.run(5, 10e6, 18e6);
  links.switches = 0;
  for (int i = 0; i < 10; ++i)
  {
    links.run(1, 8e6, 18e6);
    links.run(1, 13e6, 18e6);
  }
  EXPECT_EQ(links.switches, 0);
  EXPECT_GT(links.mean(10, 10e6, 18e6).both, 18e6);
}

TEST(difference, a_stretch_in_which_cellular_could_not_is_made_up_for_without_haste)
{
  Links links;
  links.paced = links.obeys = true;
  links.run(5, 20e6, 18e6);
  links.run(5, 10e6, 2e6);
  links.switches = 0;
  EXPECT_LT(links.mean(1, 10e6, 18e6).cell, 15e6);
  links.run(20, 10e6, 18e6);
  EXPECT_EQ(links.switches, 0);
}

TEST(difference, a_pace_that_nobody_keeps_costs_no_more_than_a_break)
{
  Links links;
  links.paced = true;
  links.run(5, 20e6, 18e6);
  links.run(5, 10e6, 18e6);
  const Links::Mean mean = links.mean(30, 10e6, 18e6);
  EXPECT_GT(mean.both, 18e6);
  EXPECT_LT(mean.both, 19.5e6);
  EXPECT_GT(links.switches, 5);
}

TEST(difference, no_pace_where_wifi_leaves_or_is_gone)
{
  Links links;
  links.paced = links.obeys = true;
  links.run(5, 20e6, 18e6);
  EXPECT_EQ(links.difference.pace(), std::nullopt) << "not used";
  links.run(5, 10e6, 18e6);
  ASSERT_TRUE(links.difference.pace());
  EXPECT_NEAR(*links.difference.pace(), 8.5e6, 1e6);
  links.leaving = true;
  links.run(0.1, 10e6, 18e6);
  EXPECT_EQ(links.difference.pace(), std::nullopt);
  links.leaving = false;
  links.run(3, 10e6, 18e6);
  links.up = false;
  links.run(0.1, 0, 18e6);
  EXPECT_TRUE(links.use);
  EXPECT_EQ(links.difference.pace(), std::nullopt);
}

TEST(difference, what_cannot_be_held_is_said_and_not_made_up_for_later)
{
  Links links;
  links.run(5, 20e6, 6e6);
  links.run(5, 5e6, 6e6);
  EXPECT_FALSE(links.difference.held());
  EXPECT_THAT(links.difference.why(), HasSubstr("more than Wi-Fi and cellular carry"));
  EXPECT_NEAR(links.difference.wifi(), 5e6, 1e5);
  EXPECT_NEAR(links.difference.cell(), 6e6, 1e5);
  links.run(20, 5e6, 6e6);
  const auto before = links.cell;
  links.run(10, 25e6, 6e6);
  EXPECT_LT(links.cell - before, 6e6 / 8 * 4) << "a second of R0 at most is owed";
  EXPECT_TRUE(links.difference.held());
}

TEST(difference, a_download_that_wants_no_more_is_found_out_and_left_alone)
{
  Links links;
  links.limited = false;
  links.wanted = 8e6;
  links.run(4, 20e6, 18e6);
  EXPECT_THAT(links.difference.why(), HasSubstr("adds nothing"));
  const auto trial = links.cell;
  EXPECT_GT(trial, 0u);
  links.run(8, 20e6, 18e6);
  EXPECT_EQ(links.cell, trial) << "rests for 10 s";
  links.run(188, 20e6, 18e6); // trials after 10, 20, 40 and 80 s
  EXPECT_LT(links.cell, 6 * trial);
  // With a queue at the access point it is the links.
  Links limited;
  limited.wanted = 8e6;
  limited.run(10, 8e6, 18e6);
  EXPECT_THAT(limited.difference.why(), HasSubstr("more than Wi-Fi and cellular carry"));
}

TEST(difference, says_so_when_nothing_comes_by_cellular)
{
  Links links;
  links.run(5, 10e6, 0);
  EXPECT_THAT(links.difference.why(), HasSubstr("nothing comes by cellular"));
  EXPECT_FALSE(links.use);
  EXPECT_FALSE(links.difference.held());
}

// Nobody wanted anything meanwhile: that is no word on cellular.
TEST(difference, what_was_silent_without_wifi_does_not_rest_once_wifi_is_back)
{
  Links links;
  links.run(5, 20e6, 18e6);
  links.up = false;
  links.wanted = 0;
  links.run(60, 0, 18e6);
  links.up = true;
  links.run(5, 20e6, 18e6);
  EXPECT_EQ(links.cell, 0u);
  links.wanted = 1e9;
  links.run(3, 10e6, 18e6);
  EXPECT_GT(links.cell, 0u);
  EXPECT_GT(links.mean(10, 10e6, 18e6).both, 18e6);
}

TEST(difference, what_must_not_be_used_is_not)
{
  Links links;
  links.hindered = "rate: the cellular budget is spent";
  links.run(10, 10e6, 18e6);
  EXPECT_EQ(links.cell, 0u);
  EXPECT_FALSE(links.difference.held());
  EXPECT_EQ(links.difference.why(), links.hindered);
  // In the middle of it.
  links.hindered = {};
  links.run(5, 10e6, 18e6);
  EXPECT_GT(links.cell, 0u);
  links.hindered = "rate: the cellular budget is spent";
  links.run(1, 10e6, 18e6);
  const auto then = links.cell;
  links.run(10, 10e6, 18e6);
  EXPECT_EQ(links.cell, then);
}

TEST(difference, without_wifi_it_waits_for_nothing)
{
  Links links;
  links.run(5, 20e6, 18e6);
  links.up = false;
  links.run(0.1, 0, 18e6);
  EXPECT_TRUE(links.use);
}

TEST(difference, cellular_takes_over_before_the_handoff)
{
  Links links;
  links.limited = false;
  links.run(5, 20e6, 30e6);
  links.leaving = true;
  links.run(0.1, 20e6, 30e6);
  EXPECT_TRUE(links.use);
  EXPECT_TRUE(links.difference.needed());
  EXPECT_THAT(links.difference.why(), HasSubstr("takes over at a handoff"));
  links.run(1.9, 20e6, 30e6); // both bring more than R0: it goes on
  EXPECT_TRUE(links.use);
  links.leaving = links.up = false;
  links.run(0.1, 0, 30e6);
  EXPECT_TRUE(links.use) << "what was saved up meanwhile does not stop it now";
  EXPECT_EQ(links.mean(7, 0, 30e6).both, 30e6);
  EXPECT_GT(links.mean(8, 0, 30e6).both, 17e6) << "nor is it tried whether cellular adds something";
  EXPECT_TRUE(links.difference.held());
  links.up = true;
  links.run(3, 25e6, 30e6);
  EXPECT_EQ(links.mean(10, 25e6, 30e6).cell, 0);
  // Nor by a rest, which is for those that want no more than Wi-Fi brings.
  links.run(2, 10e6, 30e6);
  EXPECT_GT(links.mean(10, 10e6, 30e6).cell, 5e6);
}

TEST(difference, a_handoff_that_does_not_come_costs_ten_seconds_at_most)
{
  Links links;
  links.run(5, 20e6, 18e6);
  links.leaving = true;
  links.run(60, 20e6, 18e6);
  EXPECT_GT(links.cell, 9 * 18e6 / 8);
  EXPECT_LT(links.cell, 11 * 18e6 / 8);
  // A warning that comes and goes is one in 20 s.
  links.leaving = false;
  links.run(30, 20e6, 18e6);
  const auto before = links.cell;
  for (int i = 0; i < 20; ++i)
  {
    links.leaving = !links.leaving;
    links.run(1, 20e6, 18e6);
  }
  EXPECT_GT(links.cell, before);
  EXPECT_LT(links.cell - before, 2 * 18e6 / 8);
}

TEST(difference, a_download_that_rests_is_taken_over_and_then_tried_again)
{
  Links links;
  links.limited = false;
  links.wanted = 8e6;
  links.run(4, 20e6, 18e6);
  ASSERT_THAT(links.difference.why(), HasSubstr("adds nothing"));
  const auto trial = links.cell;
  links.leaving = true;
  links.run(3, 20e6, 18e6);
  EXPECT_TRUE(links.use);
  EXPECT_GT(links.cell, trial);
  links.leaving = false;
  links.run(3, 20e6, 18e6);
  EXPECT_THAT(links.difference.why(), HasSubstr("adds nothing"));
  EXPECT_FALSE(links.use);
}

TEST(difference, nothing_takes_over_where_nothing_comes_or_may)
{
  Links idle;
  idle.run(5, 20e6, 18e6);
  idle.run(1, 0, 18e6);
  idle.leaving = true;
  idle.run(30, 0, 18e6);
  EXPECT_FALSE(idle.use);
  EXPECT_EQ(idle.cell, 0u);
  Links hindered;
  hindered.hindered = "rate: the cellular budget is spent";
  hindered.run(5, 20e6, 18e6);
  hindered.leaving = true;
  hindered.run(30, 5e6, 18e6);
  EXPECT_EQ(hindered.cell, 0u);
  EXPECT_EQ(hindered.difference.why(), hindered.hindered);
  // In the middle of it.
  hindered.leaving = false;
  hindered.hindered = {};
  hindered.run(30, 20e6, 18e6);
  hindered.leaving = true;
  hindered.run(2, 20e6, 18e6);
  ASSERT_TRUE(hindered.use);
  hindered.hindered = "rate: the cellular budget is spent";
  hindered.run(0.1, 20e6, 18e6);
  EXPECT_FALSE(hindered.use);
}

TEST(difference, a_pause_is_no_lack)
{
  Links links;
  links.run(5, 20e6, 18e6);
  links.run(30, 0, 18e6);
  EXPECT_EQ(links.cell, 0u);
  EXPECT_TRUE(links.difference.idle());
  links.run(5, 20e6, 18e6);
  EXPECT_EQ(links.cell, 0u);
}

} // namespace
} // namespace tandem::rate
