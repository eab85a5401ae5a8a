#include "src/daemon/evidence_file.h"

#include "src/evidence/text.h"
#include "src/kernel/clock.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

namespace tandem::daemon
{

namespace
{

constexpr int longest_wait = 8; // pauses, after failures

} // namespace

EvidenceFile::EvidenceFile(const std::filesystem::path& directory)
    : kept_ { directory,
              "networks",
              { .forgotten = "what is learnt is forgotten when the daemon ends",
                .anew = "learning begins anew",
                .unsaved = "what was learnt is not saved" } }
{
}

evidence::Memory EvidenceFile::load(evidence::WallTime now)
{
  evidence::Memory memory {};
  static_cast<void>(kept_.load(evidence::longest_text,
                               [&](const std::string& text) { return evidence::from_text(text, now, memory); }));
  return memory;
}

EvidenceSaver::EvidenceSaver(EvidenceFile& file, Text text, Say say, Duration pause)
    : file_ { file }, text_ { std::move(text) }, say_ { std::move(say) }, pause_ { pause }, thread_ { [this]
                                                                                                      { run(); } }
{
}

EvidenceSaver::~EvidenceSaver()
{
  {
    const std::lock_guard lock { mutex_ };
    ends_ = true;
  }
  told_.notify_all();
  thread_.join();
  save();
}

void EvidenceSaver::news(bool rests)
{
  {
    const std::lock_guard lock { mutex_ };
    if (news_ && rests == rests_) return;
    if (!news_) news_ = kernel::now();
    rests_ = rests;
  }
  told_.notify_all();
}

Tick EvidenceSaver::due() const
{
  if (!news_) return Tick::max();
  return rests_ ? next_ : std::max(next_, *news_ + pause_);
}

void EvidenceSaver::run()
{
  std::unique_lock lock { mutex_ };
  int wait = 1; // pauses
  while (!ends_)
  {
    const Tick now = kernel::now(), at = due();
    if (at > now)
    {
      // Without a limit while nothing is new: a machine at rest stays asleep.
      if (at == Tick::max())
        told_.wait(lock);
      else
        told_.wait_for(lock, at - now);
      continue;
    }
    news_.reset();
    lock.unlock();
    const bool saved = save();
    lock.lock();
    wait = saved ? 1 : std::min(2 * wait, longest_wait);
    next_ = kernel::now() + wait * pause_;
    if (!saved && !news_) news_ = next_ - pause_;
  }
}

bool EvidenceSaver::save()
{
  try
  {
    if (auto text = text_()) unsaved_ = std::move(text);
    if (!unsaved_ || file_.save(*unsaved_))
    {
      unsaved_.reset();
      said_.clear(); // should it go wrong again some day, that is news
      return true;
    }
  }
  catch (const std::exception&)
  {
    return false; // the packet thread has no time: a later minute will do
  }
  // Once for each thing that goes wrong.
  if (said_ != file_.problem()) say_(said_ = file_.problem());
  return false;
}

} // namespace tandem::daemon
