// What the papers of the rate policies leave open, as options of the scenarios.

#include "tools/sim/channel_scenarios.h"
#include "tools/sim/handoff_scenario.h"
#include "tools/sim/slot_scenarios.h"

#include <gtest/gtest.h>

namespace tandem::sim::test
{

namespace
{

double share_of(const UsersRun& run)
{
  return users(run).at("share").get<double>();
}

TEST(Readings, WhereUsersBeginAndInWhichOrderTheyGo)
{
  UsersRun run;
  run.jitter_least_ms = run.jitter_most_ms = 0;
  run.seconds = 60;
  run.start = "together";
  EXPECT_NEAR(share_of(run), 1.0 / 3, 0.01) << "all three on the same channel for ever";
  for (const char* start : { "slot", "cycle" })
  {
    run.start = start;
    EXPECT_GT(share_of(run), 0.4) << start;
  }
  run.start = "together";
  run.order = "new";
  EXPECT_GT(share_of(run), 0.6) << "nobody meets the same ones for long";
  run.order = "each";
  run.seed = 2;
  EXPECT_GT(share_of(run), 0.34);
}

TEST(Readings, SlotsStayForAnInterval)
{
  SwitchingRun run;
  run.mbps = { 20, 5 };
  run.seconds = 20;
  run.interval = 1000;
  EXPECT_NEAR(switching(run).at("subflows").at(0).at("share").get<double>(), 0.5, 0.02) << "never changed";
  run.interval = 1;
  EXPECT_GT(switching(run).at("subflows").at(0).at("share").get<double>(), 0.6);
}

TEST(Readings, HowLateIsTooLateForAnAnswer)
{
  SlotRun run;
  run.samples = 0;
  run.strategy = "min-max";
  const auto first = [&] { return slots(run).at("points").at(0).at("rtt_ms").at(0).get<double>(); };
  const double usual = first();
  run.air_ms = 4;
  EXPECT_GT(first(), usual * 1.02);
}

TEST(Readings, WindowsOfClaAreHeld)
{
  HandoffRun run;
  run.arm = "cla";
  const auto rtt = [&] { return handoff(run).at("near").at("rtt_ms").get<double>(); };
  const double set = rtt();
  run.reading = "held";
  EXPECT_LT(rtt(), 0.5 * set);
}

TEST(Readings, ATimerThatIsNotForgottenShortensTheGap)
{
  HandoffRun run;
  run.arm = "cla";
  const auto gap = [&] { return handoff(run).at("near").at("gap_ms").get<double>(); };
  EXPECT_GT(gap(), 1000) << "the initial timeout";
  run.forget = false;
  EXPECT_LT(gap(), 500);
}

} // namespace
} // namespace tandem::sim::test
