#include "src/daemon/budget_file.h"

#include <ctime>
#include <string_view>
#include <utility>

namespace tandem::daemon
{

namespace
{

constexpr std::string_view forgotten = "what is spent on the cellular link is forgotten when the daemon ends";

} // namespace

Calendar calendar_now()
{
  const std::time_t now = std::time(nullptr);
  std::tm parts {};
  ::tzset(); // localtime_r() reads the time zone once, and who travels sets another one
  if (::localtime_r(&now, &parts) == nullptr) return {};
  return calendar_of(parts);
}

BudgetFile::BudgetFile(const std::filesystem::path& directory)
    : kept_ { directory,
              "spent",
              { .forgotten = forgotten, .anew = "a day's budget counts as spent", .unsaved = forgotten } }
{
}

BudgetBook BudgetFile::load(const Calendar& now, std::uint64_t unknown)
{
  BudgetBook book {};
  book.move(now);
  if (!problem().empty() && !kept_.forbidden()) return book;
  bool open = false;
  const bool whole = kept_.load(longest_budget_text,
                                [&](const std::string& text)
                                {
                                  BudgetBook::Read read = book.read(text);
                                  open = read.open;
                                  return std::move(read.wrong);
                                });
  book.move(now);
  book.spend("uncounted", !whole ? unknown : open ? uncounted : 0);
  return book;
}

BudgetSaver::BudgetSaver(BudgetFile file, Say say, Duration pause)
    : file_ { std::move(file) }, say_ { std::move(say) }, pause_ { pause }, thread_ { [this] { run(); } }
{
}

BudgetSaver::~BudgetSaver()
{
  {
    const std::lock_guard lock { mutex_ };
    ends_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void BudgetSaver::post(std::string text)
{
  {
    const std::lock_guard lock { mutex_ };
    next_ = std::move(text);
  }
  changed_.notify_all();
}

void BudgetSaver::run()
{
  std::unique_lock lock { mutex_ };
  for (;;)
  {
    changed_.wait(lock, [this] { return ends_ || next_; });
    if (!next_) return;
    const std::string text = *std::exchange(next_, {});
    const bool last = ends_;
    lock.unlock();
    const bool saved = file_.save(text);
    if (saved)
      said_.clear();
    else if (std::exchange(said_, file_.problem()) != file_.problem())
      say_(file_.problem());
    lock.lock();
    if (saved || last) continue;
    // Nobody may spend any more, and then nothing is posted: what the disk refused is tried again.
    if (!next_) next_ = text;
    changed_.wait_for(lock, pause_, [this] { return ends_; });
  }
}

} // namespace tandem::daemon
