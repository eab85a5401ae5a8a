// Property tests: many runs from seeds, and what all of them together must have reached.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace tandem::test
{

// A counter of what a run saw; more than `least` over all runs, since a test that never gets there would pass as well.
template <class Coverage>
struct Reached
{
  const char* what;
  std::uint64_t Coverage::*count;
  std::uint64_t least;
};

// Runs `World { seed }` for seeds 1 to `seeds` and so many steps each; `finish()` is what holds after everything has
// settled, `coverage` what the run saw. Ends with the first seed that fails.
template <class World, class Coverage, std::size_t n>
void hold_under_random_events(std::uint32_t seeds, int steps, const Reached<Coverage> (&expected)[n])
{
  Coverage all {};
  for (std::uint32_t seed = 1; seed <= seeds; ++seed)
  {
    SCOPED_TRACE("seed " + std::to_string(seed));
    World world { seed };
    world.run(steps);
    if (!::testing::Test::HasFatalFailure()) world.finish();
    if (::testing::Test::HasFailure()) return;
    for (const Reached<Coverage>& one : expected)
      all.*one.count += world.coverage.*one.count;
  }
  for (const Reached<Coverage>& one : expected)
    EXPECT_GT(all.*one.count, one.least) << one.what;
}

} // namespace tandem::test
