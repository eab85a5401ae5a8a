#include "modules/rate/connection.h"
#include "modules/rate/slot_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace tandem::rate
{
namespace
{

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;

Slots of(std::vector<double> duty, Duration slot_time, Duration longest = {})
{
  return divide(duty, slot_time, longest);
}

std::string refusal(std::vector<double> duty, Duration slot_time, Duration longest = {})
{
  try
  {
    divide(duty, slot_time, longest);
  }
  catch (const BadInput& error)
  {
    return error.what();
  }
  return "accepted";
}

TEST(slot_plan, divides_the_published_cases)
{
  const Slots first = of({ 0.5, 0.125, 0.125, 0.125, 0.125 }, 15ms);
  EXPECT_THAT(first.count, ElementsAre(4u, 1u, 1u, 1u, 1u));
  EXPECT_EQ(first.period, 120ms);
  EXPECT_EQ(first.total(), 8u);

  const Slots second = of({ 0.5, 0.125, 0.375 }, 12500us);
  EXPECT_THAT(second.count, ElementsAre(4u, 1u, 3u));
  EXPECT_EQ(second.period, 100ms);

  // Case 3: SlotTime_1 = 10.8 ms, SlotTime_2 = 12.5 ms, SlotTime_3 = 10 ms.
  const Slots third = of({ 0.65, 0.25, 0.10 }, 10ms);
  EXPECT_THAT(third.count, ElementsAre(6u, 2u, 1u));
  EXPECT_NEAR(milliseconds(third.length[0]), 10.83, 0.01);
  EXPECT_EQ(third.length[1], 12500us);
  EXPECT_EQ(third.length[2], 10ms);
  EXPECT_NEAR(milliseconds(third.period), 100, 1e-4);
}

TEST(slot_plan, shortens_the_example_of_a_hundred_slots)
{
  // Section VI-A: 0.27 and 0.73 as equal slots would need a period of 1500 ms.
  const Slots slots = of({ 0.27, 0.73 }, 15ms);
  EXPECT_THAT(slots.count, ElementsAre(1u, 2u));
  EXPECT_NEAR(milliseconds(slots.period), 15 / 0.27, 1e-3);
}

TEST(slot_plan, counts_a_quotient_that_rounding_puts_below_a_whole_number)
{
  EXPECT_THAT(of({ 0.1, 0.3, 0.6 }, 10ms).count, ElementsAre(1u, 3u, 6u)) << "0.3 / 0.1 is 2.9999999999999996";
}

TEST(slot_plan, one_access_point_has_everything)
{
  const Slots slots = of({ 1 }, 10ms);
  EXPECT_THAT(slots.count, ElementsAre(1u));
  EXPECT_EQ(slots.period, 10ms);
  EXPECT_THAT(disconnection_costs(slots, { 0 }, 0), ElementsAre(0ms));
}

TEST(slot_plan, disconnection_costs_are_those_of_the_example)
{
  // Section VI-A: SlotTime_1 = 12, SlotTime_2 = 15, SlotTime_3 = 10 ms; c_{1,1} = 25 ms.
  const Slots slots { .period = 76ms, .count = { 3, 2, 1 }, .length = { 12ms, 15ms, 10ms } };
  const Allocation order { 0, 1, 2, 0, 1, 0 };
  EXPECT_THAT(positions(order, 0), ElementsAre(0u, 3u, 5u));
  EXPECT_THAT(disconnection_costs(slots, order, 0), ElementsAre(25ms, 15ms, 0ms));
  EXPECT_THAT(disconnection_costs(slots, order, 1), ElementsAre(22ms, 24ms));
  EXPECT_THAT(disconnection_costs(slots, order, 2), ElementsAre(66ms));
  EXPECT_EQ(longest_disconnection(slots, order, 0), 25ms);
}

TEST(slot_plan, refuses_what_is_no_division)
{
  EXPECT_THAT(refusal({}, 10ms), HasSubstr("0 duty cycles"));
  EXPECT_THAT(refusal({ 0.5, 0.4 }, 10ms), HasSubstr("add up to 0.9; they must add up to 1"));
  EXPECT_THAT(refusal({ 0.5, 0.6 }, 10ms), HasSubstr("add up to 1.1"));
  EXPECT_THAT(refusal({ 1.0, 0.0 }, 10ms), HasSubstr("duty cycle 2 is 0; each must be above 0"));
  EXPECT_THAT(refusal({ 1.2, -0.2 }, 10ms), HasSubstr("duty cycle 2 is -0.2"));
  EXPECT_THAT(refusal({ std::numeric_limits<double>::quiet_NaN() }, 10ms), HasSubstr("duty cycle 1 is"));
  EXPECT_THAT(refusal({ 0.5, 0.5 }, 0ms), HasSubstr("slot time of 0 ms"));
  EXPECT_THAT(refusal({ 0.5, 0.5 }, -1ms), HasSubstr("must be above 0"));
  EXPECT_THAT(refusal({ 0.5, 0.5 }, 300ms, 200ms), HasSubstr("above the longest period, 200 ms"));
  EXPECT_THAT(refusal({ 0.95, 0.05 }, 15ms, 200ms), HasSubstr("need a period of 300 ms; at most 200 ms"));
  EXPECT_THAT(refusal({ 0.9, 0.1 }, 20ms, 200ms), HasSubstr("accepted"));
  EXPECT_THAT(refusal({ 1 - 1e-9, 1e-9 }, 10ms), HasSubstr("leave it out"));
}

TEST(slot_plan, knows_an_allocation_that_is_none)
{
  const Slots slots = of({ 0.5, 0.125, 0.375 }, 12500us);
  EXPECT_NO_THROW(check(slots, { 0, 0, 0, 0, 1, 2, 2, 2 }));
  EXPECT_THROW(check(slots, { 0, 0, 0, 1, 1, 2, 2, 2 }), BadInput);
  EXPECT_THROW(check(slots, { 0, 0, 0, 0, 1, 2, 2, 3 }), BadInput);
  EXPECT_THROW(check(slots, { 0, 0, 0, 0, 1, 2, 2 }), BadInput);
}

TEST(schedule, joins_neighbouring_slots_also_over_the_end)
{
  const Slots slots { .period = 80ms, .count = { 4, 4 }, .length = { 10ms, 10ms } };
  const Schedule first(slots, { 0, 1, 1, 0, 0, 1, 1, 0 }, 0);
  ASSERT_EQ(first.connections().size(), 2u);
  EXPECT_NEAR(first.connections()[0].begin, 0.03, 1e-12);
  EXPECT_NEAR(first.connections()[1].end, 0.09, 1e-12);
  EXPECT_NEAR(first.connected(), 0.04, 1e-12);
  EXPECT_NEAR(first.next_connected(0.005), 0.005, 1e-12) << "the end of the connection that began in the last period";
  EXPECT_NEAR(first.next_connected(0.01), 0.03, 1e-9);
  EXPECT_NEAR(first.next_connected(0.05), 0.07, 1e-9);
  EXPECT_NEAR(first.next_connected(0.8 + 0.05), 0.87, 1e-9);
  EXPECT_NEAR(first.next_begin(0.071), 0.11, 1e-9);
  EXPECT_NEAR(first.connected_until(0.075), 0.09, 1e-9);
  EXPECT_THROW(Schedule(slots, { 0, 0, 0, 0 }, 1), BadInput);
  EXPECT_THROW(Schedule(0ms, 10ms), BadInput);
}

TEST(schedule, that_of_a_timetable_is_the_same)
{
  const Slots slots = of({ 0.5, 0.2, 0.2, 0.1 }, 10ms);
  Timetable timetable(slots);
  std::mt19937_64 random(5);
  for (int round = 0; round < 200; ++round)
  {
    Allocation order { 0, 0, 0, 0, 0, 1, 1, 2, 2, 3 };
    std::shuffle(order.begin(), order.end(), random);
    timetable.set(order);
    for (Station station = 0; station < slots.stations(); ++station)
    {
      const Schedule alone(slots, order, station);
      const Schedule& together = timetable.of(station);
      ASSERT_EQ(together.period(), alone.period());
      ASSERT_EQ(together.connections().size(), alone.connections().size());
      for (std::size_t i = 0; i < alone.connections().size(); ++i)
      {
        EXPECT_EQ(together.connections()[i].begin, alone.connections()[i].begin);
        EXPECT_EQ(together.connections()[i].end, alone.connections()[i].end);
        EXPECT_NEAR(alone.begin_after(i), alone.next_begin(alone.connections()[i].end), 1e-12);
      }
      const double time = 1e-3 * static_cast<double>(random() % 200);
      EXPECT_EQ(alone.look(time).next_connected, alone.next_connected(time));
      EXPECT_EQ(alone.look(time).connected_until, alone.connected_until(time));
    }
  }
  EXPECT_THROW(timetable.set({ 0, 0, 0, 0, 0, 1, 1, 2, 2, 2 }), BadInput);
}

TEST(schedule, a_station_alone_is_always_connected)
{
  const Schedule always(of({ 1 }, 10ms), { 0 }, 0);
  for (const double at : { 0.0, 0.009999, 0.01, 0.123, 7.77 })
    EXPECT_DOUBLE_EQ(always.next_connected(at), at);
}

} // namespace
} // namespace tandem::rate
