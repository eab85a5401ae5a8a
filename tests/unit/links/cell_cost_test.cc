// The numbers; the services themselves are played in tests/lab/test_money.py.
#include "src/links/bus.h"
#include "src/links/cell_cost.h"

#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <string>

namespace tandem::links
{
namespace
{

TEST(CellCosts, AGuessCountsAsMuchAsKnowledge)
{
  EXPECT_EQ(metered(0), std::nullopt);
  EXPECT_EQ(metered(1), true);
  EXPECT_EQ(metered(2), false);
  EXPECT_EQ(metered(3), true);
  EXPECT_EQ(metered(4), false);
  EXPECT_EQ(metered(99), std::nullopt);
}

using namespace std::chrono_literals;

class CostsThatCount : public testing::Test
{
protected:
  CellCost said(std::optional<bool> roaming, const std::string& interface = "wwan0")
  {
    return { .known = true, .roaming = roaming, .interface = interface };
  }
  CellCost take(const CellCost& one, const std::string& interface = "wwan0")
  {
    return counts.take(one, interface, now);
  }
  CostThatCounts counts {};
  Tick now { 100s };
};

TEST_F(CostsThatCount, ByTheirWordOnTheInterface)
{
  EXPECT_EQ(take(said(true)).roaming, true);
  EXPECT_EQ(take(said(false)).roaming, false);
  EXPECT_EQ(take(said({})).roaming, std::nullopt);
  EXPECT_TRUE(take(said({})).known);
}

TEST_F(CostsThatCount, WhileAServiceIsStartedAnew)
{
  ASSERT_EQ(take(said(true)).roaming, true);
  now += 1h; // nobody looks while the loop rests
  EXPECT_EQ(take(said({})).roaming, true);
  now += 14s;
  EXPECT_EQ(take(CellCost { .known = true }).roaming, true) << "the whole bus";
  EXPECT_EQ(take(said(false)).roaming, false);
  EXPECT_EQ(take(said({})).roaming, std::nullopt) << "it was said that it does not";
  ASSERT_EQ(take(said(true)).roaming, true);
  EXPECT_EQ(take(said({})).roaming, true);
  now += 15s;
  EXPECT_EQ(take(said({})).roaming, std::nullopt) << "the service is not there";
  EXPECT_EQ(take(said({})).roaming, std::nullopt);
}

TEST_F(CostsThatCount, OfNoOtherInterface)
{
  ASSERT_TRUE(take(said(false)).known);
  EXPECT_FALSE(take(said(false), "wwan1").known) << "it has not been asked about";
  EXPECT_TRUE(take(said(false, "wwan1"), "wwan1").known);
  ASSERT_EQ(take(said(true, "wwan1"), "wwan1").roaming, true);
  EXPECT_EQ(take(said({}), "wwan0").roaming, std::nullopt) << "it was the other one that roamed";
  EXPECT_TRUE(take(CellCost { .known = true }, "wwan1").known) << "without a bus nobody can know";
}

// A service that hung when it was asked may go on without a word: a modem that roams all the while announces nothing.
TEST(BusServices, OneThatFailedIsAskedAgainThoughItSaysNothing)
{
  BusService one { .name = "org.example", .owner = ":1.5" };
  Tick now { 100s };
  ASSERT_TRUE(one.due(now));
  for (const Duration pause : std::initializer_list<Duration> { 5s, 10s, 20s, 40s, 80s, 160s, 320s, 600s, 600s })
  {
    one.begin();
    EXPECT_FALSE(one.due(now + 1h)) << "it is being asked";
    one.failed(now);
    EXPECT_TRUE(one.settled()) << "nobody waits for it any longer";
    EXPECT_FALSE(one.due(now + pause - 1ms));
    now += pause;
    EXPECT_TRUE(one.due(now));
  }
  one.begin();
  one.done();
  EXPECT_FALSE(one.due(now + 1h)) << "it has answered";
  one.again = true;
  EXPECT_TRUE(one.due(now)) << "it has announced a change";
  one.begin();
  one.failed(now);
  EXPECT_TRUE(one.due(now + 5s)) << "the pauses begin anew";
  one.begin_anew({});
  EXPECT_FALSE(one.due(now + 1h)) << "it is not there";
}

} // namespace
} // namespace tandem::links
