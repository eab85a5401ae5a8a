#include "src/control/server.h"
#include "tests/unit/control/fake_backend.h"
#include "tests/unit/tandem/run.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <regex>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace tandem::cli
{
namespace
{

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

class CliTest : public testing::Test
{
protected:
  control::FakeBackend backend;
  std::filesystem::path directory;
  std::unique_ptr<control::Server> server;

  void SetUp() override
  {
    std::string pattern = testing::TempDir() + "cli_test.XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    directory = pattern;
    control::ServerOptions options { .socket = directory / "control.sock" };
    options.doctor = [this]
    {
      if (doctor.is_null()) throw std::runtime_error { "out of order" };
      return doctor;
    };
    server = std::make_unique<control::Server>(backend, std::move(options));
  }
  void TearDown() override
  {
    server.reset();
    std::filesystem::remove_all(directory);
  }

  json doctor { { "health", "warn" },
                { "checks",
                  { { { "name", "nft queue expression" },
                      { "health", "warn" },
                      { "found", "absent" },
                      { "remedy", "load nft_queue" } } } } };

  test::Run tandem(const std::string& arguments) const
  {
    return test::run("TANDEM_SOCKET=" + (directory / "control.sock").string() + " " TANDEM_PROGRAM " " + arguments);
  }
};

TEST_F(CliTest, status_for_people_and_for_programs)
{
  const auto people = tandem("status");
  EXPECT_EQ(people.code, 0) << people.err;
  EXPECT_THAT(people.out, HasSubstr("tandemd 0.1.0, process 4711, up 75.2 s"));
  EXPECT_THAT(people.out, HasSubstr("rules by iptables: no queue expression in this kernel"));
  EXPECT_THAT(people.out, HasSubstr("offload  on"));
  EXPECT_THAT(people.out, Not(HasSubstr("\x1b"))) << "no colours into a pipe";
  const auto programs = tandem("status --json");
  EXPECT_EQ(programs.code, 0);
  EXPECT_EQ(json::parse(programs.out), backend.status());
}

TEST_F(CliTest, watch_goes_on_until_it_is_stopped)
{
  const auto watched = test::run("TANDEM_SOCKET=" + (directory / "control.sock").string()
                                 + " timeout 2.5 " TANDEM_PROGRAM " status --json --watch");
  EXPECT_EQ(watched.code, 124); // of timeout(1)
  EXPECT_GE(std::count(watched.out.begin(), watched.out.end(), '\n'), 2) << "one document a line";
}

TEST_F(CliTest, modules_are_shown_and_switched)
{
  EXPECT_THAT(tandem("module").out, HasSubstr("freeze   off"));
  EXPECT_THAT(tandem("module offload").out, HasSubstr("window_threshold     30  MSS        20  Windows below"));
  EXPECT_EQ(json::parse(tandem("module offload --json").out).at("name"), "offload");
  EXPECT_EQ(tandem("module offload off").out, "offload is off\n");
  EXPECT_EQ(tandem("module freeze on").code, 0);
  EXPECT_THAT(backend.calls(), ElementsAre("enable offload off", "enable freeze on"));

  const auto unknown = tandem("module rocket on");
  EXPECT_EQ(unknown.code, 2);
  EXPECT_EQ(unknown.err, "tandem: no module named rocket; loaded: freeze, offload\n");
  EXPECT_EQ(tandem("module rocket").code, 2);
  EXPECT_EQ(tandem("module offload maybe").code, 2);
  EXPECT_EQ(tandem("module ../status on").code, 2);
}

TEST_F(CliTest, a_module_whose_rules_failed_is_not_said_to_be_in_force)
{
  EXPECT_EQ(tandem("module offload on").out, "offload is on\n");
  EXPECT_EQ(json::parse(tandem("module offload on --json").out).at("in_force"), true);
  backend.rules_fail = true;
  EXPECT_EQ(tandem("module offload on").out, "offload is on, not yet in force: nft: no such chain\n");
  const json told = json::parse(tandem("module offload on --json").out);
  EXPECT_EQ(told.at("enabled"), true);
  EXPECT_EQ(told.at("in_force"), false);
  EXPECT_EQ(told.at("in_force_why"), "nft: no such chain");
  EXPECT_THAT(tandem("module offload").out, HasSubstr("offload is on, not yet in force: nft: no such chain\n"));
  EXPECT_THAT(tandem("module").out, HasSubstr("on, not yet in force"));
  EXPECT_THAT(tandem("status").out, HasSubstr("not yet in force: nft: no such chain, tried again in 4 s\n"));
}

TEST_F(CliTest, knobs_are_set)
{
  EXPECT_EQ(tandem("set offload.window_threshold 20").out, "offload.window_threshold = 20\n");
  EXPECT_THAT(backend.calls(), ElementsAre("set offload.window_threshold 20"));
  const auto outside = tandem("set offload.window_threshold 0");
  EXPECT_EQ(outside.code, 2);
  EXPECT_EQ(outside.err, "tandem: offload.window_threshold = 0: a whole number from 1 to 1000 MSS is needed\n");
  EXPECT_EQ(tandem("set offload.rocket 1").code, 2);
  EXPECT_EQ(tandem("set offload 1").code, 2);
  EXPECT_EQ(tandem("set 'offload/x.y' 1").code, 2);
  EXPECT_EQ(tandem("set offload.window_threshold").code, 2);
}

TEST_F(CliTest, switches_and_knobs_are_saved)
{
  EXPECT_EQ(tandem("module offload off --save").out, "offload is off, saved\n");
  EXPECT_EQ(tandem("enable offload").out, "offload is on, saved\n");
  EXPECT_EQ(json::parse(tandem("disable offload --json").out),
            json({ { "module", "offload" }, { "enabled", false }, { "saved", true } }));
  EXPECT_EQ(tandem("set offload.window_threshold 20 --save").out, "offload.window_threshold = 20, saved\n");
  EXPECT_THAT(backend.calls(), ElementsAre("enable offload off save", "enable offload on save",
                                           "enable offload off save", "set offload.window_threshold 20 save"));
  EXPECT_EQ(tandem("enable rocket").code, 2);
  EXPECT_EQ(tandem("enable ../status").code, 2);
  EXPECT_EQ(tandem("enable").code, 2);
  EXPECT_EQ(tandem("module offload --save").err, "tandem: --save: on or off is needed\n");
  backend.disk_full = true;
  const auto full = tandem("enable offload");
  EXPECT_EQ(full.code, 1);
  EXPECT_THAT(full.err, HasSubstr("is not saved: no space left"));
  EXPECT_THAT(full.out, IsEmpty());
}

TEST_F(CliTest, what_is_saved_is_shown_with_its_reason_and_forgotten)
{
  const std::string shown = tandem("saved").out;
  EXPECT_THAT(shown, testing::ContainsRegex("mirror +off +20[0-9-]+ [0-9:]+ +yes +on .+tandem.toml:7.\n"));
  EXPECT_THAT(shown, testing::ContainsRegex("offload.gone +5 .* no: no such knob +-\n"));
  EXPECT_THAT(shown, testing::ContainsRegex("offload.window_threshold +30 +20 .built-in.\n"));
  EXPECT_EQ(json::parse(tandem("saved --json").out), backend.saved());
  EXPECT_EQ(tandem("saved --forget mirror").out, "mirror is forgotten, in force now: on (/etc/tandem/tandem.toml:7)\n");
  EXPECT_EQ(tandem("saved --forget offload").code, 2);
  EXPECT_EQ(tandem("saved --forget all").out, "nothing was saved\n");
  EXPECT_THAT(backend.calls(), ElementsAre("forget saved mirror", "forget saved offload", "forget all saved"));
  backend.nothing_saved = true;
  EXPECT_EQ(tandem("saved").out, "nothing is saved\n");
}

TEST_F(CliTest, exclusions_are_added_shown_and_removed)
{
  EXPECT_EQ(tandem("exclude add to 203.0.113.0/24").out, "to 203.0.113.0/24 is excluded, saved\n");
  EXPECT_EQ(json::parse(tandem("exclude add user backup --json").out),
            json({ { "kind", "user" }, { "what", "backup" } }));
  const auto wrong = tandem("exclude add to nonsense/99");
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("to \"nonsense/99\": a network is needed"));
  const std::string list = tandem("exclude list").out;
  EXPECT_THAT(list, HasSubstr("to        203.0.113.0/24  saved"));
  EXPECT_THAT(list, HasSubstr("no: no such user"));
  EXPECT_EQ(json::parse(tandem("exclude list --json").out), backend.exclusions());
  EXPECT_EQ(tandem("exclude remove to 203.0.113.0/24").out, "to 203.0.113.0/24 is excluded no longer\n");
  EXPECT_EQ(tandem("exclude remove to 10.0.0.0/8").code, 2);
  for (const char* words : { "exclude", "exclude add", "exclude add to", "exclude add port 22", "exclude remove" })
    EXPECT_EQ(tandem(words).code, 2) << words;
  EXPECT_THAT(backend.calls(), ElementsAre("exclude to 203.0.113.0/24", "exclude user backup", "exclude to nonsense/99",
                                           "include to 203.0.113.0/24", "include to 10.0.0.0/8"));
  backend.disk_full = true;
  EXPECT_EQ(tandem("exclude add to 192.0.2.0/24").code, 1);
  backend.nothing_saved = true;
  EXPECT_EQ(tandem("exclude list").out, "nothing is excluded\n");
}

TEST_F(CliTest, traps_are_set_shown_and_removed)
{
  EXPECT_EQ(tandem("trap add 'flow.gap > 500ms' --save").out, "trap 3 is set\n");
  EXPECT_EQ(json::parse(tandem("trap add 'flow.gap > 500ms' --json").out), json({ { "id", 3 } }));
  const auto wrong = tandem("trap add 'flow.gop > 1s'");
  EXPECT_EQ(wrong.code, 2);
  EXPECT_EQ(wrong.err, "tandem: flow.gop > 1s: character 1: wrong\n");
  const std::string list = tandem("trap list").out;
  EXPECT_THAT(list, HasSubstr("flow.gap > 500 ms"));
  EXPECT_THAT(list, HasSubstr("612 ms of 192.0.2.2:40000"));
  EXPECT_THAT(list, HasSubstr("trap-20260101-120000-1.pcapng"));
  EXPECT_EQ(json::parse(tandem("trap list --json").out), backend.traps());
  EXPECT_EQ(tandem("trap remove 1").out, "trap 1 is removed\n");
  EXPECT_EQ(tandem("trap remove 9").code, 2);
  for (const char* words : { "trap", "trap add", "trap remove", "trap remove one", "trap remove -1" })
    EXPECT_EQ(tandem(words).code, 2) << words;
  EXPECT_THAT(backend.calls(), ElementsAre("trap flow.gap > 500ms save", "trap flow.gap > 500ms", "trap flow.gop > 1s",
                                           "remove trap 1", "remove trap 9"));
}

TEST_F(CliTest, the_budget_is_shown)
{
  EXPECT_THAT(tandem("budget").out, HasSubstr("this month"));
  EXPECT_EQ(json::parse(tandem("budget --json").out)["month"]["left_bytes"], 8'000'000);
  EXPECT_EQ(tandem("budget please").code, 2);
}

TEST_F(CliTest, networks_are_shown_and_forgotten)
{
  EXPECT_THAT(tandem("networks").out, HasSubstr("home (here)"));
  EXPECT_THAT(tandem("networks").out, HasSubstr("rests here for"));
  EXPECT_EQ(json::parse(tandem("networks --json").out)[0]["name"], "home");
  EXPECT_THAT(tandem("networks").out, HasSubstr("wwan0 (here)  203.0.113.0/24            2"));
  EXPECT_EQ(json::parse(tandem("networks --json").out), backend.networks());
  EXPECT_EQ(tandem("networks forget home").out, "1 network forgotten\n");
  EXPECT_EQ(tandem("networks forget wwan0").code, 0);
  EXPECT_EQ(tandem("networks forget --all").code, 0);
  EXPECT_EQ(tandem("networks forget").code, 2);
  EXPECT_EQ(tandem("networks forget home --all").code, 2);
  EXPECT_EQ(tandem("networks forget elsewhere").code, 2);
  EXPECT_THAT(backend.calls(), ElementsAre("forget home", "forget wwan0", "forget all", "forget elsewhere"));
}

TEST_F(CliTest, announcements_are_handed_on)
{
  EXPECT_EQ(tandem("link announce risk").out, "risk counts for 0.5 s\n");
  EXPECT_EQ(tandem("link announce down --for 2").code, 0);
  EXPECT_THAT(backend.calls(), ElementsAre("announce risk for 0.500000", "announce down for 2.000000"));
  for (const char* wrong :
       { "link", "link announce", "link announce sideways", "link announce up --for 0", "link announce up --for 61",
         "link announce up --for soon", "link announce up --for nan", "link forget up" })
    EXPECT_EQ(tandem(wrong).code, 2) << wrong;
  EXPECT_THAT(tandem("link announce up --for nan").err, HasSubstr("nan: a number is needed"));
  EXPECT_EQ(backend.calls().size(), 2u);
}

TEST_F(CliTest, flows)
{
  const auto flows = tandem("flows");
  EXPECT_EQ(flows.code, 0);
  EXPECT_THAT(flows.out, HasSubstr("198.51.100.7:443"));
  EXPECT_THAT(flows.out, HasSubstr("48.2 ms"));
  EXPECT_THAT(flows.out, HasSubstr("21.8 Mbit/s"));
  EXPECT_THAT(flows.out, HasSubstr("offload: path cell proved 41"));
  EXPECT_EQ(json::parse(tandem("flows --json").out), backend.flows());
}

TEST_F(CliTest, doctor_ends_with_1_only_when_tandem_cannot_work)
{
  const auto warned = tandem("doctor");
  EXPECT_EQ(warned.code, 0);
  EXPECT_THAT(warned.out, HasSubstr("nft queue expression: load nft_queue"));
  doctor["health"] = "fail";
  EXPECT_EQ(tandem("doctor").code, 1);
  EXPECT_EQ(json::parse(tandem("doctor --json").out), doctor);
}

TEST_F(CliTest, doctor_says_when_the_daemon_runs_and_could_not_be_asked)
{
  doctor = nullptr;
  const auto here = tandem("doctor");
  EXPECT_THAT(here.err, HasSubstr("the running daemon could not be asked (out of order)"));
  EXPECT_THAT(here.out, HasSubstr("CHECK"));
  server.reset();
  EXPECT_THAT(tandem("doctor").err, IsEmpty());
}

TEST_F(CliTest, the_last_of_a_recording_is_dumped)
{
  EXPECT_EQ(tandem("trace dump --last 1500ms -o -").out, "the last 1.500000");
  for (const char* words : { "trace dump", "trace dump --last 30 -o -", "trace dump --last 0s -o -",
                             "trace dump --last soon -o -", "trace dump --last 2h -o -", "trace dump --last 1s" })
    EXPECT_EQ(tandem(words).code, 2) << words;
  EXPECT_THAT(tandem("trace dump --last 30 -o -").err, HasSubstr("a duration such as 30s"));
}

TEST_F(CliTest, a_recording_is_saved_whole_and_for_its_owner_only)
{
  const auto file = directory / "r.pcapng";
  const auto saved = tandem("trace save " + file.string());
  EXPECT_EQ(saved.code, 0) << saved.err;
  std::ifstream in { file, std::ios::binary };
  EXPECT_EQ(std::string(std::istreambuf_iterator<char> { in }, {}), backend.recording({}));
  EXPECT_EQ(std::filesystem::status(file).permissions(), std::filesystem::perms { 0600 });
  EXPECT_EQ(tandem("trace save - | wc -c").out, std::to_string(backend.recording({}).size()) + "\n");
  EXPECT_EQ(tandem("trace save /nonexistent/r.pcapng").code, 1);
}

TEST_F(CliTest, a_recording_that_cannot_be_written_leaves_what_was_there)
{
  const auto file = directory / "r.pcapng";
  std::ofstream { file } << "old";
  // As a disk that is full.
  const auto saved = test::run("ulimit -f 0; trap '' XFSZ; TANDEM_SOCKET=" + (directory / "control.sock").string()
                               + " " TANDEM_PROGRAM " trace save " + file.string());
  EXPECT_EQ(saved.code, 1);
  std::ifstream in { file };
  EXPECT_EQ(std::string(std::istreambuf_iterator<char> { in }, {}), "old");
  EXPECT_FALSE(std::filesystem::exists(file.string() + ".part"));
  EXPECT_EQ(tandem("trace save /dev/full").code, 1);
  EXPECT_EQ(tandem("trace save /dev/stdout | wc -c").out, std::to_string(backend.recording({}).size()) + "\n");
  EXPECT_EQ(tandem("trace save /dev/null").code, 0);
  EXPECT_TRUE(std::filesystem::is_character_file("/dev/null"));
}

TEST_F(CliTest, help_of_a_command_and_of_a_module)
{
  EXPECT_THAT(tandem("help").out, HasSubstr("doctor"));
  EXPECT_THAT(tandem("help set").out, HasSubstr("MODULE.KNOB"));
  EXPECT_THAT(tandem("help offload").out, HasSubstr("The manual."));
  const auto slip = tandem("help stauts");
  EXPECT_EQ(slip.code, 2);
  EXPECT_THAT(slip.err, HasSubstr("stauts: no such command (did you mean status?); nor a module: "));
  EXPECT_THAT(tandem("help lab").out, HasSubstr("usage: tandem lab [-h] COMMAND"));
  EXPECT_THAT(tandem("help set").out, HasSubstr("Usage: tandem set [OPTIONS] MODULE.KNOB VALUE"));
  const auto alone = tandem("--socket " + (directory / "nobody").string() + " help stauts");
  EXPECT_EQ(alone.code, 1);
  EXPECT_THAT(
      alone.err,
      HasSubstr(
          "(did you mean status?); if it is a module: its manual is the running daemon's, and tandemd is not running"));
}

TEST_F(CliTest, a_service_that_is_no_unit_is_remarked)
{
  const auto slip = tandem("exclude add service firefox");
  EXPECT_EQ(slip.code, 0);
  EXPECT_THAT(slip.err,
              HasSubstr("did you mean firefox.service? `tandem exclude remove service firefox` takes it back"));
  for (const std::string name : { "backup.service", "app-*.scope", "quiet.slice", "'app-*'" })
    EXPECT_THAT(tandem("exclude add service " + name).err, IsEmpty()) << name;
}

TEST_F(CliTest, an_exclusion_that_excludes_nothing_is_remarked)
{
  const auto slip = tandem("exclude add user backup");
  EXPECT_EQ(slip.code, 0);
  EXPECT_EQ(slip.out, "user backup is excluded, saved\n");
  EXPECT_EQ(slip.err, "tandem: it excludes nothing now: no such user; `tandem exclude list` tells when that changes\n");
  EXPECT_THAT(tandem("exclude add to 203.0.113.0/24").err, IsEmpty());
}

// A network's name may have any bytes, JSON not: another name in its place would be said to be excluded.
TEST_F(CliTest, what_is_no_utf8_is_refused)
{
  for (const char* command : { "exclude add ssid", "exclude remove ssid", "networks forget", "set offload.x" })
  {
    const auto refused = tandem(std::string { command } + " \"$(printf 'Caf\\351')\"");
    EXPECT_EQ(refused.code, 2) << command;
    EXPECT_EQ(refused.err, "tandem: what was given is not UTF-8, which is needed\n") << command;
  }
  EXPECT_THAT(backend.calls(), IsEmpty());
  EXPECT_EQ(tandem("exclude add ssid \"$(printf 'Caf\\303\\251')\"").code, 0);
}

TEST_F(CliTest, a_word_that_is_no_command_is_named_with_the_one_near_to_it)
{
  EXPECT_EQ(tandem("stauts").err, "tandem: stauts: no such command; did you mean status?\n");
  EXPECT_EQ(tandem("stauts").code, 2);
  EXPECT_EQ(tandem("exclude ad to example.org").err, "tandem: ad: no such command; did you mean add?\n");
  EXPECT_EQ(tandem("trace rocketry").err, "tandem: rocketry: no such command; `tandem trace --help` lists them\n");
  EXPECT_EQ(tandem("--rocket").err, "tandem: --rocket: no such option; `tandem --help` lists them\n");
  EXPECT_EQ(tandem("exclude").err, "tandem: tandem exclude: one of add, remove, list is needed\n");
  EXPECT_EQ(tandem("").err, "tandem: a command is needed; `tandem --help` lists them\n");
  EXPECT_EQ(tandem("").code, 2);
  EXPECT_THAT(tandem("set offload.x").err, HasSubstr("VALUE is required"));
}

TEST_F(CliTest, numbers_are_refused_in_a_few_words)
{
  for (const std::string arguments : { "logs --lines 0", "logs --lines x", "trap remove 0", "trap remove -1" })
  {
    const auto refused = tandem(arguments);
    EXPECT_EQ(refused.code, 2) << arguments;
    EXPECT_THAT(refused.err, testing::AllOf(testing::SizeIs(testing::Lt(120)), Not(HasSubstr("0000")))) << arguments;
  }
  EXPECT_THAT(tandem("logs --lines 0").err, HasSubstr("0: a whole number from 1 is needed"));
  EXPECT_EQ(tandem("saved --forget ''").code, 2) << "the name of a variable that is not set";
}

// As of a variable that is not set.
TEST_F(CliTest, an_empty_text_is_no_name)
{
  for (const std::string words : { "why ''", "why :443", "up --cell ''", "up --wifi ''", "up -c ''", "up --module ''",
                                   "up --set ''", "--socket '' status", "--socket '' up", "--socket relative.sock up",
                                   "trace save ''", "trace dump --last 1s -o ''" })
  {
    const auto refused = tandem(words);
    EXPECT_EQ(refused.code, 2) << words;
    EXPECT_THAT(refused.err, HasSubstr("is needed")) << words;
  }
}

TEST_F(CliTest, versions)
{
  EXPECT_THAT(tandem("version").out, testing::MatchesRegex("tandem [0-9.]+( \\([0-9a-f+]+\\))?\ntandemd 0.1.0\n"));
  EXPECT_EQ(json::parse(tandem("version --json").out).at("tandemd"), "0.1.0");
  EXPECT_THAT(tandem("--version").out, testing::StartsWith("tandem "));
}

TEST_F(CliTest, the_version_of_a_daemon_that_cannot_be_asked_is_unknown)
{
  backend.busy = true;
  const auto busy = tandem("version");
  EXPECT_EQ(busy.code, 0);
  EXPECT_THAT(busy.out, HasSubstr("\ntandemd unknown: "));
  EXPECT_THAT(busy.out, HasSubstr("did not answer within 1000 ms"));
  const json told = json::parse(tandem("version --json").out);
  EXPECT_TRUE(told.at("tandemd").is_null());
  EXPECT_THAT(told.at("problem").get<std::string>(), HasSubstr("did not answer"));
  server.reset();
  EXPECT_THAT(tandem("version").out, testing::EndsWith("tandemd not running\n"));
}

TEST_F(CliTest, output_that_cannot_be_written_is_a_failure)
{
  for (const char* command : { "status", "flows", "why 198.51.100.7", "why 198.51.100.7 --json", "trap list",
                               "trap list --json", "module", "budget" })
  {
    EXPECT_EQ(tandem(command).code, 0) << command;
    const auto full = tandem(std::string { command } + " >/dev/full");
    EXPECT_EQ(full.code, 1) << command;
    EXPECT_THAT(full.err, HasSubstr("the output cannot be written")) << command;
  }
}

TEST_F(CliTest, help_and_version_that_cannot_be_written_are_a_failure)
{
  for (const char* command :
       { "--help", "--version", "up --help", "trace print --help", "help", "--socket /nonexistent/socket down" })
  {
    const auto full = tandem(std::string { command } + " >/dev/full");
    EXPECT_EQ(full.code, 1) << command;
    EXPECT_EQ(full.err, "tandem: the output cannot be written: No space left on device\n") << command;
  }
}

TEST_F(CliTest, a_reader_that_has_gone_is_not_told)
{
  // The reader ends first; SIGPIPE ends a program as usual, and where it is ignored 1 does.
  const std::string wait =
      "sleep 0.2; exec env TANDEM_SOCKET=" + (directory / "control.sock").string() + " " + TANDEM_PROGRAM + " ";
  for (const char* command : { "--help", "status", "status --watch" })
    for (const auto& [ignored, code] : { std::pair { "", 141 }, std::pair { "trap '' PIPE; ", 1 } })
    {
      const auto gone = test::run("bash -c \"{ ( " + std::string { ignored } + wait + command
                                  + " ); } | true; exit \\${PIPESTATUS[0]}\"");
      EXPECT_EQ(gone.code, code) << ignored << command;
      EXPECT_EQ(gone.err, "") << ignored << command;
    }
}

TEST_F(CliTest, a_busy_daemon_is_a_failure_in_its_own_words)
{
  backend.busy = true;
  const auto busy = tandem("status");
  EXPECT_EQ(busy.code, 1);
  EXPECT_THAT(busy.err, HasSubstr("did not answer within 1000 ms"));
  EXPECT_THAT(busy.out, IsEmpty());
}

TEST_F(CliTest, without_a_daemon_it_says_how_to_start_one)
{
  server.reset();
  for (const char* command : { "status", "flows", "module", "module offload on", "set a.b 1", "trace save /tmp/x" })
  {
    const auto nobody = tandem(command);
    EXPECT_EQ(nobody.code, 1) << command;
    EXPECT_THAT(nobody.err, HasSubstr("tandemd is not running")) << command;
    EXPECT_THAT(nobody.err, HasSubstr("tandem up")) << command;
  }
  EXPECT_EQ(tandem("version").code, 0);
  EXPECT_THAT(tandem("down").out, HasSubstr("not running"));
}

TEST_F(CliTest, usage_faults_end_with_2)
{
  for (const char* wrong : { "", "statsu", "status --jsn", "module a b c", "trace", "--nonsense status" })
  {
    const auto refused = tandem(wrong);
    EXPECT_EQ(refused.code, 2) << wrong;
    EXPECT_THAT(refused.err, Not(IsEmpty())) << wrong;
  }
}

// A command of the user's stands behind "--", and options before it.
TEST_F(CliTest, words_for_a_python_program_pass_unchanged)
{
  const auto refused = tandem("ab --null -- true --help");
  EXPECT_EQ(refused.code, 2) << refused.err;
  EXPECT_THAT(refused.err, HasSubstr("--figure: which number"));
  EXPECT_THAT(tandem("ab --null --for 5 --figure time -- true").err, HasSubstr("--for 5: allowed"));
}

std::string contents(const std::filesystem::path& file)
{
  std::ifstream in { file };
  EXPECT_TRUE(in.is_open()) << file;
  return { std::istreambuf_iterator<char> { in }, {} };
}

// Every command and option that the program knows must be in its man page and in the completions.
TEST_F(CliTest, man_page_and_completions_know_every_command_and_option)
{
  const std::string man = contents(TANDEM_SOURCE "/docs/man/tandem.1");
  const std::string bash = contents(TANDEM_SOURCE "/packaging/completions/tandem.bash");
  const std::string zsh = contents(TANDEM_SOURCE "/packaging/completions/_tandem");
  const std::string fish = contents(TANDEM_SOURCE "/packaging/completions/tandem.fish");
  const std::string overview = tandem("--help").out;
  std::size_t commands = 0;
  const std::regex command_line { "\n  ([a-z]+) {2,}" };
  const std::string list = overview.substr(overview.find("Subcommands:"));
  for (std::sregex_iterator found { list.begin(), list.end(), command_line }, end; found != end; ++found)
  {
    const std::string command = (*found)[1];
    ++commands;
    EXPECT_THAT(man, HasSubstr("\n.SS " + command)) << "tandem.1";
    EXPECT_THAT(bash, testing::ContainsRegex("[ \"]" + command + "[ \"]")) << "tandem.bash";
    EXPECT_THAT(zsh, HasSubstr("'" + command + ":")) << "_tandem";
    EXPECT_THAT(fish, HasSubstr("'" + command + ":")) << "tandem.fish";
    if (command == "ab" || command == "dashboard" || command == "relay" || command == "lab" || command == "bench")
      continue; // have command lines of their own
    const std::string help = tandem("help " + command).out;
    const std::regex option { "--[a-z-]+" };
    for (std::sregex_iterator each { help.begin(), help.end(), option }; each != end; ++each)
    {
      std::string escaped = each->str();
      for (std::size_t at = 0; (at = escaped.find('-', at)) != std::string::npos; at += 2)
        escaped.insert(at, "\\");
      if (each->str() == "--help") continue;
      EXPECT_THAT(man, HasSubstr(escaped)) << command;
      EXPECT_THAT(bash, HasSubstr(each->str())) << command;
      EXPECT_THAT(zsh, HasSubstr(each->str())) << command;
      // fish has the words without hyphens.
      EXPECT_THAT(fish, testing::ContainsRegex(" -l " + each->str().substr(2) + "[ \n]")) << command;
    }
  }
  EXPECT_GE(commands, 13u) << overview;
}

// And the other way round: what a page or a completion names is there, and answers.
TEST_F(CliTest, every_command_of_help_manual_and_completions_is_there)
{
  std::set<std::string> named {};
  const auto read = [&](const std::string& text, const std::string& pattern)
  {
    const std::regex word { pattern };
    const std::size_t before = named.size();
    for (std::sregex_iterator found { text.begin(), text.end(), word }, end; found != end; ++found)
      named.insert((*found)[1]);
    return named.size() - before;
  };
  const std::string overview = tandem("--help").out;
  EXPECT_GE(read(overview.substr(overview.find("Subcommands:")), "\n  ([a-z]+) {2,}"), 13u) << overview;
  const std::string man = contents(TANDEM_SOURCE "/docs/man/tandem.1");
  const std::string sections = man.substr(man.find(".SH COMMANDS"), man.find(".SH EXIT") - man.find(".SH COMMANDS"));
  read(sections, "\n\\.SS ([a-z]+)");
  read(contents(TANDEM_SOURCE "/packaging/completions/_tandem"), "\n    '([a-z]+):");
  EXPECT_EQ(read(contents(TANDEM_SOURCE "/packaging/completions/tandem.fish"), "[ \n]'([a-z]+):"), 0u)
      << "tandem.fish names a command that nobody else does";
  const std::string bash = contents(TANDEM_SOURCE "/packaging/completions/tandem.bash");
  const std::string list = "local commands=\"";
  const std::size_t begin = bash.find(list) + list.size();
  read(bash.substr(begin, bash.find('"', begin) - begin), "([a-z]+)");
  for (const std::string& command : named)
    EXPECT_EQ(tandem(command + " --help").code, 0) << command;
}

// What completion offers for "--" behind a command is what that command takes.
TEST_F(CliTest, options_that_bash_offers_are_those_of_the_command)
{
  const std::regex option { "(^|[^a-z-])(--[a-z][a-z-]*)" };
  const auto options = [&](const std::string& text)
  {
    std::set<std::string> all {};
    for (std::sregex_iterator found { text.begin(), text.end(), option }, end; found != end; ++found)
      all.insert((*found)[2]);
    all.erase("--help");
    return all;
  };
  for (const std::string words : { "up",
                                   "status",
                                   "module offload on",
                                   "enable offload",
                                   "set offload.window_mss 3",
                                   "saved",
                                   "exclude list",
                                   "aps",
                                   "aps keep 2",
                                   "aps off",
                                   "links",
                                   "flows",
                                   "why",
                                   "networks",
                                   "networks forget",
                                   "link announce up",
                                   "budget",
                                   "doctor",
                                   "logs",
                                   "trap add x",
                                   "trap list",
                                   "trap remove 1",
                                   "version",
                                   "trace dump",
                                   "trace print",
                                   "trace explain",
                                   "trace replay",
                                   "trace capture",
                                   "trace plot",
                                   "trace diff",
                                   "trace anonymise",
                                   "trace bundle",
                                   "trace wireshark",
                                   "ab start",
                                   "ab status",
                                   "ab stop",
                                   "dashboard",
                                   "relay" })
  {
    const std::string line = "tandem " + words + " --";
    const auto offered = test::run("bash -c 'source " TANDEM_SOURCE "/packaging/completions/tandem.bash; COMP_WORDS=("
                                   + line + "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); COMP_LINE=\"" + line
                                   + "\"; _tandem; echo \"${COMPREPLY[*]}\"'");
    EXPECT_EQ(options(offered.out), options(tandem(words + " --help").out)) << words << offered.err;
  }
}

// On a terminal of its own.
class Terminal
{
public:
  explicit Terminal(const std::string& socket, const std::vector<std::string>& words = { "top" },
                    const std::string& setting = "LC_ALL=C.UTF-8")
  {
    child_ = ::forkpty(&master_, nullptr, nullptr, nullptr);
    if (child_ != 0) return;
    ::setenv("TANDEM_SOCKET", socket.c_str(), 1);
    ::setenv("TERM", "xterm", 1);
    const std::size_t equals = setting.find('=');
    ::setenv(setting.substr(0, equals).c_str(), setting.substr(equals + 1).c_str(), 1);
    std::vector<std::string> all { "tandem" };
    all.insert(all.end(), words.begin(), words.end());
    std::vector<char*> list {};
    for (std::string& word : all)
      list.push_back(word.data());
    list.push_back(nullptr);
    ::execv(TANDEM_PROGRAM, list.data());
    ::_exit(127);
  }
  ~Terminal()
  {
    if (child_ > 0) ::kill(child_, SIGKILL);
    ::close(master_);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  void press(std::string_view keys) const { EXPECT_EQ(::write(master_, keys.data(), keys.size()), std::ssize(keys)); }
  void go_on() const { ::kill(child_, SIGCONT); }

  // Whether it writes this within ten seconds, behind what was waited for before.
  bool until(const std::string& words)
  {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds { 10 };
    while (text_.find(words) == std::string::npos)
    {
      pollfd more { master_, POLLIN, 0 };
      char some[4096];
      const auto count = ::poll(&more, 1, 100) > 0 ? ::read(master_, some, sizeof some) : 0;
      if (count < 0 || std::chrono::steady_clock::now() > end) return false;
      text_.append(some, static_cast<std::size_t>(count));
    }
    text_.erase(0, text_.find(words) + words.size());
    return true;
  }

  // How often it draws its screen anew from now on.
  int drawn_within(std::chrono::milliseconds span)
  {
    const std::string home = "\x1b[H\x1b[2J";
    const auto end = std::chrono::steady_clock::now() + span;
    while (std::chrono::steady_clock::now() < end)
    {
      pollfd more { master_, POLLIN, 0 };
      char some[4096];
      const auto count = ::poll(&more, 1, 50) > 0 ? ::read(master_, some, sizeof some) : 0;
      if (count < 0) break;
      text_.append(some, static_cast<std::size_t>(count));
    }
    int drawn = 0;
    for (std::size_t at = 0; (at = text_.find(home, at)) != std::string::npos; at += home.size())
      ++drawn;
    text_.clear();
    return drawn;
  }

  // How it ended or stopped, as waitpid() tells; -1 when it has not within ten seconds.
  int state()
  {
    for (int i = 0, status = 0; i < 200; ++i, std::this_thread::sleep_for(std::chrono::milliseconds { 50 }))
      if (::waitpid(child_, &status, WNOHANG | WUNTRACED) == child_)
      {
        if (!WIFSTOPPED(status)) child_ = -1;
        return status;
      }
    return -1;
  }

private:
  int master_ = -1;
  pid_t child_ = -1;
  std::string text_ {};
};

TEST_F(CliTest, keys_that_send_digits_switch_no_module)
{
  Terminal terminal { (directory / "control.sock").string() };
  ASSERT_TRUE(terminal.until("1-9 switch a module"));
  terminal.press("\x1b[1~\x1b[2~\x1b[5~\x1b[6;2~\x1b[15~\x1bOP\x1b\x31\x1bO2"); // Home, Insert, Page Up ... Alt and 1
  terminal.press("p");
  ASSERT_TRUE(terminal.until("paused; "));
  EXPECT_THAT(backend.calls(), IsEmpty());
  terminal.press("2");
  ASSERT_TRUE(terminal.until(" now"));
  EXPECT_THAT(backend.calls(), testing::SizeIs(1)) << "a digit alone is a command still";
  terminal.press("q");
  EXPECT_EQ(terminal.state(), 0);
}

// What stands still takes neither a processor nor, over a network, all of the line.
TEST_F(CliTest, a_paused_top_rests)
{
  Terminal terminal { (directory / "control.sock").string() };
  ASSERT_TRUE(terminal.until("1-9 switch a module"));
  terminal.press("p");
  ASSERT_TRUE(terminal.until("paused; "));
  EXPECT_LE(terminal.drawn_within(std::chrono::milliseconds { 3500 }), 5);
  terminal.press("p");
  ASSERT_TRUE(terminal.until("\x1b[2m1-9 switch a module")) << "it goes on";
  terminal.press("q");
  EXPECT_EQ(terminal.state(), 0);
}

TEST_F(CliTest, a_stopped_top_gives_the_terminal_back)
{
  Terminal terminal { (directory / "control.sock").string() };
  ASSERT_TRUE(terminal.until("1-9 switch a module"));
  terminal.press("\x1a"); // Ctrl-Z
  ASSERT_TRUE(terminal.until("\x1b[?25h\x1b[?1049l"));
  EXPECT_TRUE(WIFSTOPPED(terminal.state()));
  terminal.go_on();
  ASSERT_TRUE(terminal.until("\x1b[?1049h\x1b[?25l"));
  ASSERT_TRUE(terminal.until("1-9 switch a module"));
  terminal.press("q");
  EXPECT_EQ(terminal.state(), 0);
}

TEST_F(CliTest, no_colour_is_no_reason_to_scroll)
{
  Terminal terminal { (directory / "control.sock").string(), { "status", "--watch" }, "NO_COLOR=1" };
  EXPECT_TRUE(terminal.until("\x1b[H\x1b[2Jtandemd 0.1.0, "));
}

TEST_F(CliTest, a_terminal_without_utf8_gets_none)
{
  Terminal ascii { (directory / "control.sock").string(), { "top" }, "LC_ALL=C" };
  EXPECT_TRUE(ascii.until("bit/s  _"));
  Terminal blocks { (directory / "control.sock").string(), { "top" }, "LC_ALL=en_US.utf8" };
  EXPECT_TRUE(blocks.until("bit/s  ▁"));
}

TEST_F(CliTest, a_module_that_is_switched_on_while_hands_are_off_says_so)
{
  EXPECT_EQ(json::parse(tandem("module offload on --json").out).at("hands_off"), "");
  backend.hands_off = true;
  EXPECT_EQ(tandem("module offload on").out, "offload is on; hands are off all flows now: wg0 has the default route\n");
  EXPECT_EQ(tandem("module offload off").out, "offload is off\n");
}

TEST_F(CliTest, why_says_when_hands_are_off_all_flows)
{
  EXPECT_THAT(tandem("why 192.0.2.77").err, HasSubstr("Tandem follows those that begin while it runs"));
  backend.hands_off = true;
  EXPECT_THAT(tandem("why 192.0.2.77").err,
              HasSubstr("is known. Tandem has its hands off all of them: wg0 has the default route\n"));
}

// The daemon tells a thousand flows at most: of the others nothing is known here, and that is said.
TEST_F(CliTest, why_claims_nothing_of_flows_that_it_was_not_told)
{
  backend.flow_count = 4000;
  EXPECT_THAT(tandem("why 192.0.2.77").err,
              HasSubstr("no connection to 192.0.2.77 is among the 1000 of 4000 that are told. "));
  backend.flow_count = 1;
  EXPECT_THAT(tandem("why 192.0.2.77").err, HasSubstr("no connection to 192.0.2.77 is known. "));
}

} // namespace
} // namespace tandem::cli
