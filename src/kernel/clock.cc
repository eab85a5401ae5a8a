#include "src/kernel/clock.h"

#include <ctime>

namespace tandem::kernel
{

static Duration time_of(clockid_t clock) noexcept
{
  timespec t {};
  clock_gettime(clock, &t);
  return std::chrono::seconds { t.tv_sec } + std::chrono::nanoseconds { t.tv_nsec };
}

Tick now() noexcept
{
  return Tick { time_of(CLOCK_MONOTONIC) };
}

Duration realtime_offset() noexcept
{
  return time_of(CLOCK_REALTIME) - time_of(CLOCK_MONOTONIC);
}

Duration time_asleep() noexcept
{
  return time_of(CLOCK_BOOTTIME) - time_of(CLOCK_MONOTONIC);
}

} // namespace tandem::kernel
