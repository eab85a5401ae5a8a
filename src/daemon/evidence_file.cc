#include "src/daemon/evidence_file.h"

#include "src/evidence/text.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

namespace tandem::daemon
{

namespace
{

constexpr auto pause = std::chrono::minutes { 1 };
constexpr auto longest_pause = std::chrono::minutes { 8 };

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

EvidenceSaver::EvidenceSaver(EvidenceFile& file, Text text, Say say)
    : file_ { file }, text_ { std::move(text) }, say_ { std::move(say) }, thread_ { [this] { run(); } }
{
}

EvidenceSaver::~EvidenceSaver()
{
  {
    const std::lock_guard lock { mutex_ };
    ends_ = true;
  }
  ending_.notify_all();
  thread_.join();
  save();
}

void EvidenceSaver::run()
{
  std::unique_lock lock { mutex_ };
  // Ever more seldom while nothing new is learnt: a machine at rest is to stay asleep.
  auto wait = pause;
  while (!ending_.wait_for(lock, wait, [this] { return ends_; }))
  {
    lock.unlock();
    wait = save() ? pause : std::min(2 * wait, longest_pause);
    lock.lock();
  }
}

bool EvidenceSaver::save()
{
  try
  {
    if (auto text = text_()) unsaved_ = std::move(text);
    if (!unsaved_) return false;
    if (file_.save(*unsaved_))
    {
      unsaved_.reset();
      return true;
    }
  }
  catch (const std::exception&)
  {
    return true; // the packet thread has no time: the next minute will do
  }
  // Once for each thing that goes wrong.
  if (said_ == file_.problem()) return true;
  said_ = file_.problem();
  say_(said_);
  return true;
}

} // namespace tandem::daemon
