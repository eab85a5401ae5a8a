// What differs between sdbus-c++ 1 and 2, seen as the daemon sees it: built with either, the same tests.
#include "src/kernel/message_bus.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>

namespace tandem::kernel::message_bus
{
namespace
{

// As the library fills it in: microseconds of CLOCK_MONOTONIC, UINT64_MAX: nothing waits.
template <class Data>
Data waiting_until(std::uint64_t microseconds)
{
  Data data {};
  if constexpr (requires { data.timeout_usec; })
    data.timeout_usec = microseconds;
  else
    data.timeout = std::chrono::microseconds { static_cast<std::int64_t>(microseconds) };
  return data;
}

using PollData = sdbus::IConnection::PollData;

TEST(MessageBus, ACallThatWaitsIsLateAtItsTime)
{
  EXPECT_EQ(due(waiting_until<PollData>(0)), std::chrono::microseconds { 0 });
  EXPECT_EQ(due(waiting_until<PollData>(1'500'000)), std::chrono::microseconds { 1'500'000 });
}

TEST(MessageBus, WithoutOneNothingIsDue)
{
  EXPECT_EQ(due(waiting_until<PollData>(UINT64_MAX)), std::nullopt);
  EXPECT_EQ(due(waiting_until<PollData>(INT64_MAX)), std::nullopt);
}

TEST(MessageBus, AMessageWithoutSenderHasAnEmptyOne)
{
  const char* const nobody = nullptr;
  EXPECT_EQ(text_of(nobody), "");
  EXPECT_EQ(text_of(":1.5"), ":1.5");
  EXPECT_EQ(text_of(std::string { ":1.5" }), ":1.5");
}

} // namespace
} // namespace tandem::kernel::message_bus
