#include "modules/rate/arrangements.h"
#include "modules/rate/blind.h"
#include "modules/rate/delay_aware.h"
#include "modules/rate/min_max.h"
#include "modules/rate/no_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <random>
#include <set>
#include <string>

namespace tandem::rate
{
namespace
{

using namespace std::chrono_literals;
using testing::ElementsAre;

const Slots case_1 = divide(std::vector { 0.5, 0.125, 0.125, 0.125, 0.125 }, 15ms);
const Slots case_2 = divide(std::vector { 0.5, 0.125, 0.375 }, 12500us);
const Slots case_3 = divide(std::vector { 0.65, 0.25, 0.10 }, 10ms);

TEST(no_policy, keeps_each_station_in_one_piece)
{
  EXPECT_THAT(NoPolicy().allocate(case_2).slots, ElementsAre(0, 0, 0, 0, 1, 2, 2, 2));
}

TEST(min_max, is_the_published_algorithm_on_the_published_cases)
{
  EXPECT_THAT(MinMax().allocate(case_1).slots, ElementsAre(0, 1, 0, 2, 0, 3, 0, 4));

  const Allocated second = MinMax().allocate(case_2);
  check(case_2, second.slots);
  // "VSTA1 will be disconnected for 12.5 ms, VSTA2 (still) for 87.5 ms, and VSTA3 for at most 37.5 ms."
  EXPECT_EQ(longest_disconnection(case_2, second.slots, 0), 12500us);
  EXPECT_EQ(longest_disconnection(case_2, second.slots, 1), 87500us);
  EXPECT_EQ(longest_disconnection(case_2, second.slots, 2), 37500us);

  const Allocated third = MinMax().allocate(case_3);
  check(case_3, third.slots);
  EXPECT_EQ(longest_disconnection(case_3, third.slots, 0), 12500us) << "never two slots of others in a row";
}

TEST(min_max, needs_the_printed_numbers_of_searches)
{
  EXPECT_EQ(MinMax().allocate(case_2).searches, 6u);
  EXPECT_EQ(MinMax().allocate(case_3).searches, 7u);
  EXPECT_EQ(MinMax().allocate(divide(std::vector { 1.0 }, 10ms)).searches, 1u);
}

TEST(blind, needs_the_printed_numbers_of_searches_and_finds_the_best_sum)
{
  EXPECT_EQ(Blind().allocate(case_2).searches, 280u);
  EXPECT_EQ(Blind().allocate(case_3).searches, 252u);
  EXPECT_EQ(arrangements(case_1), 1680u);
  for (const Slots& slots : { case_1, case_2, case_3 })
  {
    const double most = blind_value(slots, Blind().allocate(slots).slots);
    EXPECT_GE(most, blind_value(slots, MinMax().allocate(slots).slots) * (1 - 1e-12));
    EXPECT_GT(most, blind_value(slots, NoPolicy().allocate(slots).slots));
  }
}

TEST(arrangements, are_all_different_and_as_many_as_counted)
{
  std::set<Allocation> seen;
  for_each_arrangement(case_2, [&](const Allocation& one) { seen.insert(one); });
  EXPECT_EQ(seen.size(), 280u);
  std::set<std::vector<std::uint32_t>> choices;
  for_each_choice({ 2, 3, 5, 7, 11 }, 3, [&](const auto& chosen) { choices.insert(chosen); });
  EXPECT_EQ(choices.size(), 10u);
}

TEST(arrangements, too_many_are_refused_at_once)
{
  const Slots many = divide(std::vector<double>(16, 1.0 / 16), 10ms);
  EXPECT_THROW(Blind().allocate(many), BadInput);
  EXPECT_THROW(UpperBound(std::vector<double>(16, 0.05), DelayAware::published_model()).allocate(many), BadInput);
}

TEST(spread, divides_slots_evenly)
{
  EXPECT_THAT(spread(case_2, std::vector<std::uint32_t> { 4, 1, 3 }), ElementsAre(0, 2, 0, 1, 2, 0, 2, 0));
  EXPECT_THAT(spread(case_1, std::vector<std::uint32_t> { 4, 1, 1, 1, 1 }), ElementsAre(0, 1, 0, 2, 0, 3, 0, 4));
  EXPECT_THAT(spread(case_2, std::vector<std::uint32_t> { 1, 1, 1 }), ElementsAre(0, 0, 0, 0, 1, 2, 2, 2));
  EXPECT_NO_THROW(check(case_3, spread(case_3, std::vector<std::uint32_t> { 99, 0, 5 })));
}

TEST(delay_aware, wants_one_delay_for_each_station)
{
  EXPECT_THROW(DelayAware({ 0.05 }).allocate(case_2), BadInput);
  EXPECT_THROW(DelayAware({ 0.05, -1, 0.05 }).allocate(case_2), BadInput);
  EXPECT_THROW(UpperBound({ 0.05 }, DelayAware::published_model()).allocate(case_2), BadInput);
}

TEST(delay_aware, is_the_same_for_the_same_input)
{
  const DelayAware plan({ 0.03, 0.05, 0.07 });
  EXPECT_EQ(plan.allocate(case_2).slots, plan.allocate(case_2).slots);
}

// Duty cycles that make at most 12 slots and not too many allocations to look at all.
std::vector<double> drawn_duty(std::mt19937_64& random)
{
  while (true)
  {
    const std::size_t stations = 2 + random() % 5;
    std::vector<double> duty(stations);
    for (double& share : duty)
      share = 1 + static_cast<double>(random() % 900) / 100;
    const double sum = std::accumulate(duty.begin(), duty.end(), 0.0);
    for (double& share : duty)
      share /= sum;
    const Slots slots = divide(duty, 10ms);
    if (slots.total() <= 12 && arrangements(slots) <= 3000) return duty;
  }
}

TEST(delay_aware, is_within_two_percent_of_the_exhaustive_optimum_up_to_twelve_slots)
{
  std::mt19937_64 random(1);
  const RttModel model = DelayAware::published_model();
  double worst = 1, min_max_worst = 1;
  for (int round = 0; round < 60; ++round)
  {
    const std::vector<double> duty = drawn_duty(random);
    const Duration slot_time = 10ms + 1ms * static_cast<int>(random() % 6);
    const Slots slots = divide(duty, slot_time);
    std::vector<double> delays(duty.size());
    for (double& delay : delays)
      delay = static_cast<double>(random() % 200) / 1000;
    const Allocated ours = DelayAware(delays).allocate(slots);
    check(slots, ours.slots);
    const double bound = aggregate(slots, UpperBound(delays, model).allocate(slots).slots, delays, model);
    const double share = aggregate(slots, ours.slots, delays, model) / bound;
    EXPECT_GE(share, 0.98) << "round " << round;
    EXPECT_LE(share, 1 + 1e-9);
    worst = std::min(worst, share);
    min_max_worst = std::min(min_max_worst, aggregate(slots, MinMax().allocate(slots).slots, delays, model) / bound);
  }
  EXPECT_LT(min_max_worst, 0.98) << "or the bound is none";
  RecordProperty("worst", std::to_string(worst));
  RecordProperty("min_max_worst", std::to_string(min_max_worst));
}

// Twelve slots for 4 to 6 stations. The station with the least duty cycle has one slot (section VI-A), here the first
// one; `fraction`: how much more than its slots the duty cycle of another one may ask for, which makes them longer.
std::vector<double> twelve_slots(std::mt19937_64& random, double fraction)
{
  std::vector<double> duty(4 + random() % 3, 1.0);
  for (std::size_t left = 12 - duty.size(); left > 0; --left)
    ++duty[1 + random() % (duty.size() - 1)];
  for (std::size_t i = 1; i < duty.size(); ++i)
    duty[i] += fraction * static_cast<double>(random() % 1000) / 1000;
  const double sum = std::accumulate(duty.begin(), duty.end(), 0.0);
  for (double& share : duty)
    share /= sum;
  return duty;
}

// The best sum of all orders of slots that are equally long: what a station is worth then hangs only on where its own
// ones lie, and one subset after the other is given away. Up to 5 million orders, without looking at each.
class BestSum
{
public:
  BestSum(const Slots& slots, std::span<const double> delays, const RttModel& model)
      : slots_(slots), subsets_(std::size_t { 1 } << slots.total()), best_(subsets_, -1),
        worth_(slots.stations(), std::vector<double>(subsets_))
  {
    for (std::size_t i = 0; i < slots.stations(); ++i)
      for (std::size_t own = 0; own < subsets_; ++own)
      {
        if (static_cast<std::uint32_t>(std::popcount(own)) != slots.count[i]) continue;
        if (const std::size_t first = least_turn(own); first < own) // the same plan, and known
        {
          worth_[i][own] = worth_[i][first];
          continue;
        }
        Allocation order(slots.total(), static_cast<Station>(i == 0)); // some other one's
        for (std::size_t at = 0; at < order.size(); ++at)
          if (own >> at & 1) order[at] = static_cast<Station>(i);
        worth_[i][own] = 1 / model(Schedule(slots, order, static_cast<Station>(i)), delays[i]);
      }
  }

  double best() { return value(0, subsets_ - 1); }
  double of(const Allocation& order) const
  {
    std::vector<std::size_t> own(slots_.stations());
    for (std::size_t at = 0; at < order.size(); ++at)
      own[order[at]] |= std::size_t { 1 } << at;
    double sum = 0;
    for (std::size_t i = 0; i < own.size(); ++i)
      sum += worth_[i][own[i]];
    return sum;
  }

private:
  std::size_t least_turn(std::size_t own) const
  {
    std::size_t least = own;
    for (std::uint32_t turn = 1; turn < slots_.total(); ++turn)
    {
      own = (own << 1 | own >> (slots_.total() - 1)) & (subsets_ - 1);
      least = std::min(least, own);
    }
    return least;
  }
  double value(std::size_t station, std::size_t free)
  {
    if (station == slots_.stations()) return 0;
    double& best = best_[free]; // its size says which station is next
    if (best >= 0) return best;
    for (std::size_t own = free; own > 0; own = (own - 1) & free)
      if (static_cast<std::uint32_t>(std::popcount(own)) == slots_.count[station])
        best = std::max(best, worth_[station][own] + value(station + 1, free ^ own));
    return best;
  }

  const Slots& slots_;
  std::size_t subsets_;
  std::vector<double> best_;
  std::vector<std::vector<double>> worth_;
};

// The same for slots of any length, one order after the other; the first station's only slot stays the first one, since
// a plan that begins elsewhere is the same plan.
double best_sum_of_each(const Slots& slots, std::span<const double> delays, const RttModel& model)
{
  Allocation order { 0 };
  for (std::size_t i = 1; i < slots.stations(); ++i)
    order.insert(order.end(), slots.count[i], static_cast<Station>(i));
  double best = 0;
  do
    best = std::max(best, aggregate(slots, order, delays, model));
  while (std::next_permutation(order.begin() + 1, order.end()));
  return best;
}

std::vector<double> drawn_delays(std::mt19937_64& random, std::size_t stations)
{
  std::vector<double> delays(stations);
  for (double& delay : delays)
    delay = static_cast<double>(random() % 200) / 1000;
  return delays;
}

TEST(delay_aware, the_bound_of_subsets_is_that_of_all_orders)
{
  const std::vector<double> delays { 0.03, 0.05, 0.07 };
  const RttModel model = DelayAware::published_model();
  const Allocation best = UpperBound(delays, model).allocate(case_2).slots;
  BestSum bound(case_2, delays, model);
  EXPECT_NEAR(bound.best(), aggregate(case_2, best, delays, model), 1e-9);
  EXPECT_NEAR(bound.of(best), bound.best(), 1e-9);
}

// Of 1,000 such draws 10 are below 98 %, the worst at 93.7 %; with twice the effort 3.
TEST(delay_aware, is_mostly_within_two_percent_of_the_optimum_of_twelve_slots_for_four_to_six_stations)
{
  std::mt19937_64 random(2);
  double worst = 1;
  int beyond = 0;
  for (int round = 0; round < 60; ++round)
  {
    const Slots slots = divide(twelve_slots(random, 0), 10ms + 1ms * static_cast<int>(random() % 6));
    ASSERT_EQ(slots.total(), 12u);
    const std::vector<double> delays = drawn_delays(random, slots.stations());
    BestSum bound(slots, delays, DelayAware::published_model());
    const double share = bound.of(DelayAware(delays).allocate(slots).slots) / bound.best();
    EXPECT_LE(share, 1 + 1e-9) << "round " << round;
    beyond += share < 0.98;
    worst = std::min(worst, share);
  }
  EXPECT_LE(beyond, 1);
  EXPECT_GE(worst, 0.93);
  RecordProperty("worst", std::to_string(worst));
}

TEST(delay_aware, is_within_two_percent_by_the_self_clocked_model_too)
{
  std::mt19937_64 random(3);
  const RttModel model = [](const Schedule& schedule, double delay) { return self_clocked_rtt(schedule, delay); };
  double worst = 1;
  for (int round = 0; round < 3; ++round)
  {
    const Slots slots = divide(twelve_slots(random, 0), 10ms + 1ms * static_cast<int>(random() % 6));
    ASSERT_EQ(slots.total(), 12u);
    const std::vector<double> delays = drawn_delays(random, slots.stations());
    BestSum bound(slots, delays, model);
    const double share = bound.of(DelayAware(delays, model).allocate(slots).slots) / bound.best();
    EXPECT_GE(share, 0.98) << "round " << round;
    worst = std::min(worst, share);
  }
  RecordProperty("worst", std::to_string(worst));
}

TEST(delay_aware, is_within_two_percent_of_the_optimum_of_twelve_slots_of_different_lengths)
{
  std::mt19937_64 random(4);
  double worst = 1;
  for (int round = 0; round < 12;)
  {
    const Slots slots = divide(twelve_slots(random, 0.9), 10ms);
    ASSERT_EQ(slots.total(), 12u);
    if (arrangements(slots) > 12 * 30'000) continue; // takes longer than all others together
    ++round;
    const std::vector<double> delays = drawn_delays(random, slots.stations());
    const RttModel model = DelayAware::published_model();
    const Allocated ours = DelayAware(delays).allocate(slots);
    check(slots, ours.slots);
    const double share = aggregate(slots, ours.slots, delays, model) / best_sum_of_each(slots, delays, model);
    EXPECT_GE(share, 0.98) << "round " << round;
    EXPECT_LE(share, 1 + 1e-6) << "round " << round;
    worst = std::min(worst, share);
  }
  RecordProperty("worst", std::to_string(worst));
}

TEST(delay_aware, plans_sixteen_access_points)
{
  std::vector<double> duty(16, 0.04);
  duty[0] = 0.24;
  duty[1] = 0.2;
  const Slots slots = divide(duty, 10ms);
  const std::vector<double> delays(16, 0.05);
  const Allocated ours = DelayAware(delays).allocate(slots);
  check(slots, ours.slots);
  const RttModel model = DelayAware::published_model();
  EXPECT_GE(aggregate(slots, ours.slots, delays, model),
            aggregate(slots, NoPolicy().allocate(slots).slots, delays, model));
}

} // namespace
} // namespace tandem::rate
