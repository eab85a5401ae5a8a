#include "src/kernel/clock.h"

#include <ctime>

namespace tandem::kernel
{

static Duration read(clockid_t clock) noexcept
{
  timespec t {};
  clock_gettime(clock, &t);
  return std::chrono::seconds { t.tv_sec } + std::chrono::nanoseconds { t.tv_nsec };
}

Tick now() noexcept
{
  return Tick { read(CLOCK_MONOTONIC) };
}

Duration realtime_offset() noexcept
{
  return read(CLOCK_REALTIME) - read(CLOCK_MONOTONIC);
}

Duration time_asleep() noexcept
{
  return read(CLOCK_BOOTTIME) - read(CLOCK_MONOTONIC);
}

} // namespace tandem::kernel
