// What a sender does about losses, marks, timeouts and old timestamps.

#include "tests/sim/simulator/rig.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace tandem::sim::test
{

namespace
{

SenderConfig with(Algorithm algorithm, Repair repair = Repair::rack, bool ecn = false)
{
  SenderConfig config;
  config.algorithm = algorithm;
  config.repair = repair;
  config.ecn = ecn;
  return config;
}

std::vector<std::uint64_t> again(const std::vector<Packet>& packets)
{
  std::vector<std::uint64_t> found;
  for (const Packet& packet : packets)
    if (packet.retransmission) found.push_back(packet.seq);
  return found;
}

TEST(Sender, BeginsWithTenSegmentsAndDoubles)
{
  SenderRig rig(with(Algorithm::reno));
  EXPECT_EQ(rig.out.take().size(), 10u); // RFC 6928
  rig.round();
  EXPECT_EQ(rig.out.take().size(), 20u);
  EXPECT_DOUBLE_EQ(rig.sender.window().cwnd, 20);
  EXPECT_EQ(rig.sender.window().rtt, round_trip);
}

TEST(Sender, RepairsALossAtTheThirdSegmentBeyondIt)
{
  SenderRig rig(with(Algorithm::reno));
  rig.round();
  rig.out.take();
  const std::uint64_t hole = rig.sender.window().acked;
  rig.wait(round_trip);
  rig.acknowledge(hole, { { hole + 1, hole + 2 } });
  rig.acknowledge(hole, { { hole + 1, hole + 3 } });
  EXPECT_TRUE(again(rig.out.take()).empty());
  rig.acknowledge(hole, { { hole + 1, hole + 4 } });
  EXPECT_EQ(again(rig.out.take()), std::vector<std::uint64_t> { hole });
  EXPECT_EQ(rig.sender.state(), Sender::State::recovery);
  EXPECT_DOUBLE_EQ(rig.sender.window().ssthresh, 10); // half of 20, RFC 5681 equation 4 with the window in flight
  for (unsigned i = 5; i <= 20; ++i)
    rig.acknowledge(hole, { { hole + 1, hole + i } });
  rig.wait(round_trip);
  rig.acknowledge(rig.sender.window().sent);
  EXPECT_EQ(rig.sender.state(), Sender::State::open);
  EXPECT_EQ(rig.sender.stats().recoveries, 1u);
  EXPECT_EQ(rig.sender.stats().retransmissions, 1u);
}

TEST(Sender, TakesALateSegmentForLostAfterAQuarterOfARoundTrip)
{
  SenderRig rig(with(Algorithm::reno));
  rig.out.take();
  rig.wait(round_trip);
  rig.acknowledge(0, { { 1, 2 } });
  rig.wait(round_trip / 4 - 1ms);
  EXPECT_TRUE(again(rig.out.take()).empty());
  rig.wait(2ms); // RFC 8985 6.2
  EXPECT_EQ(again(rig.out.take()), std::vector<std::uint64_t> { 0 });
}

TEST(Sender, FindsALostRetransmission)
{
  SenderRig rig(with(Algorithm::reno));
  rig.out.take();
  rig.wait(round_trip);
  rig.acknowledge(0, { { 1, 5 } });
  EXPECT_EQ(again(rig.out.take()), std::vector<std::uint64_t> { 0 });
  rig.acknowledge(0, { { 1, 10 } }); // lets new segments out, behind the retransmission
  const auto sent = rig.out.take();
  ASSERT_FALSE(sent.empty());
  rig.wait(round_trip);
  rig.acknowledge(0, { { 1, 11 } });
  EXPECT_EQ(again(rig.out.take()), std::vector<std::uint64_t> { 0 });
}

TEST(Sender, WithoutSackRepairsOneHoleForEachPartialAcknowledgement)
{
  SenderRig rig(with(Algorithm::reno, Repair::reno));
  rig.out.take();
  rig.wait(round_trip);
  rig.acknowledge(1);
  for (int i = 0; i < 2; ++i)
    rig.acknowledge(1);
  EXPECT_TRUE(again(rig.out.take()).empty());
  rig.acknowledge(1);
  EXPECT_EQ(again(rig.out.take()), std::vector<std::uint64_t> { 1 });
  rig.wait(round_trip);
  rig.acknowledge(4); // RFC 6582: segment 4 is missing, too
  EXPECT_EQ(again(rig.out.take()), std::vector<std::uint64_t> { 4 });
  rig.acknowledge(rig.sender.window().sent);
  EXPECT_EQ(rig.sender.state(), Sender::State::open);
}

TEST(Sender, ReducesOnceAWindowForEceAndSaysSo)
{
  SenderRig rig(with(Algorithm::reno, Repair::rack, true));
  rig.round();
  rig.out.take();
  rig.wait(round_trip);
  const std::uint64_t edge = rig.sender.window().sent;
  std::uint64_t next = rig.sender.window().acked;
  while (next < edge)
    rig.acknowledge(++next, {}, true);
  EXPECT_EQ(rig.sender.stats().ecn_reductions, 1u);
  EXPECT_DOUBLE_EQ(rig.sender.window().ssthresh, 10);
  const auto sent = rig.out.take();
  EXPECT_TRUE(again(sent).empty());
  ASSERT_FALSE(sent.empty());
  EXPECT_TRUE(sent.front().cwr); // RFC 3168 6.1.2: the first new data packet after the reduction
  EXPECT_EQ(std::count_if(sent.begin(), sent.end(), [](const Packet& p) { return p.cwr; }), 1);
  EXPECT_TRUE(sent.front().ect);
  rig.round();
  EXPECT_EQ(rig.sender.state(), Sender::State::open);
  EXPECT_NEAR(rig.sender.window().cwnd, 11, 1.5);
  rig.wait(round_trip);
  rig.acknowledge(rig.sender.window().acked + 1, {}, true);
  EXPECT_EQ(rig.sender.stats().ecn_reductions, 2u);
}

// The receiver repeats ECE until it has the CWR, which leaves behind the recovery point.
TEST(Sender, DoesNotReduceAgainForTheWindowThatRecoveryWasAbout)
{
  SenderRig rig(with(Algorithm::reno, Repair::rack, true));
  rig.round();
  rig.wait(round_trip);
  const std::uint64_t hole = rig.sender.window().acked, edge = rig.sender.window().sent;
  rig.acknowledge(hole, { { hole + 1, hole + 5 } });
  ASSERT_EQ(rig.sender.state(), Sender::State::recovery);
  rig.wait(round_trip);
  rig.acknowledge(edge, {}, true);
  EXPECT_EQ(rig.sender.state(), Sender::State::open);
  EXPECT_EQ(rig.sender.stats().ecn_reductions, 0u);
  rig.acknowledge(rig.sender.window().acked, {}, true);
  EXPECT_EQ(rig.sender.stats().ecn_reductions, 0u);
  EXPECT_DOUBLE_EQ(rig.sender.window().ssthresh, 10);
}

TEST(Sender, IgnoresEceThatWasNotNegotiated)
{
  SenderRig rig(with(Algorithm::reno));
  EXPECT_FALSE(rig.out.take().front().ect);
  rig.wait(round_trip);
  rig.acknowledge(2, {}, true);
  EXPECT_EQ(rig.sender.stats().ecn_reductions, 0u);
}

TEST(Sender, ProbesTheTailThenTimesOutWithDoublingWaits)
{
  SenderRig rig(with(Algorithm::reno));
  rig.round();
  rig.out.take();
  rig.wait(150ms);
  EXPECT_TRUE(rig.out.take().empty());
  rig.wait(70ms); // two round trips: RFC 8985 7
  EXPECT_EQ(rig.out.take().size(), 1u);
  EXPECT_EQ(rig.sender.stats().probes, 1u);
  EXPECT_EQ(rig.sender.stats().timeouts, 0u);
  // srtt + max(200 ms, 4 var) behind the probe.
  rig.wait(270ms);
  EXPECT_EQ(rig.sender.stats().timeouts, 0u);
  for (int i = 0; i < 200 && rig.sender.stats().timeouts == 0; ++i)
    rig.wait(1ms);
  EXPECT_EQ(rig.sender.stats().timeouts, 1u);
  EXPECT_DOUBLE_EQ(rig.sender.window().cwnd, 1);
  EXPECT_DOUBLE_EQ(rig.sender.window().ssthresh, 10);
  EXPECT_EQ(again(rig.out.take()).size(), 1u);
  const Duration rto = rig.sender.rto();
  rig.wait(2 * rto - 10ms);
  EXPECT_EQ(rig.sender.stats().timeouts, 1u);
  rig.wait(20ms);
  EXPECT_EQ(rig.sender.stats().timeouts, 2u);
  EXPECT_DOUBLE_EQ(rig.sender.window().ssthresh, 10); // once for an episode
  // Everything is sent again, in slow start.
  for (int i = 0; i < 8; ++i)
    rig.round();
  EXPECT_EQ(rig.sender.state(), Sender::State::open);
}

TEST(Sender, TakesAReductionBackWhenTheEchoIsOlderThanTheRetransmission)
{
  for (const bool old : { false, true })
  {
    SenderRig rig(with(Algorithm::reno));
    rig.round();
    const std::uint32_t before = rig.world.clock();
    rig.wait(round_trip);
    const std::uint64_t hole = rig.sender.window().acked;
    rig.acknowledge(hole, { { hole + 1, hole + 5 } });
    ASSERT_EQ(rig.sender.state(), Sender::State::recovery);
    rig.wait(5ms);
    rig.acknowledge(hole + 20, {}, false, old ? before : 0);
    EXPECT_EQ(rig.sender.state(), Sender::State::open);
    EXPECT_EQ(rig.sender.stats().undone, old ? 1u : 0u);
    EXPECT_EQ(rig.sender.window().cwnd >= 20, old);
  }
}

TEST(Sender, DoesNotTakeBackWhatEceAskedFor)
{
  SenderRig rig(with(Algorithm::reno, Repair::rack, true));
  rig.round();
  const std::uint32_t before = rig.world.clock();
  rig.wait(round_trip);
  const std::uint64_t hole = rig.sender.window().acked;
  rig.acknowledge(hole, { { hole + 1, hole + 5 } }, true);
  rig.wait(5ms);
  rig.acknowledge(hole + 20, {}, false, before);
  EXPECT_EQ(rig.sender.stats().undone, 0u);
}

TEST(Sender, DropsAcknowledgementsOlderThanOneBefore)
{
  SenderRig rig(with(Algorithm::reno));
  rig.wait(round_trip);
  rig.acknowledge(2);
  Packet old;
  old.kind = Kind::ack;
  old.ack = 5;
  old.ts_value = rig.world.clock() - 10;
  const Handle handle = rig.world.pool.make();
  rig.world.pool[handle] = old;
  rig.sender.accept(handle);
  EXPECT_EQ(rig.sender.stats().paws, 1u);
  EXPECT_EQ(rig.sender.window().acked, 2u);
}

TEST(Sender, ObeysTheWindowOfAPlainConnection)
{
  SenderRig rig(with(Algorithm::reno));
  rig.out.take();
  rig.wait(round_trip);
  Packet ack;
  ack.kind = Kind::ack;
  ack.ack = 10;
  ack.window = 4 * 1448;
  ack.ts_echo = rig.world.clock();
  rig.give(ack);
  EXPECT_EQ(rig.out.take().size(), 4u);
}

} // namespace

} // namespace tandem::sim::test
