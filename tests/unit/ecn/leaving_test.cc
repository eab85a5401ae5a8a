#include "modules/ecn/leaving.h"

#include <gtest/gtest.h>

namespace tandem::ecn
{
namespace
{

using namespace std::chrono_literals;

// Two links: 0 was good and is to be left, 1 is to be used.
struct Fixture
{
  Leaving leaving;
  Tick now { 1h };
  std::array<std::uint64_t, most_wifi> bytes {};
  Leaving::Links both { true, true }, second { false, true };

  void run(double first_rate, double second_rate, Duration length)
  {
    for (const Tick end = now + length; now < end; now += 100ms)
    {
      bytes[0] += static_cast<std::uint64_t>(first_rate / 10);
      bytes[1] += static_cast<std::uint64_t>(second_rate / 10);
      leaving.look(bytes, now);
    }
  }
};

TEST(leaving, a_link_that_carries_the_download_is_left_when_the_other_does)
{
  Fixture s;
  s.run(1e6, 2e4, 2s);
  s.leaving.told(s.both, s.both, s.now);
  EXPECT_TRUE(s.leaving.later(0, s.second, s.now));
  s.leaving.told(s.both, s.second, s.now);
  s.run(5e5, 4e5, 1s);
  EXPECT_TRUE(s.leaving.later(0, s.second, s.now));
  s.run(3e5, 8e5, 1s);
  EXPECT_FALSE(s.leaving.later(0, s.second, s.now));
}

TEST(leaving, not_for_ever)
{
  Fixture s;
  s.run(1e6, 0, 2s);
  s.leaving.told(s.both, s.both, s.now);
  s.leaving.told(s.both, s.second, s.now);
  for (int i = 0; i < 29; ++i)
  {
    s.run(1e6, 0, 100ms);
    ASSERT_TRUE(s.leaving.later(0, s.second, s.now)) << i;
    s.leaving.told(s.both, s.second, s.now);
  }
  s.run(1e6, 0, 200ms);
  EXPECT_FALSE(s.leaving.later(0, s.second, s.now));
  s.leaving.told(s.second, s.second, s.now);
  EXPECT_FALSE(s.leaving.later(0, s.second, s.now)) << "it is left";
}

TEST(leaving, what_was_never_good_is_left_at_once)
{
  Fixture s;
  s.run(1e6, 0, 2s);
  s.leaving.told(s.both, s.second, s.now);
  EXPECT_FALSE(s.leaving.later(0, s.second, s.now)) << "in use as far as it brings more: the loop decides";
  s.leaving.told(s.second, s.second, s.now);
  EXPECT_FALSE(s.leaving.later(0, s.second, s.now));
}

} // namespace
} // namespace tandem::ecn
