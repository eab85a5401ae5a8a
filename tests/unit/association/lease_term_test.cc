#include "src/association/lease_term.h"

#include <gtest/gtest.h>

namespace tandem::association
{
namespace
{

using namespace std::chrono_literals;

constexpr Tick start { 1000s };

TEST(LeaseTerm, is_asked_for_at_once_and_again_at_half_of_it)
{
  LeaseTerm term { start };
  EXPECT_TRUE(term.due(start));
  EXPECT_FALSE(term.over(start)) << "there is none";
  term.granted(3600s, start);
  EXPECT_FALSE(term.due(start + 1799s));
  EXPECT_TRUE(term.due(start + 1800s));
  term.unanswered(start + 1800s);
  EXPECT_FALSE(term.due(start + 1809s));
  EXPECT_TRUE(term.due(start + 1810s));
  EXPECT_FALSE(term.over(start + 3599s));
  EXPECT_TRUE(term.over(start + 3600s));
}

TEST(LeaseTerm, runs_on_while_the_machine_sleeps)
{
  LeaseTerm term { start };
  term.granted(3600s, start);
  term.slept(1000s, start + 100s);
  EXPECT_TRUE(term.due(start + 100s));
  EXPECT_FALSE(term.over(start + 100s));
  EXPECT_TRUE(term.over(start + 2600s));

  term.granted(3600s, start);
  term.slept(8h, start + 100s);
  EXPECT_TRUE(term.due(start + 100s));
  EXPECT_TRUE(term.over(start + 100s)) << "it goes before it is asked for";
}

TEST(LeaseTerm, without_an_end_is_asked_for_after_a_sleep_alone)
{
  LeaseTerm term { start };
  term.granted({}, start);
  EXPECT_FALSE(term.due(start + 1000h));
  term.slept(8h, start + 100s);
  EXPECT_TRUE(term.due(start + 100s));
  EXPECT_FALSE(term.over(start + 1000h));
}

} // namespace
} // namespace tandem::association
