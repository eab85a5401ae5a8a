#include "src/links/attempt_odds.h"

#include <gtest/gtest.h>

namespace tandem::links
{
namespace
{

using namespace tandem::literals;

// An access point whose acknowledgements are made up.
class Odds : public testing::Test
{
protected:
  AttemptOdds odds {};
  Tick now { 100s };

  // Frames that are acknowledged after so many failures each, an attempt every `access`.
  void frames(unsigned count, unsigned failures, Duration access = 1ms, bool others = false)
  {
    for (unsigned i = 0; i < count; ++i)
    {
      odds.waiting(now);
      fail(failures, access, others);
      attempt(failures > 0, access, others);
      odds.acknowledged(now);
    }
  }
  void fail(unsigned failures, Duration access = 1ms, bool others = false)
  {
    for (unsigned i = 0; i < failures; ++i)
      attempt(i > 0, access, others);
  }
  void attempt(bool again, Duration access = 1ms, bool others = false)
  {
    now += access;
    if (others) odds.other();
    odds.attempted(now, again);
  }
  bool enough(bool shared = false) const { return odds.surprise(shared, now) >= odds.enough(now); }
};

TEST_F(Odds, two_failures_are_much_where_hardly_any_attempt_fails)
{
  frames(200, 0);
  fail(1);
  EXPECT_FALSE(enough());
  fail(1);
  EXPECT_TRUE(enough());
}

TEST_F(Odds, where_two_of_three_attempts_fail_it_takes_as_many_as_that_makes_unlikely)
{
  frames(200, 2);
  EXPECT_NEAR(odds.failing(), 2. / 3, 0.02);
  fail(15); // (2/3)^15 = 0.0023
  EXPECT_FALSE(enough());
  fail(4); // (2/3)^19 = 0.00045
  EXPECT_TRUE(enough());
}

TEST_F(Odds, an_attempt_that_is_not_made_is_as_telling_as_the_wait_is_unusual)
{
  frames(200, 0, 2ms);
  odds.waiting(now);
  now += 10ms; // e^-5
  EXPECT_FALSE(enough());
  now += 6ms; // e^-8
  EXPECT_TRUE(enough());
}

TEST_F(Odds, among_others_the_usual_wait_is_the_one_among_others)
{
  frames(200, 0, 2ms);
  frames(200, 0, 10ms, true);
  EXPECT_NEAR(milliseconds(odds.access(true)), 10, 1);
  EXPECT_NEAR(milliseconds(odds.access(false)), 2, 0.2);
  odds.waiting(now);
  now += 50ms;
  EXPECT_TRUE(enough(false));
  EXPECT_FALSE(enough(true));
  now += 30ms;
  EXPECT_TRUE(enough(true));
}

TEST_F(Odds, among_others_the_wait_doubles_with_each_failure_of_a_frame)
{
  frames(200, 0, 5ms, true);
  const auto wait = [&]
  {
    const Tick begin = now;
    while (!enough(true))
      now += 1ms;
    return now - begin;
  };
  odds.waiting(now);
  const Duration first = wait();
  odds.was_away();
  // Hardly any attempt is known to fail: the failure itself takes most of the way.
  odds.waiting(now);
  attempt(false, 5ms, true);
  odds.heard(now); // the wait alone
  EXPECT_NEAR(milliseconds(wait()), 2 * milliseconds(first), 8);
}

TEST_F(Odds, nothing_that_waits_is_no_surprise)
{
  frames(20, 0);
  now += 10s;
  EXPECT_EQ(odds.surprise(false, now), 0);
}

TEST_F(Odds, an_access_point_that_is_heard_begins_a_new_silence)
{
  frames(200, 0);
  fail(5);
  ASSERT_TRUE(enough());
  odds.heard(now);
  EXPECT_FALSE(enough());
}

TEST_F(Odds, what_a_link_does_not_acknowledge_while_it_is_away_says_nothing_of_it)
{
  frames(200, 0);
  const double failing = odds.failing();
  const Duration access = odds.access(false);
  fail(50);
  odds.was_away();
  frames(1, 0);
  EXPECT_NEAR(odds.failing(), failing, 1e-3);
  EXPECT_EQ(odds.access(false), access);
}

TEST_F(Odds, a_long_run_that_nobody_looked_into_says_nothing_either)
{
  frames(200, 0);
  const double failing = odds.failing();
  fail(300);
  attempt(true);
  odds.acknowledged(now);
  EXPECT_NEAR(odds.failing(), failing, 1e-3);
}

TEST_F(Odds, one_wait_that_does_not_fit_counts_a_little)
{
  frames(200, 0);
  frames(1, 0, 2s);
  EXPECT_LT(odds.access(false), 2ms);
}

TEST_F(Odds, a_wrong_verdict_teaches_the_failures_and_caution_that_fades)
{
  frames(200, 0);
  const double failing = odds.failing(), enough_before = odds.enough(now);
  fail(10);
  odds.was_there(now);
  EXPECT_GT(odds.failing(), failing + 0.05);
  EXPECT_NEAR(odds.enough(now), 2 * enough_before, 0.01);
  EXPECT_NEAR(odds.enough(now + 10s), 1.5 * enough_before, 0.01);
  for (int i = 0; i < 10; ++i)
    odds.was_there(now);
  EXPECT_LE(odds.enough(now), 4 * enough_before + 0.01) << "bounded";
  EXPECT_NEAR(odds.enough(now + 200s), enough_before, 0.01);
}

TEST_F(Odds, the_past_fades)
{
  frames(200, 2);
  frames(600, 0);
  EXPECT_LT(odds.failing(), 0.03);
}

TEST_F(Odds, another_access_point_is_not_judged_by_the_one_before)
{
  const double failing = odds.failing(), enough_before = odds.enough(now);
  frames(200, 2, 10ms, true);
  odds.was_there(now);
  odds.forget();
  EXPECT_EQ(odds.failing(), failing);
  EXPECT_EQ(odds.enough(now), enough_before);
  EXPECT_EQ(odds.access(true), AttemptOdds {}.access(true));
}

} // namespace
} // namespace tandem::links
