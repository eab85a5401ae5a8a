#include "modules/offload/path_delay.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

namespace tandem::offload
{
namespace
{

// ACKs every 10 ms for so many minutes, each of which takes so much longer than the one before, in parts of a million.
std::optional<double> load_of(double minutes, double ppm)
{
  UplinkLoad load {};
  load.restart({ 0u - 5000u });
  std::optional<double> most {};
  for (double at = 0; at < minutes * 60'000; at += 10)
  {
    const TsClock sent { static_cast<std::uint32_t>(static_cast<std::int64_t>(at)) };
    const auto delay = static_cast<std::int32_t>(40 + at * ppm * 1e-6);
    if (const auto found = load.hear(sent, delay, 10, 20)) most = std::max(most.value_or(0), *found);
  }
  return most;
}

TEST(UplinkLoad, FindsAnUplinkThatTakesFewerAcks)
{
  const auto found = load_of(1, 250'000);
  ASSERT_TRUE(found);
  EXPECT_NEAR(*found, 1.25, 0.05);
  EXPECT_TRUE(load_of(1, 2'000)) << "a five-hundredth too many fills the queue in ten seconds";
}

// Neither end's clock need be disciplined: two quartzes part by a second in three hours.
TEST(UplinkLoad, ClocksThatPartAreNoQueue)
{
  EXPECT_FALSE(load_of(3 * 60, 100));
}

} // namespace
} // namespace tandem::offload
