// Residual loss, blackouts, handoffs, power save.

#include "tests/sim/medium/bench.h"

#include <gtest/gtest.h>

namespace tandem::medium::test
{

namespace
{

struct Downlink
{
  explicit Downlink(const AirConfig& config) : air(config, 17, box)
  {
    ap = air.add_access_point(Tick {}, 1);
    ap2 = air.add_access_point(Tick {}, 6);
    station = air.add_station(ap);
    box.want_frames = true;
    air.observe(station);
  }

  // One packet every `gap` from `from` to `to`.
  void feed(Duration from, Duration to, Duration gap, NodeId source)
  {
    for (Duration t = from; t < to; t += gap)
    {
      air.run_until(at(t));
      air.submit(at(t), feeder.make(1000), source, station);
    }
  }
  void feed(Duration from, Duration to, Duration gap) { feed(from, to, gap, ap); }

  std::size_t delivered_between(Duration from, Duration to) const
  {
    return static_cast<std::size_t>(std::count_if(box.deliveries.begin(), box.deliveries.end(),
                                                  [&](const Delivery& d)
                                                  { return d.at >= at(from) && d.at < at(to); }));
  }
  std::size_t dropped(DropReason why) const
  {
    return static_cast<std::size_t>(
        std::count_if(box.drops.begin(), box.drops.end(), [why](const Drop& d) { return d.why == why; }));
  }

  Outbox box;
  Air air;
  NodeId ap = 0, ap2 = 0, station = 0;
  Feeder feeder;
};

TEST(ResidualLoss, IsSeenAsACorruptFrameAndCostsNoRetry)
{
  AirConfig config = quiet(Standard::g, 54);
  config.loss_down.random = 0.1;
  Downlink bench(config);
  bench.feed(0s, 10s, 1ms);
  bench.air.run_until(at(11s));
  EXPECT_NEAR(static_cast<double>(bench.dropped(DropReason::loss)), 1000, 100);
  std::size_t corrupt = 0;
  for (const auto& f : bench.box.frames)
  {
    corrupt += f.bad_fcs;
    EXPECT_FALSE(f.retry);
  }
  EXPECT_EQ(corrupt, bench.dropped(DropReason::loss));
}

TEST(ResidualLoss, GilbertElliottHasItsRateAndItsBursts)
{
  LossModel model(Random(5));
  const Gilbert chain { 0.005, 0.25, 0.9, 0.001 };
  model.configure({ 0, chain });
  const int packets = 2'000'000;
  int lost = 0, bursts = 0;
  bool before = false;
  for (int i = 0; i < packets; ++i)
  {
    const bool now = model.lose();
    lost += now;
    bursts += now && !before;
    before = now;
  }
  const double stationary_bad = chain.p / (chain.p + chain.r);
  const double rate = stationary_bad * chain.bad + (1 - stationary_bad) * chain.good;
  EXPECT_NEAR(lost / static_cast<double>(packets) / rate, 1.0, 0.03);
  // P(next lost | lost): from the state after a loss.
  const double bad_given_lost = stationary_bad * chain.bad / rate;
  const double stays = bad_given_lost * (1 - chain.r) + (1 - bad_given_lost) * chain.p;
  const double again = stays * chain.bad + (1 - stays) * chain.good;
  EXPECT_NEAR(1 - bursts / static_cast<double>(lost), again, 0.01);
}

TEST(Blackout, DropLosesWhatComesAndWhatWaits)
{
  Downlink bench(quiet(Standard::g, 54));
  bench.feed(0s, 1s, 5ms);
  bench.air.run_until(at(1s));
  bench.air.set_blackout(at(1s), bench.station, Blackout::drop);
  bench.feed(1s, 2s, 5ms);
  bench.air.run_until(at(2s));
  bench.air.set_blackout(at(2s), bench.station, Blackout::none);
  bench.feed(2s, 3s, 5ms);
  bench.air.run_until(at(4s));
  EXPECT_EQ(bench.delivered_between(0s, 1s), 200u);
  EXPECT_EQ(bench.delivered_between(1s, 2s), 0u);
  EXPECT_EQ(bench.delivered_between(2s, 4s), 200u);
  EXPECT_EQ(bench.dropped(DropReason::blackout), 200u);
}

TEST(Blackout, DropEmptiesTheQueues)
{
  Downlink bench(quiet(Standard::g, 54));
  for (int i = 0; i < 50; ++i)
  {
    bench.air.submit(at(0s), bench.feeder.make(1500), bench.ap, bench.station);
    bench.air.submit(at(0s), bench.feeder.make(1500), bench.station, nobody);
  }
  bench.air.run_until(at(2ms));
  const std::size_t before = bench.box.deliveries.size();
  bench.air.set_blackout(at(2ms), bench.station, Blackout::drop);
  bench.air.run_until(at(1s));
  bench.air.set_blackout(at(1s), bench.station, Blackout::none);
  bench.air.run_until(at(2s));
  EXPECT_EQ(bench.box.deliveries.size(), before);
  EXPECT_EQ(bench.dropped(DropReason::blackout), 100 - before);
}

TEST(Blackout, BufferDeliversAfterwardsWhatTheQueueHeld)
{
  AirConfig config = quiet(Standard::g, 54);
  config.ap_queue = 50;
  Downlink bench(config);
  bench.air.set_blackout(at(0s), bench.station, Blackout::buffer);
  bench.feed(0s, 1s, 10ms);
  bench.air.run_until(at(1s));
  EXPECT_EQ(bench.box.deliveries.size(), 0u);
  bench.air.set_blackout(at(1s), bench.station, Blackout::none);
  bench.air.run_until(at(2s));
  EXPECT_EQ(bench.box.deliveries.size(), 50u);
  EXPECT_EQ(bench.dropped(DropReason::queue_full), 50u);
}

TEST(Blackout, FadeSpendsAirOnRetriesAndLosesBeacons)
{
  AirConfig config = quiet(Standard::g, 54);
  config.beacon_interval = 102400us;
  Downlink bench(config);
  bench.air.set_blackout(at(0s), bench.station, Blackout::fade);
  bench.feed(0s, 1s, 20ms);
  bench.air.run_until(at(1s));
  EXPECT_EQ(bench.box.deliveries.size(), 0u);
  EXPECT_GE(bench.dropped(DropReason::retry_limit), 49u);
  EXPECT_EQ(bench.air.stats(bench.ap).attempts, 7 * bench.dropped(DropReason::retry_limit));
  for (const auto& f : bench.box.frames)
    EXPECT_FALSE(f.heard && f.transmitter == bench.ap);
}

TEST(Blackout, UplinkStopsToo)
{
  Downlink bench(quiet(Standard::g, 54));
  bench.air.set_blackout(at(0s), bench.station, Blackout::drop);
  bench.air.submit(at(0s), { .handle = 1, .bytes = 52, .airless = true }, bench.station, nobody);
  bench.air.submit(at(0s), { .handle = 2, .bytes = 52 }, bench.station, nobody);
  bench.air.run_until(at(1s));
  EXPECT_EQ(bench.dropped(DropReason::blackout), 2u);
}

TEST(Handoff, TheOldAccessPointDropsAndTheNewOneTakesOver)
{
  Downlink bench(quiet(Standard::g, 54));
  for (Handle i = 0; i < 20; ++i)
    bench.air.submit(at(0s), bench.feeder.make(1500), bench.ap, bench.station);
  bench.air.submit(at(0s), bench.feeder.make(100), bench.station, nobody);
  bench.air.run_until(at(1ms));
  const std::size_t before = bench.box.deliveries.size();
  bench.air.handoff(at(1ms), bench.station, bench.ap2, 50ms, false);
  EXPECT_EQ(bench.air.associated(bench.station), nobody);
  EXPECT_GT(bench.dropped(DropReason::not_associated), 10u);
  bench.air.submit(at(1ms), bench.feeder.make(1500), bench.ap, bench.station);  // too late for the old one
  bench.air.submit(at(1ms), bench.feeder.make(1500), bench.ap2, bench.station); // waits for the association
  bench.air.run_until(at(50ms));
  EXPECT_EQ(bench.box.deliveries.size(), before);
  bench.air.run_until(at(100ms));
  EXPECT_EQ(bench.air.associated(bench.station), bench.ap2);
  EXPECT_EQ(bench.box.deliveries.size() + bench.box.drops.size(), 23u);
  EXPECT_EQ(bench.box.deliveries.back().to, bench.box.deliveries.back().from == bench.ap2 ? bench.station : bench.ap2);
}

TEST(Handoff, ForwardingLosesNothing)
{
  Downlink bench(quiet(Standard::g, 54));
  for (Handle i = 0; i < 20; ++i)
    bench.air.submit(at(0s), bench.feeder.make(1500), bench.ap, bench.station);
  bench.air.run_until(at(1ms));
  bench.air.handoff(at(1ms), bench.station, bench.ap2, 20ms, true);
  bench.air.run_until(at(1s));
  EXPECT_EQ(bench.box.deliveries.size(), 20u);
  EXPECT_TRUE(bench.box.drops.empty());
  // And back again, in the middle of a frame.
  for (Handle i = 0; i < 20; ++i)
    bench.air.submit(at(1s), bench.feeder.make(1500), bench.ap2, bench.station);
  bench.air.run_until(at(1s) + 900us);
  bench.air.handoff(at(1s) + 900us, bench.station, bench.ap, 0ms, true);
  bench.air.run_until(at(2s));
  EXPECT_EQ(bench.box.deliveries.size(), 40u);
}

TEST(PowerSave, FramesForADozingStationWaitForABeacon)
{
  AirConfig config = quiet(Standard::g, 54);
  config.power_save = true;
  config.power_save_timeout = 50ms;
  config.beacon_interval = 102400us;
  Downlink bench(config);
  bench.air.run_until(at(1s));
  Duration longest {};
  double sum = 0;
  const int packets = 100;
  for (int i = 0; i < packets; ++i)
  {
    const Tick now = at(1s + i * 333ms);
    bench.air.run_until(now);
    const std::size_t before = bench.box.deliveries.size();
    bench.air.submit(now, bench.feeder.make(1000), bench.ap, bench.station);
    bench.air.run_until(now + 300ms);
    ASSERT_EQ(bench.box.deliveries.size(), before + 1);
    const Duration waited = bench.box.deliveries.back().at - now;
    longest = std::max(longest, waited);
    sum += seconds(waited);
  }
  // Uniform between two beacons: half an interval in the mean, never much more than one.
  EXPECT_NEAR(sum / packets, 0.0512, 0.01);
  EXPECT_LT(longest, 110ms);
}

TEST(PowerSave, AnActiveStationDoesNotWait)
{
  AirConfig config = quiet(Standard::g, 54);
  config.power_save = true;
  config.beacon_interval = 102400us;
  Downlink bench(config);
  bench.feed(0s, 2s, 20ms);
  bench.air.run_until(at(3s));
  ASSERT_EQ(bench.box.deliveries.size(), 100u);
  for (std::size_t i = 0; i < 100; ++i)
    EXPECT_LT(bench.box.deliveries[i].at, at(static_cast<int>(i) * 20ms + 5ms));
}

} // namespace

} // namespace tandem::medium::test
