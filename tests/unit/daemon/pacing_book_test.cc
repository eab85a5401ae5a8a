#include "src/daemon/pacing_book.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tandem::daemon
{
namespace
{

using namespace tandem::literals;

FlowKey flow(std::uint16_t port)
{
  FlowKey key {};
  key.local_port = port;
  return key;
}

// The port is the cookie; 9 is nobody's.
std::optional<std::uint64_t> find(const FlowKey& key)
{
  return key.local_port == 9 ? std::nullopt : std::optional<std::uint64_t> { key.local_port };
}

struct Book : testing::Test
{
  void take(std::uint16_t port, double rate, std::uint8_t slot = 0)
  {
    book.take({ flow(port), { rate }, slot }, now, find);
  }
  PacingBook book {};
  Tick now { 10s };
};

TEST_F(Book, tells_what_changed_once)
{
  EXPECT_FALSE(book.due(now));
  EXPECT_TRUE(book.settled());
  take(1, 8e6);
  const auto plan = book.due(now);
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->rates.at(1), 1'000'000u) << "bytes";
  EXPECT_FALSE(book.due(now));
  EXPECT_FALSE(book.settled());
  take(1, 0);
  EXPECT_TRUE(book.due(now)->rates.empty());
  EXPECT_TRUE(book.settled());
}

TEST_F(Book, tells_again_what_did_not_reach_the_keeper)
{
  take(1, 8e6);
  const auto plan = book.due(now);
  ASSERT_TRUE(plan);
  book.not_sent();
  EXPECT_EQ(book.due(now), plan);
  take(1, 0);
  ASSERT_TRUE(book.due(now));
  book.not_sent();
  EXPECT_FALSE(book.settled()) << "the pace is still in force";
  EXPECT_EQ(book.due(now), kernel::PacingPlan {});
  EXPECT_TRUE(book.settled());
}

TEST_F(Book, a_pace_that_is_not_repeated_lapses)
{
  take(1, 8e6);
  book.due(now);
  now += pace_lasts / 2;
  take(1, 8e6);
  now += pace_lasts / 2;
  EXPECT_FALSE(book.due(now));
  now += pace_lasts / 2;
  EXPECT_TRUE(book.due(now)->rates.empty());
}

TEST_F(Book, a_pace_lapses_with_its_module_and_of_two_the_lower_holds)
{
  take(1, 8e6, 0);
  take(1, 4e6, 1);
  EXPECT_EQ(book.due(now)->rates.at(1), 500'000u);
  book.lapse(1);
  EXPECT_EQ(book.due(now)->rates.at(1), 1'000'000u);
  book.lapse(0);
  EXPECT_TRUE(book.due(now)->rates.empty());
}

TEST_F(Book, bounds_nothing_that_it_does_not_know_and_counts_it)
{
  take(9, 8e6);
  EXPECT_FALSE(book.due(now));
  EXPECT_EQ(book.not_found(), 1u);
  for (std::uint16_t port = 100; port < 100 + kernel::most_paced + 3; ++port)
    take(port, 8e6);
  EXPECT_EQ(book.too_many(), 3u);
  EXPECT_EQ(book.due(now)->rates.size(), kernel::most_paced);
}

TEST_F(Book, what_is_no_rate_lifts_and_one_that_would_stop_a_socket_is_raised)
{
  take(1, 8e6);
  book.due(now);
  take(1, std::nan(""));
  EXPECT_TRUE(book.due(now)->rates.empty());
  take(1, 1);
  EXPECT_NO_THROW(kernel::validate(*book.due(now)));
}

} // namespace
} // namespace tandem::daemon
