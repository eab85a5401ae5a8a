#include "src/kernel/command.h"
#include "src/kernel/fd.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <chrono>
#include <csignal>
#include <fstream>
#include <string>
#include <thread>
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

// As started by who ignores SIGCHLD: the kernel keeps nobody's end then, and rules that were refused would pass for
// loaded.
TEST(Command, WhoseEndIsNotKnownHasNotSucceeded)
{
  const auto before = std::signal(SIGCHLD, SIG_IGN);
  const CommandResult said = run({ "/bin/sh", "-c", "exit 3" });
  std::signal(SIGCHLD, before);
  EXPECT_EQ(said.status, -1);
  EXPECT_NE(said.errors.find("SIGCHLD is ignored"), std::string::npos) << said.errors;
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

// Neither there nor a zombie that nobody has taken note of.
bool runs(const std::string& process)
{
  std::ifstream in { "/proc/" + process + "/stat" };
  std::string stat;
  std::getline(in, stat);
  const std::size_t end = stat.rfind(") ");
  return end != std::string::npos && stat[end + 2] != 'Z' && stat[end + 2] != 'X';
}

// A helper that hangs must not hang who waits for it: that is the keeper, which alone can take the rules away.
TEST(Command, WhatDoesNotEndInTimeIsKilled)
{
  using namespace std::chrono_literals;
  // It waits with its output open, has closed it, or waits for a program of its own that has it.
  for (const std::string script :
       { "echo $$ >&2; exec sleep 20", "echo $$ >&2; exec >&- 2>&-; exec sleep 20", "sleep 20 & echo $! >&2; wait" })
  {
    const auto began = std::chrono::steady_clock::now();
    const CommandResult result = run({ "/bin/sh", "-c", script }, {}, 300ms);
    EXPECT_LT(std::chrono::steady_clock::now() - began, 5s) << script;
    EXPECT_EQ(result.status, -1) << script;
    const std::string said = "/bin/sh: has not ended within 0.3 s and was killed\n";
    ASSERT_EQ(result.errors.find(said), 0u) << result.errors;
    const std::string process = result.errors.substr(said.size(), result.errors.size() - said.size() - 1);
    while (runs(process) && std::chrono::steady_clock::now() - began < 5s)
      std::this_thread::sleep_for(10ms);
    EXPECT_FALSE(runs(process)) << process << " of " << script;
  }
}

// An end that comes a while after the last word is waited for.
TEST(Command, WhatEndsInTimeIsNotKilled)
{
  const CommandResult result = run({ "/bin/sh", "-c", "exec >&- 2>&-; sleep 0.2; exit 3" });
  EXPECT_EQ(result.status, 3);
  EXPECT_EQ(result.errors, "");
}

} // namespace
} // namespace tandem::kernel
