// What can be turned of freeze. Each strategy lists the rows it listens to.
#pragma once

#include <tandem/knob_table.h>
#include <tandem/units.h>

#include <array>

namespace tandem::freeze
{

struct Knobs
{
  double bulk_window = 20;      // MSS
  double withheld_share = 0.01; // of the window
  double withheld_queue = 0.5;  // of what is queued
  double release_after = 0.02;  // s
  double closed_longest = 1;    // s
  double validate_path = 1;
  double deadline = 60; // s

  // Constants for everybody but tests: what docs/results/freeze.md was measured with.
  double bulk_bytes = 262144;
  double resumes = 8; // a third of a second, with resume_gap
  double undo = 1;
  double release_parts = 6;
  double closed_back_off = 10; // s
};

// Between the first two ACKs at link-up; grows by half each time. Shorter than the round trips of most paths, so that
// a lost one costs little; measured as the constants above.
constexpr double resume_gap = 0.01; // s
// A flow that was silent for this long before a blackout waits for nothing after it.
constexpr Duration lively = std::chrono::seconds { 2 };

using Row = KnobRow<Knobs>;

constexpr Row bulk_window_row { { .name = "bulk_window",
                                  .unit = "MSS",
                                  .minimum = 2,
                                  .maximum = 10000,
                                  .help = "window of the sender below which nothing is withheld" },
                                &Knobs::bulk_window };
constexpr Row withheld_share_row {
  { .name = "withheld_share",
    .minimum = 0,
    .maximum = 0.5,
    .help = "share of the sender's window whose acknowledgement is withheld in any case, at least one segment" },
  &Knobs::withheld_share
};
constexpr Row withheld_queue_row {
  { .name = "withheld_queue",
    .minimum = 0,
    .maximum = 1,
    .help = "and this share of what the flow has standing in queues, where it costs nothing" },
  &Knobs::withheld_queue
};
constexpr Row release_after_row { { .name = "release_after",
                                    .type = KnobType::duration,
                                    .unit = "s",
                                    .minimum = 0.001,
                                    .maximum = 1,
                                    .help = "what is withheld is acknowledged after this long without progress, or "
                                            "three quarters of a round trip if that is "
                                            "longer" },
                                  &Knobs::release_after };
constexpr Row closed_longest_row { { .name = "closed_longest",
                                     .type = KnobType::duration,
                                     .unit = "s",
                                     .minimum = 0.05,
                                     .maximum = 10,
                                     .help = "how long the window stays closed for a warning without a blackout" },
                                   &Knobs::closed_longest };
constexpr Row validate_path_row {
  { .name = "validate_path",
    .type = KnobType::boolean,
    .minimum = 0,
    .maximum = 1,
    .help = "strategies paced_release and zero_window: nothing is sent by cellular before the path is validated" },
  &Knobs::validate_path
};
constexpr Row deadline_row { { .name = "deadline",
                               .type = KnobType::duration,
                               .unit = "s",
                               .minimum = 1,
                               .maximum = 600,
                               .help = "blackouts longer than this are left to TCP, a closed window reopens" },
                             &Knobs::deadline };

constexpr Row bulk_bytes_row { { .name = "bulk_bytes",
                                 .unit = "bytes",
                                 .minimum = 0,
                                 .maximum = 1e12,
                                 .help = "delivered before a flow counts as a download" },
                               &Knobs::bulk_bytes };
constexpr Row resumes_row {
  { .name = "resumes", .minimum = 1, .maximum = 32, .help = "ACKs sent at link-up until the server answers" },
  &Knobs::resumes
};
constexpr Row undo_row {
  { .name = "undo", .minimum = 0, .maximum = 1, .help = "one older TSecr at the recovery point" }, &Knobs::undo
};
constexpr Row release_parts_row {
  { .name = "release_parts", .minimum = 1, .maximum = 32, .help = "parts of a paced release" }, &Knobs::release_parts
};
constexpr Row closed_back_off_row { { .name = "closed_back_off",
                                      .minimum = 0,
                                      .maximum = 3600,
                                      .help = "s of back-off after a warning that came to nothing" },
                                    &Knobs::closed_back_off };

} // namespace tandem::freeze
