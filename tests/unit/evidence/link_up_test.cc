#include "src/evidence/link_up.h"

#include <gtest/gtest.h>

namespace tandem::evidence
{
namespace
{

using namespace std::chrono_literals;

struct AfterABlackout : ::testing::Test
{
  // At access point a, then away for a second.
  AfterABlackout()
  {
    link_up.see(true, "a", now);
    now += 1s;
    link_up.see(false, "a", now);
    now += 1s;
  }
  void back(const std::string& access_point = "a") { link_up.see(true, access_point, now); }
  std::optional<bool> settled()
  {
    now += LinkUp::settles;
    return link_up.due(now);
  }

  Tick now { 10s };
  LinkUp link_up {};
};

TEST_F(AfterABlackout, OneFlowWhoseFramesWereKeptSpeaksForAllWhoeverIsFirst)
{
  back();
  link_up.found(false);
  link_up.found(true);
  link_up.found(false);
  EXPECT_FALSE(link_up.due(now + 499ms)) << "others have not spoken yet";
  EXPECT_EQ(settled(), true);
  EXPECT_FALSE(settled()) << "once";
}

TEST_F(AfterABlackout, WithoutAnySuchFlowItKeptNothing)
{
  back();
  link_up.found(false);
  EXPECT_EQ(settled(), false);
}

TEST_F(AfterABlackout, WithoutAWordThereIsNothingToSay)
{
  link_up.found(true); // late, of the blackout before
  back();
  EXPECT_FALSE(settled());
}

TEST_F(AfterABlackout, AnotherAccessPointKeptNothingForThisOne)
{
  back("b");
  link_up.found(true);
  EXPECT_FALSE(settled());
}

TEST_F(AfterABlackout, ARoamThatIsToldLateCountsAsWell)
{
  back();
  link_up.found(true);
  now += 100ms;
  link_up.see(true, "b", now);
  EXPECT_FALSE(settled());
}

TEST_F(AfterABlackout, OneThatIsNotKnownIsNothing)
{
  LinkUp unknown {};
  unknown.see(true, {}, now);
  unknown.see(false, {}, now);
  unknown.see(true, {}, now);
  unknown.found(true);
  EXPECT_FALSE(unknown.due(now + 1s));
}

TEST_F(AfterABlackout, AShortOneShowsOnlyThatNothingIsKept)
{
  back();
  now += 1s;
  for (const bool kept : { true, false })
  {
    link_up.see(false, "a", now);
    now += LinkUp::shortest - 1ms;
    back();
    link_up.found(kept);
    EXPECT_EQ(settled(), kept ? std::nullopt : std::optional { false });
  }
}

TEST_F(AfterABlackout, ALinkThatGoesAgainAtOnceTeachesNothing)
{
  back();
  link_up.found(true);
  now += 100ms;
  link_up.see(false, "a", now);
  EXPECT_FALSE(settled());
  back();
  EXPECT_FALSE(settled());
}

} // namespace
} // namespace tandem::evidence
