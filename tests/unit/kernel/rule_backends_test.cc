// iptables as it fails: instead of its tools shell scripts of this test run, in a network namespace of its own. A
// binary of its own, because it replaces posix_spawn() and access().
#include "src/kernel/rules/rules.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <unistd.h>

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

} // namespace
} // namespace tandem::kernel
