// What can be turned of freeze. Each strategy lists the rows it listens to.
#pragma once

#include <tandem/knob_table.h>
#include <tandem/units.h>

#include <string_view>

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

constexpr Row number(double Knobs::*field, std::string_view name, std::string_view unit, double minimum, double maximum,
                     std::string_view help)
{
  return { { .name = name, .unit = unit, .minimum = minimum, .maximum = maximum, .help = help }, field };
}
constexpr Row duration(double Knobs::*field, std::string_view name, double minimum, double maximum,
                       std::string_view help)
{
  return {
    { .name = name, .type = KnobType::duration, .unit = "s", .minimum = minimum, .maximum = maximum, .help = help },
    field
  };
}

constexpr Row bulk_window_row =
    number(&Knobs::bulk_window, "bulk_window", "MSS", 2, 10000, "window of the sender below which nothing is withheld");
constexpr Row withheld_share_row = number(
    &Knobs::withheld_share, "withheld_share", "", 0, 0.5,
    "share of the sender's window whose acknowledgement is withheld in any case, where that is a segment or more");
constexpr Row withheld_queue_row = number(&Knobs::withheld_queue, "withheld_queue", "", 0, 1,
                                          "and this share of what the flow has in queues, where it costs nothing");
constexpr Row release_after_row = duration(&Knobs::release_after, "release_after", 0.001, 1,
                                           "what is withheld is acknowledged after this long without progress, or "
                                           "three quarters of a round trip if that is longer");
constexpr Row closed_longest_row = duration(&Knobs::closed_longest, "closed_longest", 0.05, 10,
                                            "how long the window stays closed for a warning without a blackout");
constexpr Row validate_path_row {
  { .name = "validate_path",
    .type = KnobType::boolean,
    .minimum = 0,
    .maximum = 1,
    .help = "strategies paced_release and zero_window: nothing is sent by cellular before the path is validated" },
  &Knobs::validate_path
};
constexpr Row deadline_row = duration(&Knobs::deadline, "deadline", 1, 600,
                                      "blackouts longer than this are left to TCP, a closed window reopens");

constexpr Row bulk_bytes_row =
    number(&Knobs::bulk_bytes, "bulk_bytes", "bytes", 0, 1e12, "delivered before a flow counts as a download");
constexpr Row resumes_row =
    number(&Knobs::resumes, "resumes", "", 1, 32, "ACKs sent at link-up until the server answers");
constexpr Row undo_row = number(&Knobs::undo, "undo", "", 0, 1, "one older TSecr at the recovery point");
constexpr Row release_parts_row = number(&Knobs::release_parts, "release_parts", "", 1, 32, "parts of a paced release");
constexpr Row closed_back_off_row = number(&Knobs::closed_back_off, "closed_back_off", "", 0, 3600,
                                           "s of back-off after a warning that came to nothing");

} // namespace tandem::freeze
