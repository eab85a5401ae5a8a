#include "src/daemon/evidence_file.h"

#include "src/daemon/whole_file.h"
#include "src/evidence/text.h"

#include <sys/stat.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <exception>
#include <system_error>
#include <utility>

namespace tandem::daemon
{

namespace
{

constexpr int most_aside = 5; // files put aside that are kept
constexpr auto pause = std::chrono::minutes { 1 };

} // namespace

EvidenceFile::EvidenceFile(const std::filesystem::path& directory) : file_ { directory / "networks" }
{
  ::mkdir(directory.parent_path().c_str(), 0750);
  // What was learnt names networks and servers: nobody else's business.
  if (::mkdir(directory.c_str(), 0700) != 0 && errno != EEXIST)
    problem_ = directory.string() + ": " + std::strerror(errno) + "; what is learnt is forgotten when the daemon ends";
}

evidence::Memory EvidenceFile::load(evidence::WallTime now)
{
  evidence::Memory memory {};
  std::string wrong;
  try
  {
    const std::string text = read_whole(file_, evidence::longest_text);
    if (text.empty() && !std::filesystem::exists(file_)) return memory;
    wrong = evidence::from_text(text, now, memory);
    if (!wrong.empty()) wrong = file_.string() + ": " + wrong;
  }
  catch (const std::exception& error)
  {
    wrong = error.what();
  }
  if (!wrong.empty()) usable_ = put_aside(wrong);
  return memory;
}

// Under the first name that is free; after some the last one is used again.
bool EvidenceFile::put_aside(const std::string& why)
{
  std::error_code fault;
  std::filesystem::path to;
  for (int i = 1; i <= most_aside; ++i)
  {
    to = file_.string() + ".aside" + std::to_string(i);
    if (!std::filesystem::exists(std::filesystem::symlink_status(to, fault))) break;
  }
  std::filesystem::rename(file_, to, fault);
  problem_ = fault ? why + "; it can be neither used nor put aside (" + fault.message()
                         + "), so what is learnt is forgotten when the daemon ends"
                   : why + "; put aside as " + to.filename().string() + ", learning begins anew";
  return !fault;
}

bool EvidenceFile::save(const std::string& text)
{
  if (!usable_) return false;
  try
  {
    write_whole(file_, text);
    problem_.clear();
    return true;
  }
  catch (const std::exception& error)
  {
    problem_ = std::string { error.what() } + "; what was learnt is not saved";
    return false;
  }
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
  while (!ending_.wait_for(lock, pause, [this] { return ends_; }))
  {
    lock.unlock();
    save();
    lock.lock();
  }
}

void EvidenceSaver::save()
{
  try
  {
    if (auto text = text_()) unsaved_ = std::move(text);
    if (!unsaved_) return;
    if (file_.save(*unsaved_))
    {
      unsaved_.reset();
      return;
    }
  }
  catch (const std::exception&)
  {
    return; // the packet thread has no time: the next minute will do
  }
  // Once for each thing that goes wrong.
  if (said_ == file_.problem()) return;
  said_ = file_.problem();
  say_(said_);
}

} // namespace tandem::daemon
