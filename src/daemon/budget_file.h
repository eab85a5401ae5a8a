// Where what was spent on the cellular link outlives the daemon. A file that is torn, foreign or of another version is
// put aside, never overwritten, and costs a day's budget: what was in it is not known.
#pragma once

#include "src/daemon/budget_book.h"
#include "src/daemon/kept_file.h"

#include <tandem/units.h>

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

namespace tandem::daemon
{

// By this machine's time zone, as it is now.
Calendar calendar_now();

class BudgetFile
{
public:
  // What a daemon that did not end in order may have spent since it last saved.
  static constexpr std::uint64_t uncounted = 256'000;

  // The directory is made, for its owner alone, when it is not there.
  explicit BudgetFile(const std::filesystem::path& directory);

  // What was spent. `unknown`: what is charged when the file cannot be read. What is wrong is said in problem().
  BudgetBook load(const Calendar& now, std::uint64_t unknown);
  // False: problem() says why.
  bool save(const std::string& text) { return kept_.save(text); }
  // Of the latest call; empty: all is well.
  const std::string& problem() const { return kept_.problem(); }

private:
  KeptFile kept_;
};

// Saves in a thread of its own, so that no packet waits for a disk, and only when there is something to save. What
// failed is tried again once in a pause.
class BudgetSaver
{
public:
  static constexpr Duration usual_pause = std::chrono::minutes { 1 };

  using Say = std::function<void(const std::string& problem)>; // from the thread; once for each thing that goes wrong

  BudgetSaver(BudgetFile file, Say say, Duration pause = usual_pause);
  ~BudgetSaver(); // what was posted is saved first
  BudgetSaver(const BudgetSaver&) = delete;
  BudgetSaver& operator=(const BudgetSaver&) = delete;

  // Takes the place of what was posted before and is not saved yet.
  void post(std::string text);

private:
  void run();

  BudgetFile file_;
  Say say_;
  std::mutex mutex_ {};
  std::condition_variable changed_ {};
  std::optional<std::string> next_ {};
  bool ends_ = false;
  std::string said_ {};
  Duration pause_;
  std::thread thread_;
};

} // namespace tandem::daemon
