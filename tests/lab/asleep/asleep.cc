// CLOCK_BOOTTIME as on a machine that has slept for as many seconds as the file $TANDEM_ASLEEP says: no test can put
// the machine to sleep on which it runs.
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>

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
