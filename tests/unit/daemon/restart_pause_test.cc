#include "src/daemon/restart_pause.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>

namespace tandem::daemon
{
namespace
{

using namespace std::chrono_literals;

TEST(RestartPause, GrowsFromNothingToAMinute)
{
  const Duration wanted[] { 0s, 0s, 1s, 2s, 4s, 8s, 16s, 32s, 60s, 60s };
  for (unsigned n = 0; n < std::size(wanted); ++n)
    EXPECT_EQ(restart_pause(n), wanted[n]) << n;
  EXPECT_EQ(restart_pause(~0u), 60s);
}

TEST(RestartPause, FailuresAreCountedUntilADaemonLived)
{
  const std::string file = testing::TempDir() + "failures-" + std::to_string(::getpid());
  EXPECT_EQ(count_failure(file, 1ms), 1u);
  EXPECT_EQ(count_failure(file, 9s), 2u);
  EXPECT_EQ(count_failure(file, 10s), 0u) << "it lived";
  EXPECT_EQ(count_failure(file, 1s), 1u);
  forget_failures(file);
  EXPECT_FALSE(std::filesystem::exists(file));
  for (const char* text : { "", "-1", "4294967295", "x" })
  {
    std::ofstream { file } << text;
    EXPECT_GE(count_failure(file, 1s), 1u) << text;
    EXPECT_LE(count_failure(file, 1s), 1002u) << text;
  }
  forget_failures(file);
  EXPECT_EQ(count_failure("", 1s), 1u);
  EXPECT_EQ(count_failure("/nowhere/failures", 1s), 1u);
}

} // namespace
} // namespace tandem::daemon
