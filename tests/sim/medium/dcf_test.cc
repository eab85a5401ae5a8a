// What the air owes every packet: one end, in order, on a shared half-duplex channel, with as many attempts as allowed.

#include "tests/sim/medium/bench.h"

#include <gtest/gtest.h>

#include <map>

namespace tandem::medium::test
{

namespace
{

struct Interval
{
  Tick from {};
  Tick to {};
};

// Keeps both directions of one or more stations backlogged for `length`, and collects all that comes out.
struct TwoWay
{
  explicit TwoWay(const AirConfig& config, std::uint64_t seed = 5) : air(config, seed, box)
  {
    box.want_frames = true;
    ap = air.add_access_point(Tick {}, 1);
    station = air.add_station(ap);
    air.observe(station);
  }

  void run(Duration length)
  {
    Tick now {};
    while (now < at(length))
    {
      while (air.queued(ap, station) < 10)
        submit(now, ap, station);
      while (air.queued(station, ap) < 10)
        submit(now, station, nobody);
      now += 100us;
      air.run_until(now);
      collect();
    }
  }

  void submit(Tick now, NodeId from, NodeId to)
  {
    const Packet packet = feeder.make(1000);
    ++submitted;
    air.submit(now, packet, from, to);
    collect();
  }

  void collect()
  {
    for (const auto& d : box.deliveries)
    {
      ++ends[d.handle];
      delivered[d.to].push_back(d.handle);
    }
    for (const auto& d : box.drops)
    {
      ++ends[d.handle];
      ++drops[d.why];
    }
    frames.insert(frames.end(), box.frames.begin(), box.frames.end());
    box.clear();
  }

  Outbox box;
  Air air;
  NodeId ap = 0, station = 0;
  Feeder feeder;
  std::size_t submitted = 0;
  std::map<Handle, int> ends;
  std::map<NodeId, std::vector<Handle>> delivered;
  std::map<DropReason, int> drops;
  std::vector<FrameReport> frames;
};

TEST(Dcf, TheChannelIsHalfDuplex)
{
  AirConfig config = quiet(Standard::g, 54);
  config.beacon_interval = 102400us;
  TwoWay bench(config);
  bench.run(2s);
  ASSERT_GT(bench.frames.size(), 4000u);
  // Frames overlap only when they collided, and then they are marked so.
  std::size_t beacons = 0, collisions = 0;
  for (std::size_t i = 1; i < bench.frames.size(); ++i)
  {
    const auto& before = bench.frames[i - 1];
    const auto& frame = bench.frames[i];
    beacons += frame.type == FrameType::beacon;
    collisions += frame.collision;
    const bool overlap = frame.start < before.start + before.duration;
    EXPECT_EQ(overlap, before.collision && frame.collision && frame.start == before.start) << i;
    // Nobody moves within EIFS of a collision's end: the longest of the frames that met.
    if (before.collision && !frame.collision && i > 1)
    {
      const Tick end =
          std::max(before.start + before.duration, bench.frames[i - 2].start + bench.frames[i - 2].duration);
      EXPECT_GE(frame.start - end, config.phy.eifs()) << i;
    }
  }
  EXPECT_NEAR(static_cast<double>(beacons), 2 / 0.1024, 2);
  EXPECT_GT(collisions, 100u);
}

TEST(Dcf, EveryPacketHasExactlyOneEndAndOrderIsKept)
{
  AirConfig config = quiet(Standard::g, 54);
  config.frame_error = 0.4;
  config.retry_limit = 3;
  config.loss_down.random = 0.01;
  TwoWay bench(config);
  bench.run(3s);
  bench.air.run_until(at(4s));
  bench.collect();
  EXPECT_EQ(bench.ends.size(), bench.submitted);
  for (const auto& [handle, count] : bench.ends)
    EXPECT_EQ(count, 1) << handle;
  for (const auto& [node, handles] : bench.delivered)
    EXPECT_TRUE(std::is_sorted(handles.begin(), handles.end()));
  EXPECT_GT(bench.drops[DropReason::retry_limit], 0);
  EXPECT_GT(bench.drops[DropReason::loss], 0);
}

TEST(Dcf, RetryLimitIsTheNumberOfAttemptsOfAPacket)
{
  AirConfig config = quiet(Standard::g, 54);
  config.frame_error = 1;
  config.retry_limit = 4;
  TwoWay bench(config);
  bench.submit(Tick {}, bench.ap, bench.station);
  bench.submit(Tick {}, bench.ap, bench.station);
  bench.air.run_until(at(1s));
  bench.collect();
  EXPECT_EQ(bench.drops[DropReason::retry_limit], 2);
  ASSERT_EQ(bench.frames.size(), 8u);
  for (std::size_t i = 0; i < 8; ++i)
  {
    EXPECT_EQ(bench.frames[i].retry, i % 4 != 0) << i;
    EXPECT_EQ(bench.frames[i].sequence, i / 4) << i;
    EXPECT_TRUE(bench.frames[i].bad_fcs);
  }
}

TEST(Dcf, LossBehindTheRetriesIsPForEveryAttemptTogether)
{
  AirConfig config = quiet(Standard::g, 54);
  config.frame_error = 0.5;
  config.retry_limit = 3;
  TwoWay bench(config);
  bench.run(20s);
  double lost = bench.drops[DropReason::retry_limit];
  // Collisions fail attempts too, so only the bound from below is sharp: 0.5^3, and the share of collisions is about a
  // tenth.
  const double share = lost / static_cast<double>(bench.ends.size());
  EXPECT_GT(share, 0.125 * 0.97);
  EXPECT_LT(share, 0.125 * 1.6);
}

TEST(Dcf, ContentionWindowDoublesWithEachFailure)
{
  AirConfig config = quiet(Standard::g, 54);
  config.frame_error = 1;
  config.retry_limit = 7;
  double gap[7] = {};
  const int rounds = 400;
  for (int round = 0; round < rounds; ++round)
  {
    TwoWay bench(config, static_cast<std::uint64_t>(round));
    bench.submit(Tick {}, bench.ap, bench.station);
    bench.air.run_until(at(1s));
    bench.collect();
    ASSERT_EQ(bench.frames.size(), 7u);
    for (std::size_t i = 1; i < 7; ++i)
      gap[i] += seconds(bench.frames[i].start - bench.frames[i - 1].start - bench.frames[i - 1].duration) / rounds;
  }
  const Phy& phy = config.phy;
  const Duration response = phy.sifs + phy.airtime(phy.response_rate(phy.rates.back()), mac_bytes::ack);
  double window = 15;
  for (int i = 1; i < 7; ++i)
  {
    window = std::min(2 * window + 1, 1023.0);
    const double expected = seconds(response + phy.difs()) + window / 2 * seconds(phy.slot);
    EXPECT_NEAR(gap[i] / expected, 1.0, 0.1) << "retry " << i;
  }
}

TEST(Dcf, AnIdleStationSendsAtOnce)
{
  const AirConfig config = quiet(Standard::g, 54);
  Outbox box;
  Air air(config, 1, box);
  const NodeId ap = air.add_access_point(Tick {}, 1);
  const NodeId station = air.add_station(ap);
  air.run_until(at(1s));
  air.submit(at(1s), { .handle = 1, .bytes = 1500 }, ap, station);
  air.run_until(at(2s));
  ASSERT_EQ(box.deliveries.size(), 1u);
  const Duration frame = config.phy.airtime(config.phy.rates.back(), config.phy.mpdu(1500));
  EXPECT_GE(box.deliveries[0].at, at(1s) + frame);
  EXPECT_LE(box.deliveries[0].at, at(1s) + frame + config.phy.slot);
}

TEST(Dcf, ChannelsAreIndependentAndOneChannelIsShared)
{
  const AirConfig config = quiet(Standard::g, 54);
  double alone = 0;
  for (unsigned second_channel : { 6u, 1u })
  {
    Outbox box;
    Air air(config, 9, box);
    const NodeId ap1 = air.add_access_point(Tick {}, 1);
    const NodeId ap2 = air.add_access_point(Tick {}, second_channel);
    air.add_background(Tick {}, air.add_station(ap1), Traffic::down, 1500, std::nullopt);
    air.add_background(Tick {}, air.add_station(ap2), Traffic::down, 1500, std::nullopt);
    air.run_until(at(10s));
    const double one = mbps(air.stats(ap1).delivered_bytes, 10s);
    if (second_channel == 6)
    {
      alone = one;
      EXPECT_EQ(air.stats(ap1).collisions, 0u);
    }
    else
    {
      EXPECT_NEAR(one / alone, 0.5, 0.03);
      EXPECT_GT(air.stats(ap1).collisions, 100u);
    }
  }
}

TEST(Dcf, QueueIsDropTail)
{
  AirConfig config = quiet(Standard::g, 54);
  config.ap_queue = 5;
  TwoWay bench(config);
  for (int i = 0; i < 8; ++i)
    bench.submit(Tick {}, bench.ap, bench.station);
  EXPECT_EQ(bench.drops[DropReason::queue_full], 3);
  bench.air.run_until(at(1s));
  bench.collect();
  EXPECT_EQ(bench.delivered[bench.station], (std::vector<Handle> { 0, 1, 2, 3, 4 }));
}

// More comes than the air takes: a drop-tail queue would be full for good, CoDel's falls back to about its target.
TEST(Dcf, CodelKeepsTheQueueOfAnAccessPointShort)
{
  AirConfig config = quiet(Standard::g, 54);
  config.ap_queue = 1000;
  config.codel = 20ms;
  TwoWay bench(config);
  int sent = 0;
  Tick now {};
  const auto offer = [&](Duration time, Duration apart)
  {
    for (const Tick end = now + time; now < end; ++sent)
    {
      now += apart;
      bench.air.run_until(now);
      bench.submit(now, bench.ap, bench.station);
    }
  };
  offer(300ms, 200us);
  EXPECT_GT(bench.air.queued(bench.ap, bench.station), 100u) << "an interval has to pass first";
  offer(4s, 325us); // about what the air takes
  EXPECT_LT(bench.air.queued(bench.ap, bench.station), 80u);
  bench.air.run_until(now + 1s);
  bench.collect();
  EXPECT_GT(bench.drops[DropReason::aqm], 50);
  EXPECT_EQ(bench.delivered[bench.station].size() + static_cast<std::size_t>(bench.drops[DropReason::aqm]),
            static_cast<std::size_t>(sent));
}

TEST(Dcf, CodelLosesNothingOfABurst)
{
  AirConfig config = quiet(Standard::g, 54);
  config.codel = 20ms;
  TwoWay bench(config);
  for (int i = 0; i < 60; ++i)
    bench.submit(Tick {}, bench.ap, bench.station);
  EXPECT_EQ(bench.air.queued(bench.ap, bench.station), 60u);
  bench.air.run_until(at(1s));
  bench.collect();
  EXPECT_EQ(bench.delivered[bench.station].size(), 60u);
  EXPECT_EQ(bench.air.queued(bench.ap, bench.station), 0u);
}

TEST(Dcf, AirlessPacketsTakeNoAirAndPassTheQueue)
{
  AirConfig config = quiet(Standard::g, 54);
  TwoWay bench(config);
  bench.box.want_frames = true;
  Packet ack { .handle = 77, .bytes = 52, .airless = true };
  bench.air.submit(Tick {}, ack, bench.station, nobody);
  bench.air.run_until(at(1s));
  bench.collect();
  EXPECT_TRUE(bench.frames.empty());
  EXPECT_EQ(bench.delivered[bench.ap], std::vector<Handle> { 77 });
}

TEST(Dcf, GroupAddressedPacketsAreSentOnceAtABasicRate)
{
  const AirConfig config = quiet(Standard::g, 54);
  TwoWay bench(config);
  bench.air.submit(Tick {}, { .handle = 1, .bytes = 100, .group = true }, bench.ap, nobody);
  bench.air.run_until(at(1s));
  bench.collect();
  ASSERT_EQ(bench.frames.size(), 1u); // no ACK
  EXPECT_EQ(bench.frames[0].receiver, nobody);
  EXPECT_EQ(bench.frames[0].mbps, 6);
  EXPECT_EQ(bench.delivered[bench.station], std::vector<Handle> { 1 });
}

TEST(Dcf, PoissonBackgroundTakesItsLoad)
{
  const AirConfig config = quiet(Standard::g, 54);
  Outbox box;
  Air air(config, 4, box);
  const NodeId ap = air.add_access_point(Tick {}, 1);
  air.add_background(Tick {}, air.add_station(ap), Traffic::down, 1492, 5_mbps);
  air.run_until(at(60s));
  EXPECT_NEAR(mbps(air.stats(ap).delivered_bytes, 60s), 5.0, 0.1);
}

} // namespace

} // namespace tandem::medium::test
