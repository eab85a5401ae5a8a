#include "src/kernel/command.h"
#include "src/kernel/fd.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <vector>

namespace tandem::kernel
{
namespace
{

TEST(Command, GivesWhatItSaysAndHowItEnded)
{
  const CommandResult said = run({ "/bin/sh", "-c", "cat; echo odd >&2; exit 3" }, "text");
  EXPECT_EQ(said.output, "text");
  EXPECT_EQ(said.errors, "odd\n");
  EXPECT_EQ(said.status, 3);
  EXPECT_EQ(run({ "no-such-program-of-tandem" }).status, 127);
}

// A loader of rules that reads nothing ends well, and nothing is loaded.
TEST(Command, WithoutDescriptorsIsNotStarted)
{
  rlimit before {};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit few { .rlim_cur = 64, .rlim_max = before.rlim_max };
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  std::vector<Fd> all {};
  const auto take_all = [&all]
  {
    while (Fd one { ::open("/dev/null", O_RDWR | O_CLOEXEC) })
      all.push_back(std::move(one));
  };
  // None left for its input, for its output, for its errors.
  for (const std::size_t left : { 0u, 2u, 4u })
  {
    take_all();
    all.resize(all.size() - left);
    const CommandResult result = run({ "/bin/cat" }, "text");
    EXPECT_FALSE(result.ok()) << left;
    EXPECT_THAT(result.errors, testing::HasSubstr("Too many open files")) << left;
  }
  all.clear();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_TRUE(run({ "/bin/cat" }, "text").ok());
}

} // namespace
} // namespace tandem::kernel
