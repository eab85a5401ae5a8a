// Orders to a keeper that lives, for which there is no memory; a keeper whose iptables, played by shell scripts, fails;
// and what waits in the queue of another program meanwhile. In a network namespace of its own; a binary of its own,
// because it replaces sendmsg(), posix_spawn(), access() and libnftables' run of commands.
#include "src/kernel/keeper/keeper.h"
#include "src/kernel/rules/ce_rules.h"
#include "tests/unit/kernel/own_namespace.h"
#include "tests/unit/kernel/waiting_packets.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <nftables/libnftables.h>
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
#include <filesystem>
#include <new>
#include <optional>
#include <regex>
#include <stdexcept>
#include <string>
#include <utility>

namespace
{

int refusal = 0; // of the next message

// Some kernels have no queue expression of nft. What becomes of hooks does not depend on what rules do.
bool nft_only_counts = false;
bool nft_knows_owners = true; // else as kernels before 5.12

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

bool iptables_is_played = true;

bool is_tool(const std::string& path)
{
  return iptables_is_played
         && (path.find("/ip6tables-") != std::string::npos || path.find("/iptables-") != std::string::npos);
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

extern "C" int nft_run_cmd_from_buffer(nft_ctx* context, const char* text)
{
  static const auto real =
      reinterpret_cast<decltype(&nft_run_cmd_from_buffer)>(dlsym(RTLD_NEXT, "nft_run_cmd_from_buffer"));
  const std::string given { text };
  if (!nft_knows_owners && given.find("flags owner") != std::string::npos) return -1;
  return real(context, nft_only_counts
                           ? std::regex_replace(given, std::regex { "queue flags bypass to [0-9]+" }, "counter").c_str()
                           : given.c_str());
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

using test::done;

// With any hook that goes the kernel drops what waits in every queue of the network namespace, whosever it is.
class QueueOfAnotherTest : public testing::Test
{
protected:
  void SetUp() override
  {
    if (!test::in_namespace_of_ones_own() || !done("ip link set lo up")) GTEST_SKIP() << "no namespace of one's own";
    plan_.wifi = "lo";
    plan_.wifi_addresses = { "127.0.0.1" };
    plan_.traffic = traffic::egress_pure_ack | traffic::ingress_data;
    nft_only_counts = true;
  }
  void TearDown() override
  {
    keeper_.reset();
    nft_only_counts = false;
    nft_knows_owners = iptables_is_played = true;
  }
  void start() { keeper_.emplace(Keeper::start({ .backend = BackendChoice::nftables })); }
  static bool has_rules(const std::string& table)
  {
    return done("nft list table inet " + table + " | grep -q counter");
  }
  static bool has_table(const std::string& table) { return done("nft list table inet " + table); }

  RulePlan plan_ {};
  test::WaitingPackets packets_ {};
  std::optional<Keeper> keeper_ {};
};

TEST_F(QueueOfAnotherTest, keeps_its_packets_when_tandem_starts_and_each_time_it_goes_idle)
{
  if (!packets_.begin()) GTEST_SKIP() << "no queues here";
  start();
  EXPECT_EQ(packets_.count(), 3u) << "the start";
  for (int i = 0; i < 2; ++i)
  {
    keeper_->apply(plan_);
    EXPECT_TRUE(has_rules("tandem"));
    EXPECT_EQ(packets_.count(), 3u);
    keeper_->clear();
    EXPECT_EQ(packets_.count(), 3u) << "idle";
    EXPECT_EQ(keeper_->state().phase, KeeperState::Phase::idle);
    EXPECT_FALSE(has_rules("tandem"));
  }
  keeper_.reset();
  EXPECT_FALSE(has_table("tandem"));
}

TEST_F(QueueOfAnotherTest, keeps_its_packets_when_marks_end_before_or_after_the_queue_rules)
{
  const SteeringPlan marks { .ce = { { .interface = "lo", .rate = 0.5 } } };
  start();
  keeper_->set_steering(marks);
  if (!has_table("tandem_steer")) GTEST_SKIP() << "no CE marks here";
  if (!packets_.begin()) GTEST_SKIP() << "no queues here";
  keeper_->apply(plan_);
  keeper_->set_steering({});
  keeper_->clear();
  EXPECT_EQ(packets_.count(), 3u);
  keeper_->set_steering(marks);
  keeper_->set_steering({});
  EXPECT_EQ(packets_.count(), 3u);
  EXPECT_FALSE(done("nft list table inet tandem_steer | grep -q numgen"));
  keeper_.reset();
  EXPECT_FALSE(has_table("tandem_steer"));
}

// iptables-nft never takes its table away; where Tandem's rules made it, Tandem does, at its end.
TEST_F(QueueOfAnotherTest, keeps_its_packets_when_the_rules_of_iptables_go)
{
  if (!packets_.begin()) GTEST_SKIP() << "no queues here";
  iptables_is_played = false;
  try
  {
    keeper_.emplace(Keeper::start({ .backend = BackendChoice::iptables }));
  }
  catch (const std::runtime_error& error)
  {
    GTEST_SKIP() << error.what();
  }
  for (int i = 0; i < 2; ++i)
  {
    keeper_->apply(plan_);
    keeper_->clear();
    EXPECT_EQ(packets_.count(), 3u);
    EXPECT_FALSE(done("(iptables-save; ip6tables-save) | grep -e '-A .*TANDEM'"));
  }
  keeper_.reset();
  EXPECT_FALSE(done("(iptables-save; ip6tables-save) | grep TANDEM || nft list table ip6 mangle"));
}

// Only on kernels without table owners does it leave any.
TEST_F(QueueOfAnotherTest, keeps_its_packets_when_the_rules_of_a_killed_run_are_taken_over)
{
  for (const char* table : { "tandem", "tandem_steer" })
    ASSERT_TRUE(done("nft 'table inet " + std::string { table }
                     + " { chain prerouting { type filter hook prerouting priority mangle; counter; }; }'"));
  if (!packets_.begin()) GTEST_SKIP() << "no queues here";
  nft_knows_owners = false;
  start();
  EXPECT_EQ(packets_.count(), 3u);
  EXPECT_FALSE(has_rules("tandem")) << "out of force";
  EXPECT_FALSE(has_rules("tandem_steer"));
  keeper_->apply(plan_);
  EXPECT_EQ(packets_.count(), 3u);
  EXPECT_TRUE(has_rules("tandem"));
  keeper_->clear();
  EXPECT_EQ(packets_.count(), 3u);
  keeper_.reset();
  EXPECT_FALSE(has_table("tandem"));
  EXPECT_FALSE(has_table("tandem_steer"));
}

// What becomes of the table of placement: tests/unit/kernel/placer_test.cc.
TEST_F(QueueOfAnotherTest, keeps_its_packets_when_no_more_connections_are_placed)
{
  ASSERT_TRUE(done("nft 'table inet tracks { chain output { type filter hook output priority 0; ct mark 1; }; }'"));
  start();
  keeper_->set_placement({ .choose = true,
                           .home = "lo",
                           .home_addresses = { "127.0.0.1" },
                           .links = { { .value = 2, .interface = "lo" } },
                           .turns_v4 = { placed_at_home } });
  if (!has_table("tandem_place")) GTEST_SKIP() << "no placement here: " << keeper_->state().placement.why;
  if (!packets_.begin()) GTEST_SKIP() << "no queues here";
  keeper_->set_placement({});
  EXPECT_EQ(packets_.count(), 3u);
  EXPECT_FALSE(done("nft list table inet tandem_place | grep -q numgen"));
  keeper_.reset();
  EXPECT_FALSE(has_table("tandem_place"));
}

TEST_F(QueueOfAnotherTest, keeps_its_packets_when_doctor_tries_what_works)
{
  if (!packets_.begin()) GTEST_SKIP() << "no queues here";
  EXPECT_EQ(probe_nftables(), "");
  EXPECT_EQ(packets_.count(), 3u) << "queue rules";
  static_cast<void>(probe_ce());
  EXPECT_EQ(packets_.count(), 3u) << "CE marks";
  ASSERT_TRUE(done("nft 'table inet tracks { chain output { type filter hook output priority 0; ct mark 1; }; }'"));
  static_cast<void>(probe_placement());
  EXPECT_EQ(packets_.count(), 3u) << "placement";
}

INSTANTIATE_TEST_SUITE_P(Refusals, KeeperTest, testing::Values(EAGAIN, ENOBUFS, ENOMEM));

} // namespace
} // namespace tandem::kernel
