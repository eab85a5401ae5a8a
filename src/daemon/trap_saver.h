// Writes what traps have caught, in a thread of its own: the packet thread hands a copy of the recorder over and goes
// on.
#pragma once

#include "src/trace/heading.h"
#include "src/trace/recorder.h"

#include <tandem/units.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <semaphore>
#include <string>
#include <thread>

namespace tandem::daemon
{

class TrapSaver
{
public:
  // Older ones are removed.
  static constexpr std::size_t most_files = 16;

  struct Job
  {
    std::uint64_t trap = 0;
    trace::Recorder recorder;
    trace::Heading heading {};
    Duration realtime_offset {}; // of the recorder's times
  };
  struct Saved
  {
    std::uint64_t trap = 0;
    std::string file {};
    std::string problem {}; // then no file
  };

  // `saved` is called from the thread. Files are written into `directory`, which is made for its owner alone (0700) and
  // refused when anyone else may write it.
  TrapSaver(std::filesystem::path directory, std::function<void(Saved)> saved);
  ~TrapSaver(); // what is being written is finished
  TrapSaver(const TrapSaver&) = delete;
  TrapSaver& operator=(const TrapSaver&) = delete;

  // Never waits. False, and nothing is done, while the one before is still being written.
  bool post(std::unique_ptr<Job> job);

private:
  void run();
  std::string write(const Job& job) const;

  std::filesystem::path directory_;
  std::function<void(Saved)> saved_;
  std::atomic<Job*> next_ { nullptr };
  std::atomic<bool> stop_ { false };
  std::counting_semaphore<> wake_ { 0 };
  std::thread thread_;
};

// Throws std::runtime_error with a sentence unless it is a directory of this user that nobody else may write.
void make_private_directory(const std::filesystem::path& directory);

} // namespace tandem::daemon
