#include "src/daemon/signals.h"

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <vector>

namespace tandem::daemon
{
namespace
{

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

// A watchdog of two periods would not wait for the next one, after a question that took its own time to fail.
TEST(Signals, AHeartbeatThatFailedComesAgainSoon)
{
  std::mutex mutex;
  std::condition_variable told;
  std::vector<Clock::time_point> beats {};
  const Signals signals { {
      .stop = [] {},
      .reload = {},
      .save = {},
      .heartbeat =
          [&]
      {
        const std::lock_guard lock { mutex };
        beats.push_back(Clock::now());
        told.notify_all();
        return beats.size() > 1;
      },
      .period = 1s,
  } };
  std::unique_lock lock { mutex };
  ASSERT_TRUE(told.wait_for(lock, 30s, [&] { return beats.size() >= 3; }));
  EXPECT_LT(beats[1] - beats[0], 700ms) << "a tenth of the period later";
  EXPECT_GT(beats[2] - beats[1], 700ms) << "and then as ever";
}

} // namespace
} // namespace tandem::daemon
