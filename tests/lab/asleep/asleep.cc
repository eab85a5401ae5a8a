// CLOCK_BOOTTIME as on a machine that has slept for as many seconds as the file $TANDEM_ASLEEP says: no test can put
// the machine to sleep on which it runs. With $TANDEM_ASLEEP_TELLS timers of the wall clock tell when the file is
// written, as the kernel does of a wall clock that has leapt: nobody else's clock has to be set.
#include <fcntl.h>
#include <sys/inotify.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <ctime>

namespace
{

// The daemon has one of the wall clock, which it only watches for leaps (SleepWatch).
std::atomic<int> told { -1 };

} // namespace

extern "C" int clock_gettime(clockid_t clock, timespec* now) noexcept
{
  const auto failed = static_cast<int>(::syscall(SYS_clock_gettime, clock, now));
  const char* name = clock == CLOCK_BOOTTIME ? std::getenv("TANDEM_ASLEEP") : nullptr;
  if (failed != 0 || name == nullptr) return failed;
  if (std::FILE* file = std::fopen(name, "r"))
  {
    long slept = 0;
    if (std::fscanf(file, "%ld", &slept) == 1) now->tv_sec += slept;
    std::fclose(file);
  }
  return 0;
}

extern "C" int timerfd_create(clockid_t clock, int flags) noexcept
{
  const char* name = std::getenv("TANDEM_ASLEEP");
  if (clock != CLOCK_REALTIME || name == nullptr || std::getenv("TANDEM_ASLEEP_TELLS") == nullptr || told >= 0)
    return static_cast<int>(::syscall(SYS_timerfd_create, clock, flags));
  const int watching = ::inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
  if (watching >= 0 && ::inotify_add_watch(watching, name, IN_CLOSE_WRITE) >= 0) told = watching;
  return watching;
}

// Whoever arms it has looked at the clock.
extern "C" int timerfd_settime(int fd, int flags, const itimerspec* value, itimerspec* before) noexcept
{
  if (fd != told) return static_cast<int>(::syscall(SYS_timerfd_settime, fd, flags, value, before));
  std::array<char, 4096> events {};
  while (::read(fd, events.data(), events.size()) > 0)
  {
  }
  return 0;
}
