// A wall clock that leaps twice, as when a machine wakes and the time is then had from the network. A binary of its
// own, because it replaces timerfd_settime().
#include "src/kernel/sleep_watch.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <cerrno>

namespace
{

int leaps = 0; // between reading the timer and arming it anew

} // namespace

// As timerfd_create(2) says under NOTES: the timer is armed, and the call fails.
extern "C" int timerfd_settime(int fd, int flags, const itimerspec* value, itimerspec* before) noexcept
{
  const auto failed = static_cast<int>(::syscall(SYS_timerfd_settime, fd, flags, value, before));
  if (failed != 0 || leaps == 0) return failed;
  --leaps;
  errno = ECANCELED;
  return -1;
}

namespace tandem::kernel
{
namespace
{

// It is asked in a callback of the daemon's loop, where an exception would end the daemon.
TEST(SleepWatchTest, a_clock_that_leaps_while_the_timer_is_armed_is_no_fault)
{
  SleepWatch watch {};
  leaps = 1;
  EXPECT_NO_THROW(EXPECT_EQ(watch.slept(), Duration {}));
  EXPECT_EQ(leaps, 0);
  itimerspec left {};
  ASSERT_EQ(::timerfd_gettime(watch.fd(), &left), 0);
  EXPECT_GT(left.it_value.tv_sec, 0) << "it tells the next time, too";
}

} // namespace
} // namespace tandem::kernel
