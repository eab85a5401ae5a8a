// Orders to a keeper that lives, for which there is no memory; and a keeper whose iptables, played by shell scripts,
// fails. In a network namespace of its own; a binary of its own, because it replaces sendmsg(), posix_spawn() and
// access().
#include "src/kernel/keeper/keeper.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

namespace
{

int refusal = 0; // of the next message

// Shared with the keeper's process.
struct Iptables
{
  std::atomic<int> saves_that_fail = 0; // from now on
  std::atomic<bool> restores_fail = false;
  std::atomic<int> restores = 0; // begun
};
Iptables& iptables()
{
  static void* const shared =
      ::mmap(nullptr, sizeof(Iptables), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  static Iptables* const made = new (shared) Iptables {};
  return *made;
}

bool is_tool(const std::string& path)
{
  return path.find("/ip6tables-") != std::string::npos || path.find("/iptables-") != std::string::npos;
}

} // namespace

extern "C" int access(const char* path, int mode) noexcept
{
  if (is_tool(path)) return 0;
  return static_cast<int>(syscall(SYS_faccessat, AT_FDCWD, path, mode));
}

extern "C" int posix_spawn(pid_t* process, const char* path, const posix_spawn_file_actions_t* actions,
                           const posix_spawnattr_t* attributes, char* const* arguments,
                           char* const* environment) noexcept
{
  static const auto real = reinterpret_cast<decltype(&posix_spawn)>(dlsym(RTLD_NEXT, "posix_spawn"));
  if (!is_tool(path)) return real(process, path, actions, attributes, arguments, environment);
  const std::string name = arguments[0];
  const bool save = name.find("-save") != std::string::npos;
  if (!save) ++iptables().restores;
  std::string script =
      save ? "printf '*mangle\\n:TANDEM-OUT - [0:0]\\n-A OUTPUT -j TANDEM-OUT\\nCOMMIT\\n'" : "cat >/dev/null";
  if (save ? iptables().saves_that_fail.load() > 0 : iptables().restores_fail.load())
  {
    if (save) --iptables().saves_that_fail;
    script = "echo 'another program holds the lock' >&2; exit 4";
  }
  std::string shell = "sh", option = "-c";
  char* words[] { shell.data(), option.data(), script.data(), nullptr };
  return real(process, "/bin/sh", actions, attributes, words, environment);
}

extern "C" ssize_t sendmsg(int socket, const msghdr* message, int flags)
{
  static const auto real = reinterpret_cast<decltype(&sendmsg)>(dlsym(RTLD_NEXT, "sendmsg"));
  if (refusal == 0) return real(socket, message, flags);
  errno = std::exchange(refusal, 0);
  return -1;
}

namespace tandem::kernel
{
namespace
{

using namespace std::chrono_literals;

bool is_apart()
{
  static const bool apart = ::unshare(::geteuid() == 0 ? CLONE_NEWNET : CLONE_NEWUSER | CLONE_NEWNET) == 0;
  return apart;
}

class KeeperTest : public testing::TestWithParam<int>
{
protected:
  void SetUp() override
  {
    if (!is_apart()) GTEST_SKIP() << "no namespace of one's own here";
    try
    {
      keeper_.emplace(Keeper::start());
    }
    catch (const std::runtime_error& error)
    {
      GTEST_SKIP() << error.what();
    }
  }

  std::optional<Keeper::Outcome> outcome()
  {
    std::optional<Keeper::Outcome> ended = keeper_->take_outcome();
    for (int i = 0; i < 100 && !ended; ++i)
    {
      pollfd wait { keeper_->fd(), POLLIN, 0 };
      ::poll(&wait, 1, 100);
      keeper_->dispatch();
      ended = keeper_->take_outcome();
    }
    return ended;
  }

  std::optional<Keeper> keeper_ {};
};

// The daemon would stop, and say that its keeper is gone.
TEST_P(KeeperTest, an_order_for_which_there_is_no_memory_is_given_again)
{
  refusal = GetParam();
  const std::uint64_t lost = keeper_->post_apply({});
  EXPECT_NE(keeper_->state().phase, KeeperState::Phase::lost);
  std::optional<Keeper::Outcome> ended = outcome();
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->ticket, lost);
  EXPECT_NE(ended->failure, "");
  const std::uint64_t again = keeper_->post_apply({});
  ended = outcome();
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->ticket, again);
  EXPECT_EQ(ended->failure, "");
}

class IptablesKeeperTest : public testing::Test
{
protected:
  void SetUp() override
  {
    if (!is_apart()) GTEST_SKIP() << "no namespace of one's own here";
    iptables().restores = 0; // made before the keeper's process is
    keeper_.emplace(Keeper::start({ .backend = BackendChoice::iptables }));
    RulePlan plan {};
    plan.wifi = "wlan0";
    plan.traffic = traffic::egress_pure_ack;
    keeper_->apply(plan);
  }
  void TearDown() override
  {
    iptables().restores_fail = false;
    iptables().saves_that_fail = 0;
  }
  bool is_soon(KeeperState::Phase phase)
  {
    for (int i = 0; i < 200 && keeper_->state().phase != phase; ++i)
    {
      pollfd wait { keeper_->fd(), POLLIN, 0 };
      ::poll(&wait, 1, 50);
      keeper_->dispatch();
      if (phase == KeeperState::Phase::armed) keeper_->heartbeat();
    }
    return keeper_->state().phase == phase;
  }

  std::optional<Keeper> keeper_ {};
};

TEST_F(IptablesKeeperTest, a_lock_that_passes_leaves_no_rules_behind)
{
  iptables().restores = 0;
  iptables().saves_that_fail = std::filesystem::exists("/proc/sys/net/ipv6") ? 2 : 1;
  keeper_.reset();
  EXPECT_EQ(iptables().saves_that_fail, 0);
  EXPECT_GT(iptables().restores, 0) << "nothing was taken away";
}

TEST_F(IptablesKeeperTest, rules_that_cannot_be_loaded_again_are_tried_ever_more_seldom)
{
  ASSERT_TRUE(is_soon(KeeperState::Phase::suspended));
  iptables().restores_fail = true;
  iptables().restores = 0;
  const auto beats = [this](auto span, auto enough)
  {
    for (const auto end = std::chrono::steady_clock::now() + span; std::chrono::steady_clock::now() < end && !enough();)
    {
      keeper_->heartbeat();
      ::poll(nullptr, 0, 10);
      keeper_->dispatch();
    }
  };
  beats(20s, [this] { return !keeper_->state().last_error.empty(); });
  ASSERT_NE(keeper_->state().last_error, "");
  const int first = iptables().restores;
  beats(2500ms, [] { return false; });
  EXPECT_LE(iptables().restores - first, 2);
  iptables().restores_fail = false;
  EXPECT_TRUE(is_soon(KeeperState::Phase::armed));
}

// Tables stay for their hooks only while packets may wait in the queue.
TEST_F(IptablesKeeperTest, rules_that_could_not_be_loaded_keep_no_table)
{
  const auto there = [](const char* table)
  { return std::system(("nft list table inet " + std::string { table } + " >/dev/null 2>&1").c_str()) == 0; };
  keeper_->clear();
  iptables().restores_fail = true;
  RulePlan plan {};
  plan.wifi = "wlan0";
  plan.traffic = traffic::egress_pure_ack;
  EXPECT_THROW(keeper_->apply(plan), std::runtime_error);
  keeper_->set_placement({ .choose = true,
                           .home = "lo",
                           .home_addresses = { "127.0.0.1" },
                           .links = { { .value = 2, .interface = "lo" } },
                           .turns_v4 = { placed_at_home } });
  if (!there("tandem_place")) GTEST_SKIP() << "no placement here: " << keeper_->state().placement.why;
  keeper_->set_placement({});
  EXPECT_FALSE(there("tandem_place"));
}

INSTANTIATE_TEST_SUITE_P(Refusals, KeeperTest, testing::Values(EAGAIN, ENOBUFS, ENOMEM));

} // namespace
} // namespace tandem::kernel
