#include "src/daemon/kept_file.h"

#include "src/daemon/whole_file.h"
#include "src/kernel/fd.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <exception>
#include <system_error>

namespace tandem::daemon
{

namespace
{

constexpr int most_aside = 5; // files put aside that are kept

} // namespace

KeptFile::KeptFile(const std::filesystem::path& directory, std::string_view name, const Words& words)
    : file_ { directory / name }, words_ { words }
{
  ::mkdir(directory.parent_path().c_str(), 0750);
  // It names networks and servers, and when somebody was out: nobody else's business.
  if (::mkdir(directory.c_str(), 0700) == 0 || errno == EEXIST) return;
  if (errno == EACCES)
    forbid(directory);
  else
    problem_ = directory.string() + ": " + std::strerror(errno) + "; " + std::string { words_.forgotten };
}

// The service's own, to a daemon that root has started beside it without CAP_DAC_OVERRIDE.
void KeptFile::forbid(const std::filesystem::path& what)
{
  forbidden_ = true;
  problem_ = what.string() + ": " + std::strerror(EACCES) + "; whatever is kept there by another user's daemon is "
             + "not heeded, and " + std::string { words_.forgotten }
             + ": start the daemon by `tandem up` or systemd, or let the configuration name another directory";
}

bool KeptFile::load(std::size_t longest, const std::function<std::string(const std::string&)>& take)
{
  if (const kernel::Fd in { ::open(file_.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK) };
      !in && errno == EACCES)
  {
    forbid(file_);
    return usable_ = false;
  }
  std::string wrong {};
  try
  {
    const std::string text = read_whole(file_, longest);
    if (text.empty() && !std::filesystem::exists(file_)) return true;
    wrong = take(text);
    if (!wrong.empty()) wrong = file_.string() + ": " + wrong;
  }
  catch (const std::exception& error)
  {
    wrong = error.what();
  }
  if (wrong.empty()) return true;
  usable_ = put_aside(wrong);
  return false;
}

// Under the first name that is free; after some the last one is used again.
bool KeptFile::put_aside(const std::string& why)
{
  std::error_code fault {};
  std::filesystem::path to {};
  for (int i = 1; i <= most_aside; ++i)
  {
    to = file_.string() + ".aside" + std::to_string(i);
    if (!std::filesystem::exists(std::filesystem::symlink_status(to, fault))) break;
  }
  std::filesystem::rename(file_, to, fault);
  problem_ = fault ? why + "; it can be neither used nor put aside (" + fault.message() + "), so "
                         + std::string { words_.forgotten }
                   : why + "; put aside as " + to.filename().string() + ", " + std::string { words_.anew };
  return !fault;
}

bool KeptFile::save(const std::string& text)
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
    problem_ = std::string { error.what() } + "; " + std::string { words_.unsaved };
    return false;
  }
}

} // namespace tandem::daemon
