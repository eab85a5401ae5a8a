#include "modules/mirror/episode.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <initializer_list>

namespace tandem::mirror
{
namespace
{

using namespace std::chrono_literals;

struct EpisodeTest : ::testing::TestWithParam<std::uint32_t>
{
  // Numbers are written from 0 and begin somewhere, so that the wrap is somewhere within.
  Seq base { GetParam() };
  TsClock clock { GetParam() };
  Episode episode {};
  Tick now { 1s };
  Seq said = base;

  struct Range
  {
    std::uint32_t left = 0, right = 0;
  };
  Segment ack(std::uint32_t number, std::uint32_t echo, std::initializer_list<Range> sacks = {},
              std::uint16_t flags = 0) const
  {
    Segment s {};
    s.flags = tcp_flag::ack | flags;
    s.ack = base + number;
    s.timestamps = Timestamps { {}, clock + echo };
    for (const Range& one : sacks)
      s.sack_blocks[s.sack_count++] = { base + one.left, base + one.right };
    return s;
  }
  // As the module does it.
  Step show(const Segment& segment, Duration later = 1ms, bool dry = false)
  {
    now += later;
    const bool progress = segment.ack.after(said);
    if (progress) said = segment.ack;
    if (episode.stage == Stage::none)
    {
      episode.next(segment, now);
      return {};
    }
    const Step step = episode.acknowledged(segment, progress, dry, 50ms, now);
    if (step.crossed) crossed = episode, episode.next(segment, now);
    return step;
  }
  std::uint32_t at(Seq number) const { return (number - base.raw).raw; }
  std::uint32_t at(TsClock value) const { return (value - clock.raw).raw; }
  Episode crossed {};
};
INSTANTIATE_TEST_SUITE_P(Wraps, EpisodeTest,
                         ::testing::Values(0u, 1000u, 0u - 10'500u, 0u - 12'000u, 0u - 1u, 0x80000000u - 11'000u));

TEST_P(EpisodeTest, NothingIsMissing)
{
  show(ack(10'000, 5));
  show(ack(11'000, 6));
  EXPECT_EQ(episode.stage, Stage::none);
}

TEST_P(EpisodeTest, OneHole)
{
  show(ack(10'000, 5));
  show(ack(10'000, 5, { { 11'000, 12'000 } }));
  ASSERT_EQ(episode.stage, Stage::open);
  EXPECT_EQ(episode.holes, 1);
  EXPECT_EQ(episode.lost, 1000u);
  EXPECT_EQ(at(episode.una), 10'000u);
  EXPECT_EQ(at(episode.old), 5u) << "what the data before the hole carried";
  EXPECT_EQ(show(ack(10'000, 5, { { 11'000, 14'000 } })).holes, 0u) << "the same hole";
  const Step step = show(ack(14'000, 30));
  EXPECT_TRUE(step.filled && step.crossed);
  EXPECT_EQ(at(crossed.point), 14'000u);
  EXPECT_EQ(at(crossed.old), 29u) << "one less than the retransmission";
  EXPECT_FALSE(crossed.late || crossed.chained || crossed.ece);
  EXPECT_EQ(at(crossed.first[0].left), 10'000u);
  EXPECT_EQ(at(crossed.first[0].right), 11'000u);
  EXPECT_EQ(episode.stage, Stage::none);
}

TEST_P(EpisodeTest, SeveralHolesAndTheirRecoveryPoint)
{
  show(ack(10'000, 5));
  show(ack(10'000, 5, { { 11'000, 12'000 } }));
  EXPECT_EQ(show(ack(10'000, 5, { { 14'000, 15'000 }, { 11'000, 12'000 } })).holes, 1u);
  EXPECT_EQ(episode.lost, 3000u);
  Step step = show(ack(12'000, 30, { { 14'000, 15'000 } }));
  EXPECT_TRUE(step.filled && !step.crossed);
  EXPECT_EQ(at(episode.point), 15'000u);
  step = show(ack(12'000, 30, { { 14'000, 16'000 } }));
  EXPECT_FALSE(step.filled || step.crossed) << "new data";
  EXPECT_EQ(at(episode.point), 15'000u) << "do not move it";
  step = show(ack(13'000, 31, { { 14'000, 16'000 } }));
  EXPECT_FALSE(step.crossed);
  step = show(ack(16'000, 32));
  EXPECT_TRUE(step.crossed);
  EXPECT_EQ(at(crossed.old), 29u) << "of the first retransmission, not of a later one";
  EXPECT_EQ(crossed.holes, 2);
  EXPECT_EQ(episode.stage, Stage::none);
}

TEST_P(EpisodeTest, BlocksInAnyOrder)
{
  std::array<Range, 3> blocks { { { 11'000, 12'000 }, { 13'000, 14'000 }, { 16'000, 17'000 } } };
  std::array<int, 3> order { 0, 1, 2 };
  do
  {
    episode = {};
    said = base + 10'000;
    show(ack(10'000, 5,
             { blocks[static_cast<std::size_t>(order[0])], blocks[static_cast<std::size_t>(order[1])],
               blocks[static_cast<std::size_t>(order[2])] }));
    EXPECT_EQ(episode.holes, 3);
    EXPECT_EQ(episode.lost, 4000u);
    EXPECT_EQ(at(episode.edge), 17'000u);
    EXPECT_EQ(at(episode.first[0].left), 10'000u);
    EXPECT_EQ(at(episode.first[1].left), 12'000u);
    EXPECT_EQ(at(episode.first[2].right), 16'000u);
  } while (std::next_permutation(order.begin(), order.end()));
}

TEST_P(EpisodeTest, MoreHolesThanBlocksCanShow)
{
  show(ack(10'000, 5));
  // Seven holes, the newest block first, as the local TCP reports them.
  for (std::uint32_t i = 0; i < 7; ++i)
  {
    const auto block = [&](std::uint32_t back) {
      return Range { 11'000 + 2000 * (i - back), 12'000 + 2000 * (i - back) };
    };
    show(i == 0   ? ack(10'000, 5, { block(0) })
         : i == 1 ? ack(10'000, 5, { block(0), block(1) })
                  : ack(10'000, 5, { block(0), block(1), block(2) }));
  }
  EXPECT_EQ(episode.holes, 7);
  EXPECT_EQ(episode.lost, 7000u);
  EXPECT_EQ(at(episode.edge), 24'000u);
  unsigned crossings = 0;
  for (std::uint32_t i = 1; i <= 7; ++i)
    crossings += show(i == 7 ? ack(24'000, 30 + i) : ack(10'000 + 2000 * i, 30 + i, { { 23'000, 24'000 } })).crossed;
  EXPECT_EQ(crossings, 1u) << "once";
  EXPECT_EQ(at(crossed.point), 24'000u);
  EXPECT_EQ(at(crossed.old), 30u);
}

TEST_P(EpisodeTest, ReportsOfDuplicatesAreNoHoles)
{
  show(ack(10'000, 5));
  show(ack(10'000, 5, { { 8000, 9000 } }));
  EXPECT_EQ(episode.stage, Stage::none) << "below the number";
  show(ack(10'000, 5, { { 9000, 10'000 } }));
  EXPECT_EQ(episode.stage, Stage::none) << "up to it";
  show(ack(10'000, 5, { { 8000, 9000 }, { 11'000, 12'000 } }));
  EXPECT_EQ(episode.holes, 1) << "and a hole beside it";
  EXPECT_EQ(episode.lost, 1000u);
  show(ack(10'000, 5, { { 11'000, 11'500 }, { 11'000, 12'000 } }));
  EXPECT_EQ(episode.holes, 1) << "a duplicate beyond the hole (RFC 2883 section 4)";
  show(ack(12'000, 30, { { 10'000, 11'000 } }));
  EXPECT_EQ(at(crossed.point), 12'000u);
  EXPECT_EQ(episode.stage, Stage::none);
}

TEST_P(EpisodeTest, NonsenseBlocksAreNoHoles)
{
  show(ack(10'000, 5));
  show(ack(10'000, 5, { { 12'000, 11'000 } }));
  show(ack(10'000, 5, { { 11'000, 11'000 } }));
  EXPECT_EQ(episode.stage, Stage::none);
}

TEST_P(EpisodeTest, LateRetransmission)
{
  show(ack(10'000, 5));
  show(ack(10'000, 5, { { 11'000, 12'000 } }));
  show(ack(10'000, 5, { { 11'000, 20'000 } }), 30ms);
  const Step step = show(ack(10'500, 60, { { 11'000, 20'000 } }), 21ms);
  EXPECT_TRUE(step.filled && step.crossed) << "any progress may be the one";
  EXPECT_TRUE(crossed.late);
  EXPECT_EQ(at(crossed.old), 5u) << "older than a retransmission that never arrived";
}

// Two segments lost before the short end of an answer: the sender's timer takes both for lost, and repairs one in each
// round trip.
TEST_P(EpisodeTest, WhatIsRepairedByTheTimerWithNothingBehindEndsAtItsEnd)
{
  show(ack(10'000, 5));
  show(ack(10'000, 5, { { 12'000, 12'477 } }));
  Step step = show(ack(11'000, 30, { { 12'000, 12'477 } }), 300ms, true);
  EXPECT_TRUE(step.filled);
  EXPECT_FALSE(step.crossed) << "the hole that is left has its mark still";
  EXPECT_TRUE(episode.late);
  EXPECT_EQ(at(episode.point), 12'477u);
  step = show(ack(12'477, 50), 20ms, false);
  EXPECT_TRUE(step.crossed);
  EXPECT_EQ(at(crossed.old), 29u) << "no round-trip sample of the whole pause";
  EXPECT_EQ(episode.stage, Stage::none);
}

TEST(EndsShort, IsSaidOfTheHighestBlockAlone)
{
  const auto shows = [](std::initializer_list<std::pair<std::uint32_t, std::uint32_t>> blocks)
  {
    Segment s {};
    s.flags = tcp_flag::ack;
    s.ack = Seq { 1000 };
    for (const auto& [left, right] : blocks)
      s.sack_blocks[s.sack_count++] = { Seq { left }, Seq { right } };
    return s;
  };
  EXPECT_TRUE(ends_short(shows({ { 2448, 2925 } }), 1448));
  EXPECT_TRUE(ends_short(shows({ { 2448, 3896 + 477 } }), 1448));
  EXPECT_FALSE(ends_short(shows({ { 2448, 3896 } }), 1448));
  EXPECT_FALSE(ends_short(shows({ { 6000, 6000 + 2896 }, { 2448, 2925 } }), 1448)) << "more came behind it";
  EXPECT_FALSE(ends_short(shows({}), 1448));
  EXPECT_FALSE(ends_short(shows({ { 500, 700 } }), 1448)) << "a duplicate (RFC 2883)";
  EXPECT_FALSE(ends_short(shows({ { 2448, 2925 } }), 0));
}

TEST_P(EpisodeTest, Chain)
{
  show(ack(10'000, 5));
  show(ack(10'000, 5, { { 11'000, 12'000 } }));
  show(ack(10'000, 5, { { 13'000, 14'000 }, { 11'000, 12'000 } }));
  show(ack(12'000, 30, { { 13'000, 14'000 } }));
  EXPECT_EQ(show(ack(12'000, 30, { { 15'000, 16'000 }, { 13'000, 14'000 } })).holes, 1u);
  EXPECT_TRUE(show(ack(14'000, 31, { { 15'000, 16'000 } })).crossed);
  ASSERT_EQ(episode.stage, Stage::open);
  EXPECT_TRUE(episode.chained);
  EXPECT_EQ(episode.holes, 1) << "carried over";
  EXPECT_EQ(at(episode.first[0].left), 14'000u);
  EXPECT_EQ(at(episode.first[0].right), 15'000u);
  EXPECT_EQ(at(episode.old), 29u) << "the sender has not forgotten its first retransmission";
  EXPECT_TRUE(show(ack(16'000, 60)).crossed);
  EXPECT_EQ(at(crossed.old), 29u);
  EXPECT_EQ(episode.stage, Stage::none);
  show(ack(16'000, 60, { { 17'000, 18'000 } }));
  EXPECT_FALSE(episode.chained) << "over";
  EXPECT_EQ(at(episode.old), 60u);
}

TEST_P(EpisodeTest, ChainThroughAHoleThatNobodySawBefore)
{
  show(ack(10'000, 5));
  show(ack(10'000, 5, { { 11'000, 12'000 } }));
  EXPECT_TRUE(show(ack(12'000, 30, { { 13'000, 14'000 } })).crossed);
  EXPECT_TRUE(episode.chained);
  EXPECT_EQ(episode.holes, 1);
  EXPECT_EQ(episode.lost, 1000u);
  EXPECT_EQ(at(episode.first[0].left), 12'000u);
  EXPECT_EQ(at(episode.first[0].right), 13'000u);
}

TEST_P(EpisodeTest, CongestionIsRemembered)
{
  show(ack(10'000, 5));
  show(ack(10'000, 5, { { 11'000, 12'000 } }));
  show(ack(10'000, 5, { { 11'000, 13'000 } }, tcp_flag::ece));
  show(ack(13'000, 30));
  EXPECT_TRUE(crossed.ece);
  show(ack(13'000, 30, { { 14'000, 15'000 } }));
  EXPECT_FALSE(episode.ece) << "of another episode";
  episode = {};
  show(ack(13'000, 30, { { 14'000, 15'000 } }, tcp_flag::ece));
  EXPECT_TRUE(episode.ece) << "the first one counts as well";
}

// By a raw socket a program says what it likes in the name of its own connection. Three blocks, each of which is behind
// the one before in the space of sequence numbers, have no highest byte.
TEST_P(EpisodeTest, BlocksThatGoRoundTheSpaceOfNumbersHaveAnEnd)
{
  show(ack(0, 1));
  show(ack(0, 1, { { 0x00000010, 0x2aaaaaaa }, { 0x10000000, 0x80000000 }, { 0x70000000, 0xd5555555 } }));
  EXPECT_EQ(at(episode.edge), 0x2aaaaaaau);
  EXPECT_EQ(episode.holes, 1u);
}

} // namespace
} // namespace tandem::mirror
