// Whatever happens, in whatever order, with every module on: they cannot contradict each other (docs/decisions/0002).
#include "tests/unit/together/world.h"

#include <gtest/gtest.h>

namespace tandem::test
{
namespace
{

TEST(TogetherProperties, HoldUnderRandomEvents)
{
  Reached all {};
  for (std::uint32_t seed = 1; seed <= 100; ++seed)
  {
    SCOPED_TRACE("seed " + std::to_string(seed));
    World world { seed };
    world.run(5000);
    if (!HasFatalFailure()) world.finish();
    if (HasFailure()) return;
    const Reached& r = world.reached;
    all.probes += r.probes, all.validated += r.validated, all.withheld += r.withheld, all.resumed += r.resumed;
    all.closed_ahead += r.closed_ahead, all.hidden += r.hidden, all.left_out += r.left_out;
    all.ts_lowered += r.ts_lowered, all.ts_spoiled += r.ts_spoiled, all.strict_bound += r.strict_bound;
    all.filtered_runs += r.filtered_runs, all.lost_uploads += r.lost_uploads;
  }
  // A test that never gets there would pass as well.
  EXPECT_GT(all.probes, 500u);
  EXPECT_GT(all.validated, 100u);
  EXPECT_GT(all.withheld, 1'000u);
  EXPECT_GT(all.resumed, 100u);
  EXPECT_GT(all.closed_ahead, 50u);
  EXPECT_GT(all.hidden, 50u);
  EXPECT_GT(all.left_out, 1'000u);
  EXPECT_GT(all.ts_lowered, 50u);
  EXPECT_GT(all.ts_spoiled, 20u);
  EXPECT_GT(all.strict_bound, 100u);
  EXPECT_GT(all.filtered_runs, 40u);
  EXPECT_GT(all.lost_uploads, 100u);
}

} // namespace
} // namespace tandem::test
