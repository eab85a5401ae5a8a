// Whatever happens, in whatever order, with every module on: they cannot contradict each other (docs/decisions/0002).
#include "tests/unit/random_runs.h"
#include "tests/unit/together/world.h"

#include <gtest/gtest.h>

namespace tandem::test
{
namespace
{

TEST(TogetherProperties, HoldUnderRandomEvents)
{
  hold_under_random_events<World, Coverage>(120, 5000,
                                            {
                                                { "probes", &Coverage::probes, 500 },
                                                { "validated", &Coverage::validated, 100 },
                                                { "withheld", &Coverage::withheld, 1'000 },
                                                { "resumed", &Coverage::resumed, 100 },
                                                { "closed ahead", &Coverage::closed_ahead, 50 },
                                                { "hidden", &Coverage::hidden, 50 },
                                                { "left out", &Coverage::left_out, 1'000 },
                                                { "ts lowered", &Coverage::ts_lowered, 50 },
                                                { "ts spoiled", &Coverage::ts_spoiled, 20 },
                                                { "strict bound", &Coverage::strict_bound, 100 },
                                                { "filtered runs", &Coverage::filtered_runs, 40 },
                                                { "lost uploads", &Coverage::lost_uploads, 100 },
                                                { "rate bound", &Coverage::rate_bound, 1'000 },
                                                { "ahead of own", &Coverage::ahead_of_own, 1'000 },
                                                { "on word", &Coverage::on_word, 50 },
                                                { "address lost", &Coverage::away, 100 },
                                                { "duplicates", &Coverage::duplicates, 1'000 },
                                                { "for firewalls", &Coverage::for_firewalls, 50 },
                                                { "queue out of the way", &Coverage::bypassed, 100 },
                                                { "half-closed", &Coverage::half_closed, 30 },
                                            });
}

} // namespace
} // namespace tandem::test
