#include "src/links/link_up_limiter.h"

#include <gtest/gtest.h>

namespace tandem::links
{
namespace
{

using namespace tandem::literals;

constexpr feeder::Mac home { 2, 0, 0, 0, 0, 1 }, other { 2, 0, 0, 0, 0, 2 };

// A link that flaps, looked at each millisecond or when it asks to be.
class LinkUps : public testing::Test
{
protected:
  LinkUpLimiter limiter {};
  Tick now { 100s };
  std::optional<feeder::Mac> ap = home;
  int told = 0; // link-ups

  void look(bool up)
  {
    const bool before = limiter.up();
    limiter.take(up, ap, now);
    told += limiter.up() && !before ? 1 : 0;
  }
  void run(bool up, Duration span)
  {
    for (const Tick end = now + span; now < end; now += 1ms)
      look(up);
  }
  void flap(int times, Duration down, Duration up)
  {
    for (int i = 0; i < times; ++i)
      run(false, down), run(true, up);
  }
};

TEST_F(LinkUps, of_blackouts_every_few_seconds_are_told_at_once)
{
  for (int i = 0; i < 100; ++i)
  {
    run(false, 300ms);
    look(true);
    EXPECT_TRUE(limiter.up());
    EXPECT_EQ(limiter.since(), now);
    run(true, 1700ms);
  }
  EXPECT_EQ(limiter.held(), 0u);
  EXPECT_EQ(limiter.next(), Tick::max());
}

TEST_F(LinkUps, of_a_link_that_flaps_are_a_few_and_then_one_a_second)
{
  flap(600, 50ms, 50ms); // a minute
  EXPECT_LE(told, 60 + 4);
  EXPECT_GE(told, 55) << "held back, not swallowed";
  EXPECT_GE(limiter.held() + static_cast<std::uint64_t>(told), 600u) << "all that had to wait, also in vain";
}

TEST_F(LinkUps, are_told_within_a_second_when_the_link_stays)
{
  flap(5, 50ms, 50ms);
  EXPECT_EQ(told, 4);
  EXPECT_FALSE(limiter.up());
  const Tick due = limiter.next();
  EXPECT_LE(due, now + 1s);
  now = due + 1us;
  look(true);
  EXPECT_TRUE(limiter.up());
  EXPECT_EQ(limiter.since(), now);
  EXPECT_EQ(limiter.next(), Tick::max());
}

TEST_F(LinkUps, a_blackout_is_told_at_once_also_of_a_link_that_flaps)
{
  flap(20, 50ms, 50ms);
  run(true, 2s);
  ASSERT_TRUE(limiter.up());
  look(false);
  EXPECT_FALSE(limiter.up());
  EXPECT_EQ(limiter.since(), now);
}

TEST_F(LinkUps, a_link_that_is_gone_again_is_waited_for_no_longer)
{
  flap(5, 50ms, 50ms);
  run(false, 10s);
  EXPECT_EQ(limiter.next(), Tick::max());
  EXPECT_EQ(told, 4);
}

TEST_F(LinkUps, at_another_access_point_are_counted_anew)
{
  flap(5, 50ms, 50ms);
  ASSERT_FALSE(limiter.up());
  ap = std::nullopt; // not told yet
  look(true);
  EXPECT_FALSE(limiter.up());
  ap = other;
  look(true);
  EXPECT_TRUE(limiter.up());
  run(false, 50ms);
  ap = home; // and back: what it has used up is used up
  look(true);
  EXPECT_FALSE(limiter.up());
}

TEST_F(LinkUps, under_ever_new_names_are_bounded_too)
{
  for (std::uint8_t i = 0; i < 250; ++i)
  {
    ap = feeder::Mac { 2, 0, 0, 0, 1, i };
    flap(1, 10ms, 10ms);
  }
  EXPECT_LE(told, 4 * (4 + 5)) << "four places, in five seconds";
}

} // namespace
} // namespace tandem::links
