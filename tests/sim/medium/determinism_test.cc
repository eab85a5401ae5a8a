// One seed, one air.

#include "tests/sim/medium/bench.h"
#include "tools/lab/medium/pipe.h"

#include <gtest/gtest.h>

namespace tandem::medium::test
{

namespace
{

// Everything that can be random at once, hashed over every event with its time.
std::uint64_t fingerprint(std::uint64_t seed, bool acks_free = false)
{
  AirConfig config;
  config.phy = Phy::of(Standard::n, true);
  config.aggregation.frames = 32;
  config.beacon_interval = 102400us;
  config.loss_down = { 0.01, Gilbert { 0.01, 0.3, 0.8, 0.0 } };
  config.frame_error = 0.05;
  config.jitter = 1ms;
  Outbox box;
  box.want_frames = true;
  Air air(config, seed, box);
  Outbox wan_box;
  Pipe wan({ .rate = 50_mbps, .delay = 10ms, .jitter = 3ms, .loss = { 0.01, {} } }, seed, 0, 0, 1, wan_box);
  const NodeId ap = air.add_access_point(Tick {}, 1);
  const NodeId station = air.add_station(ap);
  air.observe(station);
  air.set_signal(station, ap, { { at(0s), -60 }, { at(5s), -82 } });
  air.add_background(Tick {}, air.add_station(ap), Traffic::up, 1492, 3_mbps);
  std::uint64_t hash = 1469598103934665603u;
  const auto mix = [&hash](std::uint64_t value)
  {
    hash ^= value;
    hash *= 1099511628211u;
  };
  Feeder feeder;
  for (Tick now {}; now < at(5s); now += 500us)
  {
    air.run_until(now);
    wan.run_until(now);
    wan.submit(now, feeder.make(1400));
    air.submit(now, feeder.make(1500), ap, station);
    Packet ack = feeder.make(52);
    ack.airless = acks_free;
    air.submit(now, ack, station, nobody);
    for (const Outbox* out : { &box, &wan_box })
    {
      for (const auto& d : out->deliveries)
      {
        mix(d.handle);
        mix(static_cast<std::uint64_t>(d.at.time_since_epoch().count()));
      }
      for (const auto& d : out->drops)
      {
        mix(d.handle);
        mix(static_cast<std::uint64_t>(d.why));
      }
      for (const auto& f : out->frames)
      {
        mix(static_cast<std::uint64_t>(f.start.time_since_epoch().count()));
        mix(f.sequence + (f.bad_fcs ? 1u << 16 : 0u) + (f.retry ? 1u << 17 : 0u));
      }
    }
    box.clear();
    wan_box.clear();
  }
  return hash;
}

TEST(Determinism, SameSeedSameAirBitForBit)
{
  EXPECT_EQ(fingerprint(1), fingerprint(1));
}

TEST(Determinism, AnotherSeedIsAnotherAir)
{
  EXPECT_NE(fingerprint(1), fingerprint(2));
  EXPECT_NE(fingerprint(1), fingerprint(1, true));
}

TEST(Determinism, StepSizeOfTheCallerDoesNotMatter)
{
  // The same arrivals, driven in one leap or in small steps: what comes out is the same.
  std::vector<std::pair<Handle, Tick>> results[2];
  for (int fine = 0; fine < 2; ++fine)
  {
    AirConfig config = quiet(Standard::g, 54);
    config.frame_error = 0.2;
    config.beacon_interval = 102400us;
    Outbox box;
    Air air(config, 3, box);
    const NodeId ap = air.add_access_point(Tick {}, 1);
    const NodeId station = air.add_station(ap);
    Feeder feeder;
    for (int i = 0; i < 1000; ++i)
    {
      const Tick now = at(i * 1ms);
      if (fine == 1)
        while (air.next_event() <= now)
          air.run_until(air.next_event());
      air.run_until(now);
      air.submit(now, feeder.make(1500), ap, station);
      air.submit(now, feeder.make(60), station, nobody);
    }
    air.run_until(at(5s));
    for (const auto& d : box.deliveries)
      results[fine].emplace_back(d.handle, d.at);
  }
  EXPECT_GT(results[0].size(), 1900u);
  EXPECT_EQ(results[0], results[1]);
}

// Switching one effect on leaves the draws of another alone: the same packets fall to the wire's loss with and without
// jitter.
TEST(Determinism, EffectsHaveTheirOwnRandomness)
{
  std::vector<Handle> lost[2];
  for (int free = 0; free < 2; ++free)
  {
    AirConfig config = quiet(Standard::g, 54);
    config.loss_down.random = 0.02;
    config.jitter = free == 0 ? Duration {} : 2ms;
    Outbox box;
    Air air(config, 3, box);
    const NodeId ap = air.add_access_point(Tick {}, 1);
    const NodeId station = air.add_station(ap);
    Feeder feeder;
    for (int i = 0; i < 3000; ++i)
    {
      air.run_until(at(i * 1ms));
      air.submit(at(i * 1ms), feeder.make(1500), ap, station);
    }
    for (const auto& d : box.drops)
      lost[free].push_back(d.handle);
  }
  EXPECT_GT(lost[0].size(), 30u);
  EXPECT_EQ(lost[0], lost[1]);
}

} // namespace

} // namespace tandem::medium::test
