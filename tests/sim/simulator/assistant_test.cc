// What a cross-layer assistant does to a sender, and a card that is on one channel at a time.

#include "tests/sim/simulator/rig.h"
#include "tools/sim/card.h"
#include "tools/sim/transfer.h"

#include <gtest/gtest.h>

namespace tandem::sim::test
{
namespace
{

TEST(Assistant, SetsTheWindowAndKeepsItFromDoubling)
{
  SenderRig rig({ .algorithm = Algorithm::reno });
  rig.round();
  EXPECT_DOUBLE_EQ(rig.sender.window().cwnd, 20);
  rig.sender.set_cwnd(6);
  EXPECT_DOUBLE_EQ(rig.sender.window().cwnd, 6);
  EXPECT_FALSE(rig.sender.window().slow_start());
  rig.sender.set_cwnd(30);
  EXPECT_EQ(rig.sender.in_flight(), 30u) << "what it allows leaves at once";
}

TEST(Assistant, BoundsWhatIsInFlightWhateverTheWindowSays)
{
  SenderRig rig({ .algorithm = Algorithm::reno });
  rig.sender.limit(4);
  rig.round();
  EXPECT_EQ(rig.sender.in_flight(), 4u);
  EXPECT_GT(rig.sender.window().cwnd, 4);
  rig.sender.limit(0);
  rig.round();
  EXPECT_EQ(rig.sender.in_flight(), 0u) << "nothing new";
  rig.sender.limit(1e9);
  EXPECT_GT(rig.sender.in_flight(), 4u) << "and on it goes";
}

TEST(Assistant, StillRepairsWhatWasLostWhileNothingNewIsAllowed)
{
  SenderRig rig({ .algorithm = Algorithm::reno, .repair = Repair::sack });
  rig.sender.limit(0);
  rig.out.take();
  rig.wait(round_trip);
  rig.acknowledge(0, { { 1, 5 } });
  const std::vector<Packet> sent = rig.out.take();
  ASSERT_EQ(sent.size(), 1u);
  EXPECT_TRUE(sent[0].retransmission);
  EXPECT_EQ(sent[0].seq, 0u);
}

TEST(Assistant, TakesNoDuplicateForALossForAWhile)
{
  SenderRig rig({ .algorithm = Algorithm::reno, .repair = Repair::sack });
  rig.wait(round_trip);
  rig.sender.ignore_losses(50ms);
  rig.acknowledge(0, { { 1, 5 } });
  EXPECT_EQ(rig.sender.state(), Sender::State::open);
  rig.wait(60ms);
  rig.acknowledge(0, { { 1, 7 } });
  EXPECT_EQ(rig.sender.state(), Sender::State::recovery);
}

TEST(Assistant, ForgetsWhatWasMeasuredOfThePath)
{
  SenderRig rig({ .algorithm = Algorithm::reno });
  rig.round();
  ASSERT_EQ(rig.sender.window().rtt, round_trip);
  rig.sender.reset_estimates();
  EXPECT_EQ(rig.sender.window().rtt, Duration {});
  EXPECT_EQ(rig.sender.rto(), 1s) << "RFC 6298 2.1";
  rig.round();
  EXPECT_EQ(rig.sender.window().rtt, round_trip) << "the first new sample counts whole";
}

TEST(Transfer, CarriesNoMoreThanTheApplicationWrites)
{
  World world(1);
  TransferConfig config;
  config.offered = { 3e6 };
  Transfer transfer(world, config);
  Wire down(world, { .rate = { 20e6 }, .delay = 10ms }), up(world, { .delay = 10ms });
  transfer.add({ .down = { &down }, .up = { &up } }, Tick {});
  world.loop.run_until(Tick {} + 10s);
  EXPECT_NEAR(static_cast<double>(transfer.delivered()) * 8 / 10, 3e6, 0.05e6);
}

TEST(Transfer, WritesNothingLaterThatTheSendBufferDidNotTake)
{
  World world(1);
  TransferConfig config;
  config.offered = { 30e6 };
  config.send_buffer = 100'000;
  Transfer transfer(world, config);
  Wire down(world, { .rate = { 20e6 }, .delay = 10ms }), up(world, { .delay = 10ms });
  transfer.add({ .down = { &down }, .up = { &up } }, Tick {});
  world.loop.run_until(Tick {} + 1s);
  down.set_down(true, true);
  world.loop.run_until(Tick {} + 3s);
  const std::uint64_t before = transfer.delivered();
  down.set_down(false, false);
  down.configure({ .rate = { 200e6 }, .delay = 10ms });
  world.loop.run_until(Tick {} + 5s);
  EXPECT_LT(static_cast<double>(transfer.delivered() - before) * 8 / 2, 32e6) << "30 Mb/s and what was written ahead";
}

// Packets that are offered all the time to both channels, and counted when they come out.
struct Offered
{
  Offered(Duration cost, std::vector<Duration> slots)
      : card(world, { 12, 12 }, cost, 50,
             [this, slots](const std::vector<Card::Visit>& visits)
             {
               seen = visits;
               return slots;
             }),
        out { Collector(world), Collector(world) }, routes { Route { &out[0] }, Route { &out[1] } }
  {
  }
  void run(Duration time)
  {
    for (Duration at {}; at < time; at += 1ms)
    {
      world.loop.run_until(Tick {} + at);
      for (std::size_t channel = 0; channel < 2; ++channel)
      {
        const Handle handle = world.pool.make();
        world.pool[handle].bytes = 1500;
        world.pool[handle].route = &routes[channel];
        card.down(channel).accept(handle);
      }
    }
  }
  World world { 1 };
  std::vector<Card::Visit> seen;
  Card card;
  std::array<Collector, 2> out;
  std::array<Route, 2> routes;
};

TEST(Card, IsOnOneChannelAtATimeAndPaysForTheWay)
{
  Offered offered(5ms, { 60ms, 40ms });
  offered.run(1s);
  // A packet takes 1 ms: 55 of 60 ms, 35 of 40 ms, ten times.
  EXPECT_NEAR(static_cast<double>(offered.out[0].packets.size()), 550, 15);
  EXPECT_NEAR(static_cast<double>(offered.out[1].packets.size()), 350, 15);
  ASSERT_EQ(offered.seen.size(), 2u);
  EXPECT_EQ(offered.seen[0].there, 60ms);
  EXPECT_EQ(offered.seen[0].receiving, 55ms);
  EXPECT_NEAR(offered.seen[0].bytes, 55 * 1500, 2 * 1500);
}

TEST(Card, LeavesOutAChannelWithoutASlotAndThenPaysNothing)
{
  Offered offered(5ms, { 0ms, 100ms });
  offered.run(1s);
  EXPECT_TRUE(offered.out[0].packets.empty());
  EXPECT_GT(offered.out[1].packets.size(), 985u);
}

} // namespace
} // namespace tandem::sim::test
