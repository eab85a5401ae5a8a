// The air must run far faster than real time, and allocate nothing once it is warm.

#include "tests/sim/medium/bench.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <new>

namespace
{
std::size_t allocations = 0;
} // namespace

void* operator new(std::size_t size)
{
  ++allocations;
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept
{
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept
{
  std::free(memory);
}

namespace tandem::medium::test
{

namespace
{

// 44 Mb/s over the n profile with an uplink packet for every second one down, beacons and errors.
struct Load
{
  Load()
  {
    AirConfig config;
    config.phy = Phy::of(Standard::n, true);
    config.aggregation.frames = 32;
    config.beacon_interval = 102400us;
    config.frame_error = 0.02;
    air.emplace(config, 1, box);
    ap = air->add_access_point(Tick {}, 36);
    station = air->add_station(ap);
    air->observe(station);
    box.deliveries.reserve(1000);
    box.drops.reserve(1000);
    box.frames.reserve(1000);
    box.want_frames = true;
  }

  void run(Duration length)
  {
    const Tick end = now + length;
    for (; now < end; now += 273us)
    {
      air->run_until(now);
      air->submit(now, { .handle = count, .bytes = 1500 }, ap, station);
      if (count++ % 2 == 0) air->submit(now, { .handle = count, .bytes = 52 }, station, nobody);
      delivered += box.deliveries.size();
      box.clear();
    }
  }

  Outbox box;
  std::optional<Air> air;
  NodeId ap = 0, station = 0;
  Tick now {};
  Handle count = 0;
  std::size_t delivered = 0;
};

TEST(Speed, WarmAirAllocatesNothing)
{
  Load load;
  // Queues grow to the longest they have been and stay; a burst takes them there.
  for (Handle i = 0; i < 100; ++i)
  {
    load.air->submit(Tick {}, { .handle = i, .bytes = 1500 }, load.ap, load.station);
    load.air->submit(Tick {}, { .handle = i, .bytes = 1500 }, load.station, nobody);
  }
  load.run(20s);
  const std::size_t before = allocations;
  load.run(20s);
  EXPECT_EQ(allocations - before, 0u);
  EXPECT_GT(load.delivered, 200000u);
}

TEST(Speed, FarFasterThanRealTime)
{
  Load load;
  load.run(2s);
  const auto begin = std::chrono::steady_clock::now();
  load.run(60s);
  const double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  std::printf("60 s of 44 Mb/s took %.2f s: %.0f times real time\n", took, 60 / took);
  // The simulator needs 50 times; sanitizers and a busy machine may cost a factor of ten.
  EXPECT_LT(took, 12);
}

} // namespace

} // namespace tandem::medium::test
