// tandemd as far as it goes without touching the network: options, configuration, exit codes.
#include "tests/unit/tandem/run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace tandem::daemon
{
namespace
{

using testing::HasSubstr;

test::Run tandemd(const std::string& arguments)
{
  return test::run(TANDEMD_PROGRAM " " + arguments);
}

TEST(Tandemd, an_answer_that_cannot_be_written_is_a_failure)
{
  const std::string file = testing::TempDir() + "tandemd_unwritten_test.toml";
  std::ofstream { file } << "[links]\nwifi = \"wlan0\"\n";
  for (const std::string& words : { std::string { "--help" }, std::string { "--version" }, "--check -c " + file })
  {
    EXPECT_EQ(tandemd(words).code, 0) << words;
    const auto full = tandemd(words + " >/dev/full");
    EXPECT_EQ(full.code, 1) << words;
    EXPECT_THAT(full.err, HasSubstr("tandemd: the output cannot be written: No space left")) << words;
  }
}

TEST(Tandemd, check_says_whether_a_configuration_is_fine)
{
  const std::string file = testing::TempDir() + "tandemd_options_test.toml";
  std::ofstream { file } << "[links]\nwifi = \"wlan0\"\n";
  const auto fine = tandemd("--check -c " + file);
  EXPECT_EQ(fine.code, 0) << fine.err;
  EXPECT_EQ(fine.out, "the configuration is fine\n");

  std::ofstream { file } << "[links]\nwifi = \"\"\n[daemon]\nqueue = -1\n";
  const auto wrong = tandemd("--check -c " + file);
  EXPECT_EQ(wrong.code, 2);
  EXPECT_EQ(wrong.err, file + ":2: links.wifi = \"\": an interface name of 1 to 15 characters, or \"auto\", is needed\n"
                           + file + ":4: daemon.queue = -1: an NFQUEUE number from 0 to 65535 is needed\n");

  std::ofstream { file } << "[modules.no_such_module]\n";
  const auto unknown = tandemd("--check -c " + file);
  EXPECT_EQ(unknown.code, 2);
  EXPECT_THAT(unknown.err, HasSubstr(file + ":1: modules.no_such_module: "));
  std::filesystem::remove(file);
}

TEST(Tandemd, every_mistake_is_named_at_once)
{
  const std::string file = testing::TempDir() + "tandemd_every_mistake_test.toml";
  std::ofstream { file } << "[links]\nwifi = \"\"\n[modules.no_such_module]\n[daemon]\nqueue = -1\n";
  const auto wrong = tandemd("--check -c " + file + " --set nonsense");
  EXPECT_EQ(wrong.code, 2);
  std::size_t last = 0; // in the order of lines, the command line behind them
  for (const std::string& begin : { file + ":2: links.wifi", file + ":3: modules.no_such_module",
                                    file + ":5: daemon.queue", std::string { "command line: --set nonsense" } })
  {
    const std::size_t at = wrong.err.find(begin, last);
    ASSERT_NE(at, std::string::npos) << begin << " in\n" << wrong.err;
    last = at;
  }
  const auto missing = tandemd("--check -c /nonexistent.toml --set nonsense");
  EXPECT_THAT(missing.err, HasSubstr("/nonexistent.toml: no such file\ncommand line: --set nonsense"));
  std::filesystem::remove(file);
}

// An upgrade strands nobody, and spends nothing that was forbidden.
TEST(Tandemd, what_has_no_effect_any_more_is_said_and_a_lost_limit_is_refused)
{
  if (geteuid() != 0) GTEST_SKIP() << "modules must belong to root";
  const std::string file = testing::TempDir() + "tandemd_retired_test.toml";
  std::ofstream { file } << "[daemon]\nrule_priority = 5\n[modules.offload]\nstretch = 8\n";
  const auto old = tandemd("--check -c " + file);
  EXPECT_EQ(old.code, 0);
  EXPECT_EQ(old.out, "the configuration is fine\n");
  EXPECT_EQ(old.err, file + ":2: daemon.rule_priority is a constant now: 8484; leave it out\n" + file
                         + ":4: modules.offload.stretch = 8: stretch is a constant now: 16; leave it out\n");

  std::ofstream { file } << "[modules.offload]\ncell_budget = 5000000\n";
  const auto limit = tandemd("--check -c " + file);
  EXPECT_EQ(limit.code, 2);
  EXPECT_EQ(limit.err, file
                           + ":2: modules.offload.cell_budget = 5000000: cell_budget moved to budget.cell_bytes; "
                             "leave it out\n");
  std::filesystem::remove(file);
}

TEST(Tandemd, the_command_line_goes_through_the_same_checks)
{
  const auto wrong = tandemd("--check --wifi 'a b' --set daemon.queue=x --set nonsense");
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("command line: links.wifi = \"a b\": "));
  EXPECT_THAT(wrong.err, HasSubstr("command line: daemon.queue = \"x\": "));
  EXPECT_THAT(wrong.err, HasSubstr("command line: --set nonsense: KEY=VALUE is needed"));
  EXPECT_EQ(tandemd("--check --wifi wlan0 --cell wlan0").code, 2);
  const auto twice = tandemd("--check --wifi wlan0 --cell none --set links.more_wifi=wlan1,wlan0");
  EXPECT_EQ(twice.code, 2);
  EXPECT_THAT(twice.err, HasSubstr("command line: links.more_wifi: \"wlan0\" is links.wifi already"));
  EXPECT_EQ(tandemd("--check --wifi wlan0 --cell none --set links.more_wifi=1,2,3,4,5,6,7,8").code, 2);
  EXPECT_EQ(tandemd("--check --wifi wlan0 --cell none --set links.more_wifi=1,2,3,4,5,6,7").code, 0);
  EXPECT_EQ(tandemd("--nonsense").code, 2);
  EXPECT_EQ(tandemd("-c /nonexistent.toml").code, 2);
}

TEST(Tandemd, version)
{
  const auto version = tandemd("--version");
  EXPECT_EQ(version.code, 0);
  EXPECT_THAT(version.out, testing::MatchesRegex("tandemd [0-9.]+( \\([0-9a-f]+[+]?\\))?\n"));
}

} // namespace
} // namespace tandem::daemon
