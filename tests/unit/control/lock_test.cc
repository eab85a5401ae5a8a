#include "src/daemon/lock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>

namespace tandem::daemon
{
namespace
{

using testing::HasSubstr;

class LockTest : public testing::Test
{
protected:
  std::filesystem::path directory;
  std::filesystem::path file;

  void SetUp() override
  {
    std::string pattern = testing::TempDir() + "lock_test.XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    directory = pattern;
    file = directory / "run" / "tandemd.lock";
  }
  void TearDown() override { std::filesystem::remove_all(directory); }

  std::string fault() const
  {
    try
    {
      const InstanceLock lock { file };
    }
    catch (const std::runtime_error& error)
    {
      return error.what();
    }
    return "none";
  }
};

TEST_F(LockTest, a_second_instance_is_refused_with_the_process_of_the_first)
{
  const InstanceLock first { file };
  EXPECT_THAT(fault(), HasSubstr("another tandemd is running (process " + std::to_string(::getpid()) + ")"));
  const LockState state = look_at_lock(file);
  EXPECT_TRUE(state.held);
  EXPECT_TRUE(state.owner_runs);
  EXPECT_EQ(state.owner, ::getpid());
}

TEST_F(LockTest, is_free_again_afterwards)
{
  {
    const InstanceLock first { file };
  }
  EXPECT_FALSE(look_at_lock(file).held);
  EXPECT_EQ(fault(), "none");
}

TEST_F(LockTest, looking_neither_makes_nor_takes_it)
{
  EXPECT_FALSE(look_at_lock(file).held);
  EXPECT_FALSE(std::filesystem::exists(file));
}

TEST_F(LockTest, a_file_left_behind_is_no_hindrance)
{
  std::filesystem::create_directory(file.parent_path());
  std::ofstream { file } << "1\n"; // a process that runs, but holds no lock
  EXPECT_FALSE(look_at_lock(file).held);
  EXPECT_EQ(fault(), "none");
}

TEST_F(LockTest, the_keeper_of_a_killed_daemon_is_waited_for)
{
  std::array<int, 2> ready {};
  ASSERT_EQ(::pipe(ready.data()), 0);
  const pid_t daemon = ::fork();
  if (daemon == 0)
  {
    const InstanceLock lock { file };
    if (::fork() == 0) // the keeper: holds what it inherited a little longer
    {
      ::usleep(300'000);
      ::_exit(0);
    }
    [[maybe_unused]] const auto told = ::write(ready[1], "x", 1);
    ::pause();
    ::_exit(0);
  }
  char byte = 0;
  ASSERT_EQ(::read(ready[0], &byte, 1), 1);
  ::kill(daemon, SIGKILL);
  // Not reaped yet: a zombie must not count as running.
  siginfo_t info {};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(daemon), &info, WEXITED | WNOWAIT), 0);
  const LockState state = look_at_lock(file);
  EXPECT_TRUE(state.held);
  EXPECT_FALSE(state.owner_runs);
  EXPECT_EQ(fault(), "none");
  ::waitpid(daemon, nullptr, 0);
  ::close(ready[0]);
  ::close(ready[1]);
}

TEST_F(LockTest, one_network_namespace_has_one_lock_file_whatever_the_run_directory)
{
  const auto mine = namespace_lock_file(directory / "one", directory / "shared");
  EXPECT_EQ(mine.parent_path(), directory / "shared");
  EXPECT_EQ(mine, namespace_lock_file(directory / "two", directory / "shared"));
  const InstanceLock lock { mine };
  EXPECT_TRUE(look_at_lock(mine).held);
}

TEST_F(LockTest, the_namespace_of_another_network_has_another_lock_file)
{
  const auto mine = namespace_lock_file(directory, directory);
  const pid_t child = ::fork();
  if (child == 0)
    ::_exit(::unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0        ? 2
            : namespace_lock_file(directory, directory) == mine ? 1
                                                                : 0);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  if (WEXITSTATUS(status) == 2) GTEST_SKIP() << "no namespace can be made here";
  EXPECT_EQ(status, 0);
}

TEST_F(LockTest, who_may_not_write_where_all_daemons_look_locks_its_own_directory)
{
  EXPECT_EQ(namespace_lock_file(directory, "/proc/tandem").parent_path(), directory);
}

TEST_F(LockTest, a_directory_that_cannot_be_made_is_said)
{
  file = "/proc/tandem/tandemd.lock";
  EXPECT_THAT(fault(), HasSubstr("directory /proc/tandem for the lock file: "));
  std::ofstream { directory / "file" } << "no directory";
  file = directory / "file" / "run" / "tandemd.lock";
  EXPECT_THAT(fault(), HasSubstr("Not a directory")) << "the reason, not what follows from it";
}

} // namespace
} // namespace tandem::daemon
