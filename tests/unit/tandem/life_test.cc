#include "tests/unit/tandem/run.h"
#include "tools/tandem/life.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

namespace tandem::cli
{
namespace
{

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

TEST(Life, systemd_starts_the_daemon_only_where_its_unit_would_do)
{
  EXPECT_TRUE(by_systemd({ .unit_installed = true }));
  EXPECT_FALSE(by_systemd({ .unit_installed = false }));
  EXPECT_FALSE(by_systemd({ .unit_installed = true, .machines_network = false }));
  EXPECT_FALSE(by_systemd({ .unit_installed = true, .default_socket = false }));
}

// The program on a made-up machine: a /run of its own with the directory that systemd makes, and a systemctl that notes
// what it is asked for.
class LifeTest : public testing::Test
{
protected:
  std::filesystem::path directory;

  void SetUp() override
  {
    std::string pattern = testing::TempDir() + "life_test.XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    directory = pattern;
    std::ofstream { directory / "systemctl" } << "#!/bin/sh\necho \"$@\" >>" << asked_file().string()
                                              << "\n[ $1 != is-active ] || exit ${INACTIVE:-0}\n";
    std::filesystem::permissions(directory / "systemctl", std::filesystem::perms::owner_all);
    if (on_machine("unshare --net true").code != 0) GTEST_SKIP() << "no namespaces may be made here";
  }
  void TearDown() override { std::filesystem::remove_all(directory); }

  std::filesystem::path asked_file() const { return directory / "asked"; }

  test::Run on_machine(const std::string& command) const
  {
    return test::run("unshare --user --map-root-user --mount --pid --fork --mount-proc sh -c '"
                     "mount -t tmpfs none /run && mkdir -p /run/systemd/system && PATH="
                     + directory.string() + ":$PATH && " + command + "'");
  }

  // What systemctl was asked for by a `tandem` called in that way. A daemon of its own ends at once: the file it is to
  // read is not there.
  std::string asked_by(const std::string& command) const
  {
    std::filesystem::remove(asked_file());
    on_machine(command);
    std::ifstream in { asked_file() };
    return { std::istreambuf_iterator<char> { in }, {} };
  }
};

TEST_F(LifeTest, another_network_or_socket_leaves_the_machines_service_alone)
{
  const std::string tandem = TANDEM_PROGRAM " ";
  const std::string up = "up -c /nowhere.toml";
  EXPECT_THAT(asked_by(tandem + up), HasSubstr("start tandemd.service"));
  EXPECT_THAT(asked_by("unshare --net " + tandem + up), Not(HasSubstr("start")));
  EXPECT_THAT(asked_by(tandem + "--socket /run/other/control.sock " + up), Not(HasSubstr("start")));

  EXPECT_THAT(asked_by(tandem + "down"), HasSubstr("stop tandemd.service"));
  EXPECT_THAT(asked_by("unshare --net " + tandem + "down"), Not(HasSubstr("stop")));
  EXPECT_THAT(asked_by(tandem + "--socket /run/other/control.sock down"), Not(HasSubstr("stop")));
}

// A service that systemd is about to start again is not active, and what `tandem up` had asked for outlives a stop.
TEST_F(LifeTest, down_stops_what_would_come_back_and_forgets_what_up_asked_for)
{
  const std::string drop_in = "/run/systemd/system/tandemd.service.d/50-tandem-up.conf";
  EXPECT_THAT(asked_by("export INACTIVE=3; " TANDEM_PROGRAM " down"), HasSubstr("stop tandemd.service"));
  const auto done = on_machine("export INACTIVE=3; " TANDEM_PROGRAM " up --wifi wlan7; grep -c ExecStart.*wlan7 "
                               + drop_in + "; " TANDEM_PROGRAM " down; ls " + drop_in);
  EXPECT_THAT(done.out, HasSubstr("1\n"));
  EXPECT_THAT(done.out, HasSubstr("tandemd is not running"));
  EXPECT_THAT(done.err, HasSubstr("cannot access '" + drop_in));
}

// `systemctl reload` fails where the configuration is refused that the daemon would read, not that of the unit alone.
TEST_F(LifeTest, a_reload_checks_what_up_has_asked_for)
{
  const auto done = on_machine(TANDEM_PROGRAM " up -c /etc/other.toml --wifi wlan7; "
                                              "cat /run/systemd/system/tandemd.service.d/50-tandem-up.conf");
  std::vector<std::string> reload {};
  std::istringstream lines { done.out };
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("ExecReload=")) reload.push_back(line);
  ASSERT_EQ(reload.size(), 3u) << done.out;
  EXPECT_EQ(reload[0], "ExecReload=") << "instead of the unit's";
  EXPECT_THAT(reload[1], testing::ContainsRegex("tandemd\" .*\"/etc/other.toml\" .*\"wlan7\" \"--check\""));
  EXPECT_EQ(reload[2], "ExecReload=/bin/sh -c 'kill -HUP $MAINPID'");
}

TEST_F(LifeTest, options_that_cannot_be_written_are_not_left_half)
{
  const auto full = on_machine("mount -o remount,size=8k /run; head -c 100000 /dev/zero >/run/full; " TANDEM_PROGRAM
                               " up --wifi wlan7; echo $?; ls /run/systemd/system/tandemd.service.d");
  EXPECT_THAT(full.out, testing::EndsWith("\n1\n"));
  EXPECT_THAT(full.err, HasSubstr("50-tandem-up.conf: No space left on device"));
}

// A daemon of root's would know nothing of the exclusions and the budget that the service's user keeps.
TEST_F(LifeTest, in_the_foreground_no_daemon_takes_the_place_of_the_service)
{
  const auto refused = on_machine(TANDEM_PROGRAM " up --foreground -c /nowhere.toml");
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.err, HasSubstr("tandem up`, then `tandem logs --follow`"));
  EXPECT_EQ(on_machine("unshare --net " TANDEM_PROGRAM " up --foreground -c /nowhere.toml").code, 2) << "the daemon's";
}

TEST_F(LifeTest, a_directory_of_the_socket_that_cannot_be_made_is_said_with_its_reason)
{
  const std::string up = " up -c /nowhere.toml";
  const auto refused =
      on_machine("mount -o remount,ro /run && " TANDEM_PROGRAM " --socket /run/other/control.sock" + up);
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.err, HasSubstr("tandem: /run/other: Read-only file system"));
  const auto deep = on_machine(TANDEM_PROGRAM " --socket /run/a/b/control.sock" + up);
  EXPECT_EQ(deep.code, 1);
  EXPECT_THAT(deep.err, HasSubstr("tandem: /run/a/b: No such file or directory; make the directory /run/a"));
}

// It would start, be waited for at the other socket, and be stopped again.
TEST_F(LifeTest, a_daemon_that_would_not_be_found_is_not_started)
{
  for (const char* socket : { "", "--socket /run/other/control.sock " })
  {
    const std::string tandem = std::string { TANDEM_PROGRAM " " } + socket;
    const std::string up = tandem + "up --module offload --set daemon.socket=/run/third/control.sock";
    EXPECT_THAT(asked_by(up), IsEmpty());
    const auto refused = on_machine(up);
    EXPECT_EQ(refused.code, 2) << socket;
    EXPECT_THAT(refused.err, HasSubstr("name its socket by `tandem --socket PATH up`"));
  }
}

TEST_F(LifeTest, the_machines_daemon_is_not_stopped_from_another_network)
{
  // Whoever holds the lock is the daemon.
  const std::string daemon = "mkdir /run/tandem; flock /run/tandem/tandemd.lock sleep 60 & "
                             "echo $! >/run/tandem/tandemd.lock; "
                             "while flock -n /run/tandem/tandemd.lock true; do sleep 0.05; done; ";
  for (const char* command : { "up", "down" })
  {
    const auto done = on_machine(daemon + "unshare --net " TANDEM_PROGRAM " " + command);
    EXPECT_EQ(done.code, 1) << command;
    EXPECT_THAT(done.out, IsEmpty()) << command;
    EXPECT_THAT(done.err, HasSubstr("in another network namespace")) << command;
  }
}

} // namespace
} // namespace tandem::cli
