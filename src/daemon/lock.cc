#include "src/daemon/lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstring>
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

bool is_running(pid_t pid)
{
  return pid > 0 && (::kill(pid, 0) == 0 || errno == EPERM);
}

} // namespace

InstanceLock::InstanceLock(const std::filesystem::path& file)
{
  ::mkdir(file.parent_path().c_str(), 0750); // a failure shows in open()
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

} // namespace tandem::daemon
