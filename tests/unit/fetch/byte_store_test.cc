#include "src/fetch/byte_store.h"
#include "src/fetch/intervals.h"

#include <gtest/gtest.h>

#include <random>

namespace tandem::fetch
{
namespace
{

std::vector<std::byte> fill(std::size_t size, int value)
{
  return std::vector<std::byte>(size, static_cast<std::byte>(value));
}

TEST(Intervals, JoinsWhatTouches)
{
  Intervals set;
  EXPECT_TRUE(set.add(10, 20));
  EXPECT_TRUE(set.add(30, 40));
  EXPECT_EQ(set.first_gap(10), 20u);
  EXPECT_EQ(set.first_gap(5), 5u);
  EXPECT_TRUE(set.add(20, 30));
  EXPECT_EQ(set.size(), 1u);
  EXPECT_TRUE(set.covers(10, 40));
  EXPECT_FALSE(set.covers(10, 41));
  set.forget_below(15);
  EXPECT_EQ(set.first_gap(10), 10u);
  EXPECT_TRUE(set.covers(15, 40));
}

TEST(Intervals, DoesNotGrowWithoutEnd)
{
  Intervals set;
  for (std::uint64_t i = 0; i < 2 * Intervals::range_limit; ++i)
    set.add(2 * i, 2 * i + 1);
  EXPECT_EQ(set.size(), Intervals::range_limit);
  EXPECT_TRUE(set.add(1, 2)); // joins two: always possible
}

TEST(ByteStore, TheFirstCopyStays)
{
  ByteStore store { 1000 };
  EXPECT_TRUE(store.add(100, fill(10, 1)));
  EXPECT_TRUE(store.add(95, fill(20, 2)));
  const auto bytes = store.read({ 95, 115 });
  ASSERT_EQ(bytes.size(), 20u);
  EXPECT_EQ(bytes[4], std::byte { 2 });
  EXPECT_EQ(bytes[5], std::byte { 1 });
  EXPECT_EQ(bytes[14], std::byte { 1 });
  EXPECT_EQ(bytes[15], std::byte { 2 });
  EXPECT_TRUE(store.read({ 95, 116 }).empty());
}

TEST(ByteStore, KeepsItsLimitButNotAtTheCostOfWhatIsWanted)
{
  ByteStore store { 100 };
  for (std::uint64_t at = 0; at < 1000; at += 20)
    store.add(at * 2, fill(20, 3));
  const std::vector<Piece> pinned { { 0, 20 } };
  store.trim(pinned);
  EXPECT_LE(store.size(), 120u);
  EXPECT_TRUE(store.holds({ 0, 20 }));
  EXPECT_FALSE(store.holds({ 40, 60 }));
  EXPECT_TRUE(store.holds({ 1960, 1980 }));
}

TEST(ByteStore, RandomOverlapsReadBackWhole)
{
  std::mt19937 random { 5 };
  ByteStore store { 1 << 20 };
  Intervals there;
  const auto at = [](std::uint64_t offset) { return static_cast<std::byte>(offset * 31 >> 3); };
  for (int i = 0; i < 3000; ++i)
  {
    const std::uint64_t from = random() % 200000, size = 1 + random() % 3000;
    std::vector<std::byte> bytes;
    for (std::uint64_t o = from; o < from + size; ++o)
      bytes.push_back(at(o));
    ASSERT_TRUE(store.add(from, bytes));
    there.add(from, from + size);
    const std::uint64_t look = random() % 200000;
    ASSERT_EQ(store.first_gap(look), there.first_gap(look));
  }
  const std::uint64_t end = store.first_gap(1000);
  const auto bytes = store.read({ 1000, end });
  for (std::uint64_t o = 1000; o < end; ++o)
    ASSERT_EQ(bytes[o - 1000], at(o));
}

} // namespace
} // namespace tandem::fetch
