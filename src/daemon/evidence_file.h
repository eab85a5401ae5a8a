// Where what was learnt outlives the daemon. A file that is torn, foreign or of another version is put aside, never
// overwritten.
#pragma once

#include "src/daemon/kept_file.h"
#include "src/evidence/memory.h"

#include <condition_variable>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace tandem::daemon
{

class EvidenceFile
{
public:
  // The directory is made, for its owner alone, when it is not there.
  explicit EvidenceFile(const std::filesystem::path& directory);

  // What was remembered; nothing when there is no such file. What is wrong with it becomes a sentence in problem().
  evidence::Memory load(evidence::WallTime now);
  // False: problem() says why.
  bool save(const std::string& text) { return kept_.save(text); }

  // Of the latest call that had one; empty: all is well.
  const std::string& problem() const { return kept_.problem(); }

private:
  KeptFile kept_;
};

// Saves in a thread of its own, so that no packet waits for a disk: once a minute at most while there is something new,
// when the packet loop goes to rest, and when it ends. Nothing new, no wake-up.
class EvidenceSaver
{
public:
  static constexpr Duration usual_pause = std::chrono::minutes { 1 };

  // `text`: what is to be written, when that is something new. Called from the saver's thread.
  using Text = std::function<std::optional<std::string>()>;
  using Say = std::function<void(const std::string& problem)>;

  EvidenceSaver(EvidenceFile& file, Text text, Say say, Duration pause = usual_pause);
  ~EvidenceSaver();
  EvidenceSaver(const EvidenceSaver&) = delete;
  EvidenceSaver& operator=(const EvidenceSaver&) = delete;

  // There is something new. `rests`: nothing follows for a while, so that it is better written now than in a sleep.
  // From any thread; as often as one likes.
  void news(bool rests);

private:
  void run();
  Tick due() const; // max: never
  bool save();      // false: it is to be tried again

  EvidenceFile& file_;
  Text text_;
  Say say_;
  std::optional<std::string> unsaved_ {};
  std::string said_ {};
  Duration pause_;
  std::mutex mutex_ {};
  std::condition_variable told_ {};
  std::optional<Tick> news_ {}; // since when; nothing: all is written
  bool rests_ = false;
  Tick next_ {}; // not written before: a minute after the last time, later when that failed
  bool ends_ = false;
  std::thread thread_;
};

} // namespace tandem::daemon
