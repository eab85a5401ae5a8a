#include "src/kernel/sleep_watch.h"

#include "src/kernel/check.h"
#include "src/kernel/clock.h"

#include <sys/timerfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <limits>
#include <utility>

namespace tandem::kernel
{

SleepWatch::SleepWatch()
    : timer_ { static_cast<int>(
        check("timerfd_create", ::timerfd_create(CLOCK_REALTIME, TFD_NONBLOCK | TFD_CLOEXEC))) },
      asleep_ { time_asleep() }
{
  arm();
}

Duration SleepWatch::slept()
{
  std::uint64_t expirations = 0;
  // ECANCELED, unless that was read before. The timer stands; armed anew it tells the next time.
  [[maybe_unused]] const ssize_t ignored = ::read(timer_.get(), &expirations, sizeof expirations);
  arm();
  const Duration before = std::exchange(asleep_, time_asleep());
  // Both clocks are read one after the other.
  constexpr Duration measurable = std::chrono::milliseconds { 1 };
  return asleep_ - before > measurable ? asleep_ - before : Duration {};
}

// The kernel cancels timers of the wall clock when that is set, and when the machine wakes, for the same reason: it has
// leapt (timerfd_create(2), TFD_TIMER_CANCEL_ON_SET). This one never expires.
void SleepWatch::arm()
{
  itimerspec never {};
  never.it_value.tv_sec = std::numeric_limits<std::int32_t>::max() * std::int64_t { 4 }; // the year 2242
  const int rc = ::timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &never, nullptr);
  // It has leapt once more since that was read. The timer is armed all the same.
  if (rc < 0 && errno == ECANCELED) return;
  check("timerfd_settime", rc);
}

} // namespace tandem::kernel
