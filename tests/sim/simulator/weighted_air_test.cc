// The queue of Croitoru et al. 6.2.1.

#include "tests/sim/simulator/rig.h"
#include "tools/sim/stages.h"

#include <gtest/gtest.h>

namespace tandem::sim::test
{

namespace
{

struct Medium
{
  explicit Medium(const std::vector<WeightedAir::AccessPoint>& aps) : end(world), air(world)
  {
    for (const auto& ap : aps)
      routes.push_back({ &air.add(ap), &end });
  }
  // A further client of the access point that the first one has.
  void join(const WeightedAir::Client& client) { routes.push_back({ &air.add(client, 0), &end }); }
  void put(std::size_t ap, unsigned packets)
  {
    for (unsigned i = 0; i < packets; ++i)
    {
      const Handle handle = world.pool.make();
      world.pool[handle].route = &routes[ap];
      world.pool[handle].ect = true;
      world.pool[handle].seq = ap;
      world.forward(handle);
    }
  }
  World world { 1 };
  Collector end;
  WeightedAir air;
  std::vector<Route> routes;
};

TEST(WeightedAir, PacketsOfBusyAccessPointsGoByTheirWeights)
{
  Medium medium({ { .packet_time = 2ms, .weight = 4 }, { .packet_time = 500us, .weight = 1 } });
  medium.put(0, 200);
  medium.put(1, 200);
  medium.world.loop.run_until(Tick {} + 170ms); // 80 of the first, 20 of the second
  EXPECT_NEAR(static_cast<double>(medium.air.stats(0).sent), 80, 2);
  EXPECT_NEAR(static_cast<double>(medium.air.stats(1).sent), 20, 2);
}

TEST(WeightedAir, AnAccessPointAloneHasTheMedium)
{
  Medium medium({ { .packet_time = 2ms, .weight = 1 }, { .packet_time = 500us, .weight = 16 } });
  medium.put(0, 100);
  medium.world.loop.run_until(Tick {} + 100ms);
  EXPECT_EQ(medium.end.packets.size(), 50u);
}

TEST(WeightedAir, NobodySavesUpTurnsWhileIdle)
{
  Medium medium({ { .packet_time = 1ms }, { .packet_time = 1ms } });
  medium.put(0, 100);
  medium.world.loop.run_until(Tick {} + 50ms);
  medium.put(1, 50);
  medium.end.take();
  medium.world.loop.run_until(Tick {} + 70ms);
  EXPECT_NEAR(static_cast<double>(medium.air.stats(1).sent), 10, 1);
}

TEST(WeightedAir, ABufferOfItsOwnForEach)
{
  Medium medium({ { .packet_time = 1ms }, { .packet_time = 1ms, .buffer = 20 } });
  medium.put(0, 250);
  medium.put(1, 20);
  EXPECT_EQ(medium.air.stats(0).dropped, 49u); // one is being sent, 200 wait
  EXPECT_EQ(medium.air.stats(1).dropped, 0u);
  medium.world.loop.run_until(Tick {} + 1s);
  EXPECT_EQ(medium.world.pool.in_use(), 0u);
}

// One queue, first in, first out, and one buffer.
TEST(WeightedAir, ClientsOfAnAccessPointShareItsQueue)
{
  Medium medium({ { .packet_time = 1ms, .buffer = 20 } });
  medium.join({ .packet_time = 4ms });
  for (unsigned i = 0; i < 15; ++i)
  {
    medium.put(0, 1);
    medium.put(1, 1);
  }
  EXPECT_EQ(medium.air.stats(0).dropped + medium.air.stats(1).dropped, 9u); // one is being sent, 20 wait
  medium.world.loop.run_until(Tick {} + 1s);
  ASSERT_EQ(medium.end.packets.size(), 21u);
  for (std::size_t i = 0; i < 20; ++i)
    EXPECT_EQ(medium.end.packets[i].seq, i % 2) << i;
  EXPECT_EQ(medium.air.stats(1).air, 4ms * static_cast<int>(medium.air.stats(1).sent));
}

// Table 2 of the paper: C1 and a far C by AP1, C2 by AP2; the far one's packets cost 2.7 turns.
TEST(WeightedAir, AFarClientCostsItsAccessPointTurns)
{
  Medium medium({ { .packet_time = 520us, .buffer = 10'000 }, { .packet_time = 520us, .buffer = 10'000 } });
  medium.join({ .packet_time = 810us, .cost = 2.7 });
  medium.put(1, 9000);
  for (unsigned i = 0; i < 3000; ++i)
  {
    medium.put(0, 1);
    medium.put(2, 1);
  }
  medium.world.loop.run_until(Tick {} + 2s);
  const auto first = static_cast<double>(medium.air.stats(0).sent + medium.air.stats(2).sent);
  EXPECT_NEAR(static_cast<double>(medium.air.stats(1).sent) / first, (1 + 2.7) / 2, 0.05);
}

TEST(WeightedAir, MarksWhatWaitedTooLong)
{
  Medium medium({ { .packet_time = 1ms, .mark_above = 5ms } });
  medium.put(0, 10);
  medium.world.loop.run_until(Tick {} + 1s);
  unsigned marked = 0;
  for (const Packet& packet : medium.end.packets)
    marked += packet.ce ? 1 : 0;
  EXPECT_EQ(marked, 4u); // those that began to be sent at 6, 7, 8, 9 ms
}

} // namespace

} // namespace tandem::sim::test
