// What losses say of the load, and what the order of arrivals says of the path.

#include "modules/mirror/load_watch.h"
#include "modules/mirror/path_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace tandem::mirror
{
namespace
{

using namespace std::chrono_literals;

class MirrorLoadWatch : public testing::Test
{
protected:
  // So many segments arrive, two with each ACK.
  void arrive(float segments)
  {
    for (; segments > 0; segments -= 2)
      watch.arrived(std::min(segments, 2.0f), now += 1ms);
  }
  // And then one is lost.
  void loss_after(float segments)
  {
    arrive(segments);
    watch.lost();
  }
  // And that one is left to the sender.
  void answer_after(float segments)
  {
    loss_after(segments);
    watch.answered(now);
  }

  LoadWatch watch {};
  Tick now { 100s };
};

TEST_F(MirrorLoadWatch, TellsAPolicerByTheTimeAfterAnAnswer)
{
  answer_after(200);
  loss_after(1200); // the sender has to grow again first
  for (int i = 0; i < 8; ++i)
    loss_after(100);
  EXPECT_FALSE(watch.tells()) << "too few losses to say how many are usual";
  loss_after(100);
  EXPECT_TRUE(watch.tells());
}

TEST_F(MirrorLoadWatch, SaysNothingWhereNoEpisodeWasLeftToTheSender)
{
  for (int i = 0; i < 100; ++i)
    loss_after(100);
  EXPECT_FALSE(watch.tells());
}

// While the sender grows again, and nothing was lost yet, the time since its answer counts already.
TEST_F(MirrorLoadWatch, CountsTheTimeSinceTheLastAnswer)
{
  for (int i = 0; i < 20; ++i)
    loss_after(100);
  answer_after(100);
  arrive(500);
  EXPECT_FALSE(watch.tells());
  arrive(200);
  EXPECT_TRUE(watch.tells());
}

TEST_F(MirrorLoadWatch, SaysNothingWhereAsMuchIsLostAfterAnAnswer)
{
  for (int i = 0; i < 100; ++i)
    if (i % 4 == 0)
      answer_after(100);
    else
      loss_after(100);
  EXPECT_FALSE(watch.tells());
}

// The air began to lose something long after an answer: that has no effect any more.
TEST_F(MirrorLoadWatch, DoesNotCountWhatComesLongAfterAnAnswer)
{
  answer_after(200);
  arrive(15000);
  for (int i = 0; i < 20; ++i)
    loss_after(300);
  EXPECT_FALSE(watch.tells());
}

TEST_F(MirrorLoadWatch, FindsItsMistakeWhereTheAirHasBegunToLoseMuch)
{
  answer_after(200);
  arrive(9000); // nothing is lost yet
  for (int i = 0; i < 14; ++i)
    loss_after(50);
  EXPECT_TRUE(watch.tells());
  int answers = 0;
  for (; watch.tells() && answers < 100; ++answers)
    answer_after(50);
  EXPECT_LE(answers, 4);
}

// An air that loses at random, whatever its rate, and one answer in so many episodes, is not taken for a policer.
TEST_F(MirrorLoadWatch, SeldomTakesRandomLossesForLoad)
{
  std::mt19937 luck { 7 }; // NOLINT: a fixed seed
  int mistakes = 0, flows = 0;
  for (const double loss : { 0.001, 0.003, 0.01, 0.03 })
    for (const unsigned answered : { 3u, 10u, 30u })
      for (int flow = 0; flow < 200; ++flow, ++flows)
      {
        watch = {};
        std::exponential_distribution<float> gap { static_cast<float>(loss) };
        int wrong = 0;
        for (int episode = 0; episode < 100; ++episode)
        {
          loss_after(gap(luck));
          wrong += watch.tells() ? 1 : 0;
          if (luck() % answered == 0) watch.answered(now);
        }
        mistakes += wrong > 0 ? 1 : 0;
      }
  EXPECT_LT(mistakes, flows / 50) << "of " << flows << " flows of a hundred episodes";
}

TEST(MirrorPathOrder, TakesNoAccidentForAHabit)
{
  PathOrder order {};
  for (std::uint32_t i = 0; i < 100; ++i)
    order.arrived({ i });
  order.arrived({ 90 });
  EXPECT_FALSE(order.reorders());
  EXPECT_EQ(order.newest(), TsClock { 99 });
  order.arrived({ 91 });
  EXPECT_TRUE(order.reorders());
}

// A connection was idle for 40 minutes, the server's clock ticks in microseconds: what comes looks older than what
// came. Or the first copy of all was a damaged one.
TEST(MirrorPathOrder, AClockThatHasGoneHalfRoundIsFollowedAgain)
{
  PathOrder order {};
  order.arrived({ 1000 });
  const TsClock later = TsClock { 1000 } + 2'400'000'000u;
  for (std::uint32_t i = 0; i < 500; ++i)
    order.arrived(later + i);
  EXPECT_EQ(order.newest(), later + 499);
  EXPECT_FALSE(order.reorders());
}

TEST(MirrorPathOrder, ForgetsAndKnowsWhereTheClockWraps)
{
  PathOrder order {};
  const TsClock late { 0xffffffffu };
  order.arrived(late);
  order.arrived(late);
  order.arrived(late + 1);
  order.arrived(late + 2);
  EXPECT_FALSE(order.reorders()) << "equal and wrapped values are in order";
  for (int i = 0; i < 4; ++i)
    order.arrived(late);
  EXPECT_TRUE(order.reorders());
  for (std::uint32_t i = 3; i < 1500; ++i)
    order.arrived(late + i);
  EXPECT_FALSE(order.reorders());
}

} // namespace
} // namespace tandem::mirror
