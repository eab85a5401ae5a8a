// When a receiver acknowledges, and what.

#include "tests/sim/simulator/rig.h"

#include <gtest/gtest.h>

namespace tandem::sim::test
{

namespace
{

TEST(Receiver, AcknowledgesEverySecondSegmentOrAfter40Ms)
{
  ReceiverRig rig;
  rig.data(0);
  EXPECT_TRUE(rig.out.take().empty());
  rig.data(1);
  auto acks = rig.out.take();
  ASSERT_EQ(acks.size(), 1u);
  EXPECT_EQ(acks[0].ack, 2u);
  rig.data(2);
  rig.wait(39ms);
  EXPECT_TRUE(rig.out.take().empty());
  rig.wait(2ms);
  acks = rig.out.take();
  ASSERT_EQ(acks.size(), 1u);
  EXPECT_EQ(acks[0].ack, 3u);
}

TEST(Receiver, AcknowledgesTheFirstSegmentsAtOnce)
{
  ReceiverRig rig({ .quick = 3 });
  for (std::uint64_t seq = 0; seq < 4; ++seq)
    rig.data(seq);
  EXPECT_EQ(rig.out.take().size(), 3u);
}

TEST(Receiver, SaysAtOnceWhatArrivedBeyondAHoleNewestFirst)
{
  ReceiverRig rig;
  rig.data(1);
  rig.data(2);
  rig.data(5);
  auto acks = rig.out.take();
  ASSERT_EQ(acks.size(), 3u);
  const Packet& last = acks.back();
  EXPECT_EQ(last.ack, 0u);
  ASSERT_EQ(last.sacks, 2u);
  EXPECT_EQ(last.sack[0].from, 5u);
  EXPECT_EQ(last.sack[0].to, 6u);
  EXPECT_EQ(last.sack[1].from, 1u);
  EXPECT_EQ(last.sack[1].to, 3u);
  rig.data(0);
  acks = rig.out.take();
  ASSERT_EQ(acks.size(), 1u); // a filled hole is told at once
  EXPECT_EQ(acks[0].ack, 3u);
  ASSERT_EQ(acks[0].sacks, 1u);
  EXPECT_EQ(acks[0].sack[0].from, 5u);
}

TEST(Receiver, EchoesCongestionUntilTheSenderSaysItReduced)
{
  ReceiverRig rig;
  rig.data(0, true);
  rig.data(1);
  rig.data(2);
  rig.data(3);
  for (const Packet& ack : rig.out.take())
    EXPECT_TRUE(ack.ece);
  rig.data(4, false, true);
  rig.data(5);
  const auto acks = rig.out.take();
  ASSERT_FALSE(acks.empty());
  for (const Packet& ack : acks)
    EXPECT_FALSE(ack.ece);
  EXPECT_EQ(rig.receiver.stats().marked, 1u);
}

TEST(Receiver, EchoesTheTimestampOfTheFirstSegmentItHasNotAcknowledged)
{
  ReceiverRig rig;
  const std::uint32_t first = rig.world.clock();
  rig.data(0);
  rig.wait(20ms);
  rig.data(1);
  EXPECT_EQ(rig.out.take().at(0).ts_echo, first); // RFC 7323 4.3
}

TEST(Arrived, JoinsBlocks)
{
  Arrived arrived;
  for (const std::uint64_t seq : { 5u, 7u, 3u, 6u })
    EXPECT_TRUE(arrived.add(seq));
  EXPECT_FALSE(arrived.add(6));
  EXPECT_EQ(arrived.block(7).from, 5u);
  EXPECT_EQ(arrived.block(7).to, 8u);
  EXPECT_EQ(arrived.block(4).to, 0u);
  for (const std::uint64_t seq : { 0u, 1u, 2u })
    arrived.add(seq);
  EXPECT_EQ(arrived.next(), 4u);
  EXPECT_TRUE(arrived.holes());
  arrived.add(4);
  EXPECT_EQ(arrived.next(), 8u);
  EXPECT_FALSE(arrived.holes());
}

} // namespace

} // namespace tandem::sim::test
