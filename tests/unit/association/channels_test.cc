#include "src/association/best_channel.h"
#include "src/association/channel_slots.h"
#include "src/association/desync.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

namespace tandem::association
{
namespace
{

using namespace std::chrono_literals;

std::vector<double> ms(const std::vector<Duration>& slots)
{
  std::vector<double> made;
  for (const Duration slot : slots)
    made.push_back(milliseconds(slot));
  return made;
}

std::vector<Duration> slots(std::vector<double> measured, double alpha, Duration cycle = 200ms, Duration least = 10ms)
{
  return channel_slots(measured, alpha, cycle, least);
}

TEST(channel_slots, are_equation_6)
{
  EXPECT_THAT(ms(slots({ 20, 20 }, 2)), testing::Pointwise(testing::DoubleNear(1e-3), { 100.0, 100.0 }));
  // 400 / (400 + 196) * 200
  EXPECT_THAT(ms(slots({ 20, 14 }, 2)), testing::Pointwise(testing::DoubleNear(1e-3), { 134.228, 65.772 }));
  EXPECT_THAT(ms(slots({ 20, 5 }, 2)), testing::Pointwise(testing::DoubleNear(1e-3), { 188.235, 11.765 }));
  EXPECT_THAT(ms(slots({ 20, 5 }, 0)), testing::Pointwise(testing::DoubleNear(1e-3), { 100.0, 100.0 }));
  EXPECT_THAT(ms(slots({ 30, 20, 10 }, 1)), testing::Pointwise(testing::DoubleNear(1e-3), { 100.0, 66.667, 33.333 }));
}

TEST(channel_slots, are_never_shorter_than_the_least_and_fill_the_cycle)
{
  EXPECT_THAT(ms(slots({ 20, 1, 0 }, 2)), testing::Pointwise(testing::DoubleNear(1e-3), { 180.0, 10.0, 10.0 }));
  EXPECT_THAT(ms(slots({ 0, 0 }, 2)), testing::Pointwise(testing::DoubleNear(1e-3), { 100.0, 100.0 }));
  for (double b = 0; b < 40; b += 0.7)
    for (const double alpha : { 0.0, 0.5, 1.0, 2.0, 8.0, 1000.0 })
    {
      const std::vector<double> made = ms(slots({ 20, b, 3 }, alpha));
      EXPECT_NEAR(std::accumulate(made.begin(), made.end(), 0.0), 200, 1e-3);
      EXPECT_GE(*std::min_element(made.begin(), made.end()), 10 - 1e-9);
    }
}

TEST(channel_slots, refuse_what_would_time_out)
{
  EXPECT_THROW(slots({}, 2), std::invalid_argument);
  EXPECT_THROW(slots({ 1, 2 }, 2, 201ms), std::invalid_argument) << "C above 200 ms";
  EXPECT_THROW(slots({ 1, 2 }, 2, 0ms), std::invalid_argument);
  EXPECT_THROW(slots({ 1, -2 }, 2), std::invalid_argument);
  EXPECT_THROW(slots({ 1, 2 }, -1), std::invalid_argument);
  EXPECT_THROW(slots({ 1, 2 }, std::numeric_limits<double>::quiet_NaN()), std::invalid_argument);
  EXPECT_THROW(slots(std::vector<double>(21, 1.0), 2), std::invalid_argument) << "21 slots of 10 ms in 200 ms";
}

TEST(phase_shift, goes_away_from_whoever_is_in_the_way)
{
  PhaseShift early(3, 200ms), late(3, 200ms), alone(3, 200ms);
  Duration moved_early {}, moved_late {}, moved_alone {};
  for (int slot = 0; slot < 10; ++slot)
  {
    moved_early += early.slot_over({ 50, 33ms }, { 100, 33ms });
    moved_late += late.slot_over({ 100, 33ms }, { 50, 33ms });
    moved_alone += alone.slot_over({ 100, 33ms }, { 100, 33ms });
  }
  EXPECT_GT(moved_early, 1ms) << "somebody before us leaves late: begin later";
  EXPECT_LT(moved_late, -1ms);
  EXPECT_EQ(moved_alone, 0ms);
}

TEST(phase_shift, stays_where_nothing_came)
{
  PhaseShift phase(3, 200ms);
  for (int slot = 0; slot < 30; ++slot)
    EXPECT_EQ(phase.slot_over({}, {}), 0ms);
  EXPECT_THROW(PhaseShift(0, 200ms), std::invalid_argument);
  EXPECT_THROW(PhaseShift(3, 300ms), std::invalid_argument);
  EXPECT_THROW(PhaseShift(21, 200ms), std::invalid_argument);
}

TEST(stay_or_move, stays_alone_and_moves_when_it_shares)
{
  StayOrMove alone(3, 1);
  const std::uint32_t first = alone.channel();
  for (int look = 0; look < 1000; ++look)
    EXPECT_EQ(alone.look(1.0), first);

  int moves = 0;
  StayOrMove shared(3, 1);
  for (int look = 0; look < 50; ++look)
  {
    const std::uint32_t before = shared.channel();
    moves += shared.look(0.3) != before;
    EXPECT_LT(shared.channel(), 3u);
  }
  EXPECT_GT(moves, 3);
  StayOrMove one(1, 1);
  EXPECT_EQ(one.look(0.1), 0u);
  EXPECT_THROW(StayOrMove(0, 1), std::invalid_argument);
}

// What two channels bring by their rates (bytes/s) in the slots that were planned.
BestChannel::Plan after(BestChannel& rule, std::vector<double> rates, int cycles)
{
  std::vector<BestChannel::Visit> visits(rates.size());
  BestChannel::Plan plan = rule.next(visits);
  for (int cycle = 0; cycle < cycles; ++cycle)
  {
    for (std::size_t i = 0; i < rates.size(); ++i)
      visits[i] = { plan.backup[i] ? 0 : rates[i] * seconds(plan.slots[i]), plan.slots[i] };
    plan = rule.next(visits);
  }
  return plan;
}

TEST(best_channel, compares_empties_and_stays)
{
  BestChannel rule;
  EXPECT_EQ(after(rule, { 1e6, 2e6 }, 3).why, "comparing channels");
  const BestChannel::Plan plan = after(rule, { 1e6, 2e6 }, 20);
  EXPECT_EQ(plan.why, "staying on the best channel");
  EXPECT_EQ(rule.best(), 1u);
  EXPECT_THAT(plan.slots, testing::ElementsAre(0ms, 200ms));
  EXPECT_THAT(plan.backup, testing::ElementsAre(true, false));
}

TEST(best_channel, compares_again_when_the_best_one_falls)
{
  BestChannel rule;
  after(rule, { 1e6, 2e6 }, 20);
  const BestChannel::Plan plan = after(rule, { 1e6, 0.5e6 }, 30);
  EXPECT_EQ(rule.best(), 0u);
  EXPECT_THAT(plan.backup, testing::ElementsAre(false, true));
}

TEST(best_channel, does_not_run_between_equal_channels)
{
  BestChannel rule;
  after(rule, { 1e6, 1e6 }, 20);
  const std::size_t first = rule.best();
  for (int round = 0; round < 40; ++round)
  {
    after(rule, { round % 2 ? 1.05e6 : 1e6, round % 2 ? 1e6 : 1.05e6 }, 60);
    EXPECT_EQ(rule.best(), first);
  }
}

TEST(best_channel, has_nothing_to_do_on_one_channel)
{
  BestChannel rule;
  const BestChannel::Plan plan = after(rule, { 1e6 }, 5);
  EXPECT_THAT(plan.slots, testing::ElementsAre(200ms));
  EXPECT_THAT(plan.backup, testing::ElementsAre(false));
}

} // namespace
} // namespace tandem::association
