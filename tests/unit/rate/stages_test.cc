#include "modules/rate/stages.h"

#include <gtest/gtest.h>

namespace tandem::rate
{
namespace
{

using namespace tandem::literals;

// delta0 20, delta1 25, delta2 12.
struct StagesTest : testing::Test
{
  Stage hear(std::optional<double> s1, std::optional<double> s2 = {}, bool at_risk = false, Duration later = 100ms)
  {
    return stages.look({}, { .now = now += later, .S1 = s1, .S2 = s2, .at_risk = at_risk });
  }
  Stages stages;
  Tick now {};
};

TEST_F(StagesTest, AFallingSignalGoesThroughAllOfThem)
{
  EXPECT_EQ(hear(40), Stage::stationary);
  EXPECT_EQ(hear(26.5), Stage::stationary);
  EXPECT_EQ(hear(25.5), Stage::pre_handoff) << "half of delta2 above the scan trigger";
  EXPECT_EQ(hear(9), Stage::pre_handoff);
  EXPECT_EQ(hear(7.5), Stage::handoff) << "a candidate as good as the trigger is delta2 better";
}

TEST_F(StagesTest, AHeardCandidateDecides)
{
  EXPECT_EQ(hear(25, -1), Stage::stationary) << "delta1 weaker";
  EXPECT_EQ(hear(25, 1), Stage::pre_handoff);
  EXPECT_EQ(hear(19, 24), Stage::pre_handoff);
  EXPECT_EQ(hear(19, 26), Stage::handoff);
  Stages strong;
  EXPECT_EQ(strong.look({}, { .S1 = 30, .S2 = 45 }), Stage::stationary) << "no card leaves a good access point";
}

TEST_F(StagesTest, WithoutASignalOnlyARiskCounts)
{
  EXPECT_EQ(hear({}), Stage::stationary);
  EXPECT_EQ(hear({}, {}, true), Stage::handoff);
  EXPECT_EQ(hear(50, {}, true), Stage::handoff);
}

TEST_F(StagesTest, ASignalThatMovesToAndFroChangesNothing)
{
  EXPECT_EQ(hear(25), Stage::pre_handoff);
  for (int i = 0; i < 100; ++i)
    EXPECT_EQ(hear(i % 2 == 0 ? 27.5 : 24), Stage::pre_handoff);
  for (int i = 0; i < 100; ++i)
    EXPECT_EQ(hear(i % 9 == 0 ? 25 : 31), Stage::pre_handoff) << "better for less than a second";
}

TEST_F(StagesTest, BackAfterASecondAndAtOnceAtAnotherAccessPoint)
{
  EXPECT_EQ(hear(25), Stage::pre_handoff);
  EXPECT_EQ(hear(30), Stage::pre_handoff);
  EXPECT_EQ(hear(30, {}, false, 900ms), Stage::pre_handoff);
  EXPECT_EQ(hear(30, {}, false, 100ms), Stage::stationary);
  EXPECT_EQ(hear(12), Stage::pre_handoff);
  EXPECT_EQ(hear(40), Stage::stationary) << "delta2 better than where the stage begins";
}

} // namespace
} // namespace tandem::rate
