#include "tests/unit/tandem/run.h"
#include "tools/tandem/life.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

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
    std::ofstream { directory / "systemctl" } << "#!/bin/sh\necho \"$@\" >>" << asked_file().string() << '\n';
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
