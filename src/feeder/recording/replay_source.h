// Plays a recording of reports (record.h) again, at the pace at which it was made.
#pragma once

#include "src/feeder/recording/record.h"
#include "src/feeder/sources/source.h"
#include "src/kernel/fd.h"

#include <fstream>
#include <optional>
#include <string>

namespace tandem::feeder
{

// The first report comes at the time of reopen(), every other one as much later as it was recorded. What cannot be
// played as it stands is played all the same, and said:
//   - a line that is no record is skipped and counted;
//   - a gap longer than `longest_gap` takes `longest_gap`, which is longer than any source's stale_after();
//   - a time that goes back by more than `disorder` (the machine restarted, two recordings in one file) and a new
//     header start anew: what follows comes `restart_gap` after what was before;
//   - a time that goes back by less, as when several sources are recorded, counts as now.
class ReplaySource final : public Source
{
public:
  static constexpr Duration longest_gap = std::chrono::seconds { 30 };
  static constexpr Duration disorder = std::chrono::seconds { 1 };
  static constexpr Duration restart_gap = std::chrono::seconds { 1 };

  explicit ReplaySource(std::string path) : path_ { std::move(path) } {}

  std::string name() const override { return "replay:" + path_; }
  // A timer that runs out when the next report is due.
  int fd() const override { return timer_.get(); }
  Tick due() const override { return next_ ? next_->report.at : Tick::max(); }
  // False at the end of the recording.
  bool receive(Tick now, std::vector<Report>& reports) override;
  // Starts at the first line. False when that is no header, and once the recording has been played to its end.
  bool reopen(Tick now) override;
  std::string problem() const override { return problem_; }
  std::uint64_t skipped() const override { return skipped_; }
  Duration stale_after() const override { return std::chrono::seconds { 15 }; } // of the slowest source
  unsigned rate_limit() const override { return 20'000; }

  // The latest thing that could not be played as it stands, with file, line and reason; empty: none so far.
  const std::string& complaint() const { return complaint_; }
  std::uint64_t complaints() const { return complaints_; }

private:
  void set_timer();
  bool read_line(std::string& line);
  void advance();
  void place(RecordedReport&& recorded);
  void complain(const std::string& what);

  std::string path_;
  std::ifstream file_ {};
  kernel::Fd timer_ {}; // open while the recording is
  std::uint64_t line_ = 0;
  std::optional<RecordedReport> next_ {}; // its time is ours
  Tick recorded_at_ {};                   // of the latest report, as recorded
  Tick played_at_ {};                     // the same on our clock
  bool started_ = false;                  // there was a report
  bool restarted_ = false;                // a header came since
  bool finished_ = false;
  std::uint64_t skipped_ = 0;
  std::uint64_t complaints_ = 0;
  std::string complaint_ {};
  std::string problem_ {};
};

} // namespace tandem::feeder
