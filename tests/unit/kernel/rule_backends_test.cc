// iptables and nftables as they fail: instead of the tools shell scripts of this test run, in a network namespace of
// its own. A binary of its own, because it replaces posix_spawn(), access() and libnftables' run of commands.
#include "src/kernel/rules/ce_rules.h"
#include "src/kernel/rules/rules.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nftables/libnftables.h>
#include <sched.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace
{

std::string broken {};                   // the tool that fails
std::vector<std::string> started {};     // tools, in their order
std::string table = "*mangle\nCOMMIT\n"; // what *-save tells

bool nft_is_played = false;
bool nft_knows_owners = true;       // else as kernels before 5.12
bool nft_refuses = false;           // rules, whatever they are
std::vector<std::string> loaded {}; // what nft was given, in its order

bool is_tool(const std::string& path)
{
  return path.find("/ip6tables-") != std::string::npos || path.find("/iptables-") != std::string::npos;
}

} // namespace

extern "C"
{
  int access(const char* path, int mode) noexcept
  {
    if (is_tool(path)) return 0;
    return static_cast<int>(syscall(SYS_faccessat, AT_FDCWD, path, mode));
  }

  int nft_run_cmd_from_buffer(nft_ctx* context, const char* text)
  {
    static const auto real =
        reinterpret_cast<decltype(&nft_run_cmd_from_buffer)>(dlsym(RTLD_NEXT, "nft_run_cmd_from_buffer"));
    if (!nft_is_played) return real(context, text);
    loaded.emplace_back(text);
    const bool rules = loaded.back().find("queue") != std::string::npos;
    const bool owner = loaded.back().find("flags owner") != std::string::npos;
    return (nft_refuses && rules) || (owner && !nft_knows_owners) ? -1 : 0;
  }

  int posix_spawn(pid_t* process, const char* path, const posix_spawn_file_actions_t* actions,
                  const posix_spawnattr_t* attributes, char* const* arguments, char* const* environment) noexcept
  {
    static const auto real = reinterpret_cast<decltype(&posix_spawn)>(dlsym(RTLD_NEXT, "posix_spawn"));
    if (!is_tool(path)) return real(process, path, actions, attributes, arguments, environment);
    std::string script = "exit 0";
    const std::string name = arguments[0];
    started.push_back(name);
    if (name == broken)
      script = "echo 'the table is busy' >&2; exit 4";
    else if (name.find("-save") != std::string::npos)
      script = "printf '" + table + "'";
    else
      script = "cat >/dev/null";
    std::string shell = "sh", option = "-c";
    char* words[] { shell.data(), option.data(), script.data(), nullptr };
    return real(process, "/bin/sh", actions, attributes, words, environment);
  }
}

namespace tandem::kernel
{
namespace
{

class IptablesTest : public testing::Test
{
protected:
  void SetUp() override
  {
    static const bool apart = ::unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0;
    if (!apart) GTEST_SKIP() << "no namespace of one's own here";
    broken.clear();
    table = "*mangle\nCOMMIT\n";
    iptables_ = choose_backend(BackendChoice::iptables);
    ASSERT_EQ(iptables_->name(), "iptables-nft");
    plan_.wifi = "wlan0";
    plan_.traffic = traffic::egress_pure_ack;
    started.clear();
  }

  std::unique_ptr<RuleBackend> iptables_ {};
  RulePlan plan_ {};
};

// Taken for a table without rules, the rules would be loaded a second time, or never be taken away.
TEST_F(IptablesTest, ATableThatCannotBeReadIsNotOneWithoutRules)
{
  broken = "iptables-nft-save";
  const auto said = [](auto work)
  {
    try
    {
      work();
    }
    catch (const std::runtime_error& error)
    {
      return std::string { error.what() };
    }
    return std::string { "nothing" };
  };
  const std::string words = "iptables-nft-save cannot tell which rules there are: the table is busy";
  EXPECT_EQ(said([&] { iptables_->apply(plan_); }), words);
  EXPECT_EQ(said([&] { static_cast<void>(iptables_->in_place()); }), words);
  EXPECT_EQ(said([&] { iptables_->pause(); }), words);
  EXPECT_EQ(said([&] { iptables_->clear(); }), words);
  EXPECT_THAT(started, testing::Not(testing::Contains("iptables-nft-restore")));
}

TEST_F(IptablesTest, WhereOneVersionFailsTheRulesOfTheOtherGoAllTheSame)
{
  table = "*mangle\n:TANDEM-OUT - [0:0]\n-A OUTPUT -j TANDEM-OUT\nCOMMIT\n";
  broken = "iptables-nft-save";
  EXPECT_THROW(iptables_->pause(), std::runtime_error);
  EXPECT_THAT(started, testing::Contains("ip6tables-nft-restore"));
}

TEST_F(IptablesTest, ATableThatCanBeReadIsToldAsItIs)
{
  iptables_->apply(plan_);
  EXPECT_FALSE(iptables_->in_place());
  iptables_->pause();
  EXPECT_TRUE(iptables_->in_place());
}

class NftablesTest : public testing::Test
{
protected:
  void SetUp() override
  {
    nft_is_played = nft_knows_owners = true;
    nft_refuses = false;
    plan_.wifi = "wlan0";
    plan_.traffic = traffic::egress_pure_ack;
  }
  void TearDown() override { nft_is_played = false; }
  void choose()
  {
    nftables_ = choose_backend(BackendChoice::nftables);
    loaded.clear();
  }

  std::unique_ptr<RuleBackend> nftables_ {};
  RulePlan plan_ {};
};

// As with iptables. Taking the table away would make the kernel drop every packet that waits in the queue.
TEST_F(NftablesTest, WhatIsRefusedLeavesTheRulesOfBefore)
{
  choose();
  nftables_->apply(plan_);
  plan_.traffic |= traffic::ingress_data;
  nft_refuses = true;
  EXPECT_THROW(nftables_->apply(plan_), std::runtime_error);
  EXPECT_EQ(std::count(loaded.begin(), loaded.end(), "delete table inet tandem\n"), 0);
  nft_refuses = false;
  nftables_->apply(plan_);
  EXPECT_NE(loaded.back().find("flags owner"), std::string::npos);
}

// With any hook that goes the kernel drops what waits in every queue.
TEST_F(NftablesTest, TheHookOfCeMarksStaysWhilePacketsWait)
{
  CeMarker marker {};
  const std::string gone = "delete table inet tandem_steer\n";
  const auto ends = [&] { return loaded.back().ends_with(gone); };
  marker.keep_hook(true);
  EXPECT_EQ(marker.apply({ { .interface = "wlan0", .rate = 0.1 } }), "");
  EXPECT_EQ(marker.apply({}), "");
  EXPECT_FALSE(ends());
  marker.keep_hook(false);
  EXPECT_TRUE(ends()) << "nothing waits any more";
  EXPECT_EQ(marker.apply({ { .interface = "wlan0", .rate = 0.1 } }), "");
  EXPECT_EQ(marker.apply({}), "");
  EXPECT_TRUE(ends());
  loaded.clear();
  marker.keep_hook(true);
  marker.keep_hook(false);
  EXPECT_TRUE(loaded.empty()) << "it has gone already";
}

TEST_F(NftablesTest, AKernelThatKnowsNoOwnersTakesTheRulesWithoutOne)
{
  nft_knows_owners = false;
  choose();
  nftables_->apply(plan_);
  EXPECT_EQ(loaded.back().find("flags owner"), std::string::npos);
}

} // namespace
} // namespace tandem::kernel
