// Writes reports to a file as JSON Lines (record.h), so that what the drivers reported can be replayed.
#pragma once

#include "src/feeder/recording/record.h"
#include "src/feeder/sources/threaded_worker.h"
#include "src/kernel/fd.h"

#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace tandem::feeder
{

struct RecorderLimits
{
  std::uint64_t bytes = std::uint64_t { 256 } << 20;  // of the file; then the recording ends and says so
  unsigned frames = 10'000;                           // a second; more are left out, which a note in the file tells
  std::size_t waiting = 4096;                         // reports that wait to be written; a slow disk loses what is more
  Duration delay = std::chrono::milliseconds { 200 }; // until what was taken is written
  Duration timeout = std::chrono::seconds { 2 };      // the destructor waits so long for the disk
};

// take() copies the report into memory that is reserved at start-up and wakes nobody; a thread makes the text and
// writes it. An error (disk full) ends the recording, never the caller.
class Recorder
{
public:
  // A new file has mode 0600. A file that exists must be a recording and is continued, behind a header of its own;
  // symbolic links are not followed. Throws std::runtime_error with a sentence.
  Recorder(std::string path, Tick now, RecorderLimits limits = {});
  // Writes to an open descriptor. `path` is its name in messages.
  Recorder(kernel::Fd file, std::string path, Tick now, RecorderLimits limits = {});
  // Writes what waits. A disk that takes longer than `timeout` is not waited for.
  ~Recorder();
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  void take(std::string_view source, const Report& report) noexcept;

  // Why nothing is recorded any more, for people: empty while it works.
  std::string problem() const;
  const std::string& path() const { return path_; }

  struct Counters
  {
    std::uint64_t written = 0; // reports
    std::uint64_t bytes = 0;
    std::uint64_t thinned = 0; // frames beyond the rate
    std::uint64_t lost = 0;    // reports that came faster than the disk takes them, or after the end
  };
  Counters counters() const;

private:
  struct Shared;

  void start(Tick now, const RecorderLimits& limits);

  std::string path_;
  std::shared_ptr<Shared> shared_;
  std::optional<ThreadedWorker> worker_ {};
};

} // namespace tandem::feeder
