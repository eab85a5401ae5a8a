#include "src/daemon/lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <string>
#include <thread>

namespace tandem::daemon
{
namespace
{

// 0 when the file holds none.
pid_t recorded_owner(int descriptor)
{
  std::array<char, 16> text {};
  const ssize_t length = ::pread(descriptor, text.data(), text.size(), 0);
  pid_t pid = 0;
  if (length > 0) std::from_chars(text.data(), text.data() + length, pid);
  return pid;
}

// A zombie runs no more, though it still has its number.
bool is_running(pid_t pid)
{
  if (pid <= 0) return false;
  std::ifstream in { "/proc/" + std::to_string(pid) + "/stat" };
  std::string stat;
  std::getline(in, stat);
  const std::size_t name_end = stat.rfind(')'); // the name may hold anything
  if (name_end == std::string::npos || name_end + 2 >= stat.size()) return false;
  return stat[name_end + 2] != 'Z' && stat[name_end + 2] != 'X';
}

} // namespace

InstanceLock::InstanceLock(const std::filesystem::path& file)
{
  const std::filesystem::path directory = file.parent_path();
  if (::mkdir(directory.c_str(), 0750) != 0 && errno != EEXIST)
    throw std::runtime_error { "directory " + directory.string() + " for the lock file: " + std::strerror(errno)
                               + (errno == EACCES || errno == EPERM ? "; run as root" : "") };
  descriptor_ = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0640);
  if (descriptor_ < 0)
    throw std::runtime_error { "lock file " + file.string() + ": " + std::strerror(errno)
                               + (errno == EACCES || errno == EPERM ? "; run as root" : "") };

  constexpr int attempts = 100;
  for (int attempt = 0; ::flock(descriptor_, LOCK_EX | LOCK_NB) != 0; ++attempt)
  {
    const pid_t owner = recorded_owner(descriptor_);
    if (is_running(owner) || attempt == attempts)
    {
      ::close(descriptor_);
      throw std::runtime_error { "another tandemd is running (process "
                                 + (owner > 0 ? std::to_string(owner) : std::string { "unknown" })
                                 + "); stop it first (tandem down)" };
    }
    std::this_thread::sleep_for(std::chrono::milliseconds { 50 });
  }
  const std::string pid = std::to_string(::getpid()) + '\n';
  if (::ftruncate(descriptor_, 0) != 0
      || ::pwrite(descriptor_, pid.data(), pid.size(), 0) != static_cast<ssize_t>(pid.size()))
  {
    const int fault = errno;
    ::close(descriptor_);
    throw std::runtime_error { "lock file " + file.string() + ": " + std::strerror(fault) };
  }
}

InstanceLock::~InstanceLock()
{
  // The file stays: removing it would let a third process lock a new one while a second still waits for the old.
  if (::ftruncate(descriptor_, 0) == 0) ::close(descriptor_);
}

std::filesystem::path namespace_lock_file(const std::filesystem::path& own, const std::filesystem::path& shared)
{
  struct stat space
  {
  };
  const bool known = ::stat("/proc/self/ns/net", &space) == 0;
  const std::string name = "network-" + (known ? std::to_string(space.st_ino) : std::string { "unknown" }) + ".lock";
  ::mkdir(shared.c_str(), 0750); // a failure shows in access()
  return (::access(shared.c_str(), W_OK) == 0 ? shared : own) / name;
}

LockState look_at_lock(const std::filesystem::path& file)
{
  const int descriptor = ::open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (descriptor < 0)
  {
    if (errno == ENOENT || errno == ENOTDIR) return {};
    throw std::runtime_error { "lock file " + file.string() + ": " + std::strerror(errno)
                               + (errno == EACCES ? "; run as root" : "") };
  }
  LockState state { .owner = recorded_owner(descriptor) };
  state.held = ::flock(descriptor, LOCK_SH | LOCK_NB) != 0;
  ::close(descriptor); // and with it the shared lock
  state.owner_runs = state.held && is_running(state.owner);
  return state;
}

} // namespace tandem::daemon
