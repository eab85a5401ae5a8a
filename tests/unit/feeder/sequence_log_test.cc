#include "src/feeder/radio/sequence_log.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace tandem::feeder
{
namespace
{

struct Totals
{
  int fresh = 0, lost = 0;
};

Totals take_all(SequenceLog& log, const std::vector<unsigned>& numbers)
{
  Totals all {};
  for (const unsigned number : numbers)
  {
    const auto taken = log.take(static_cast<std::uint16_t>(number % 4096));
    all.fresh += taken.fresh;
    all.lost += taken.lost;
  }
  return all;
}

TEST(SequenceLog, what_is_left_out_is_lost_where_order_is_kept)
{
  SequenceLog log {};
  const Totals all = take_all(log, { 10, 11, 14, 15 });
  EXPECT_EQ(all.fresh, 4);
  EXPECT_EQ(all.lost, 2);
}

TEST(SequenceLog, an_attempt_that_arrives_twice_is_one)
{
  SequenceLog log {};
  EXPECT_EQ(take_all(log, { 10, 10, 11, 11, 10 }).fresh, 2);
}

TEST(SequenceLog, numbers_wrap)
{
  SequenceLog log {};
  const Totals all = take_all(log, { 4094, 4095, 4096, 4098, 4099 });
  EXPECT_EQ(all.fresh, 5);
  EXPECT_EQ(all.lost, 1);
}

TEST(SequenceLog, what_comes_late_was_not_lost)
{
  SequenceLog log {};
  EXPECT_EQ(take_all(log, { 1, 3 }).lost, 1);
  EXPECT_EQ(log.take(2).lost, -1);
  // It has learned that a frame may overtake another one.
  EXPECT_EQ(take_all(log, { 5, 4, 7, 6 }).lost, 0);
  EXPECT_EQ(take_all(log, { 9, 10 }).lost, 1);
}

TEST(SequenceLog, within_a_block_nothing_is_lost_until_the_block_is_over)
{
  SequenceLog log {};
  log.expect_disorder();
  EXPECT_EQ(take_all(log, { 1, 2, 4, 40, 60 }).lost, 0);
  // 3, and 5 to 39.
  EXPECT_EQ(take_all(log, { 104 }).lost, 36);
}

TEST(SequenceLog, a_leap_says_nothing)
{
  SequenceLog log {};
  EXPECT_EQ(take_all(log, { 1, 2, 2000, 2001, 500, 501 }).lost, 0);
  EXPECT_EQ(take_all(log, { 503, 504 }).lost, 1);
}

TEST(SequenceLog, numbers_of_another_counter_are_left_alone)
{
  SequenceLog log {};
  take_all(log, { 100, 101 });
  EXPECT_FALSE(log.take_near(3000).fresh);
  EXPECT_TRUE(log.take_near(102).fresh);
  EXPECT_EQ(log.take(103).lost, 0);
}

// Whatever the losses and the disorder within a block, in the end every number was fresh once or lost once.
TEST(SequenceLog, the_count_comes_out)
{
  for (unsigned seed = 1; seed <= 20; ++seed)
  {
    std::mt19937 random { seed };
    std::vector<unsigned> numbers;
    int sent = 0, lost = 0;
    for (unsigned number = 0; number < 20000; ++number)
    {
      ++sent;
      if (random() % 10 == 0)
        ++lost;
      else
        numbers.push_back(number);
    }
    for (std::size_t i = 0; i + 8 < numbers.size(); i += 8)
      std::shuffle(numbers.begin() + static_cast<std::ptrdiff_t>(i),
                   numbers.begin() + static_cast<std::ptrdiff_t>(i + 8), random);
    SequenceLog log {};
    log.expect_disorder();
    const Totals all = take_all(log, numbers);
    EXPECT_EQ(all.fresh, sent - lost);
    EXPECT_NEAR(all.lost, lost, 30) << "those of the last block are open";
  }
}

} // namespace
} // namespace tandem::feeder
