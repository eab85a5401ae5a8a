// What living connections need while none is placed, in a network namespace of its own.
#include "src/kernel/clock.h"
#include "src/kernel/fd.h"
#include "src/kernel/note_file.h"
#include "src/kernel/rules/placement_rules.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <nlohmann/json.hpp>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace tandem::kernel
{
namespace
{

using namespace std::chrono_literals;

constexpr std::uint16_t port = 9999;

bool done(const char* command)
{
  return std::system((std::string { "(" } + command + ") >/dev/null 2>&1").c_str()) == 0;
}

// With the rights of root in it, for the programs that are run, too.
bool in_namespace_of_ones_own()
{
  const std::string own = "0 " + std::to_string(::getuid()) + " 1";
  if (::geteuid() == 0) return ::unshare(CLONE_NEWNET) == 0;
  return ::unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0 && (std::ofstream { "/proc/self/uid_map" } << own << std::flush);
}

// An earlier run has placed one connection on the second link, which lives.
class PlacerTest : public testing::Test
{
protected:
  void SetUp() override
  {
    if (!in_namespace_of_ones_own()
        || !done("ip link set lo up && ip link add cell9 type veth peer name peer9 && "
                 "ip addr add 192.0.2.2/24 dev cell9 && ip link set peer9 up && ip link set cell9 up && "
                 "ip route add default via 192.0.2.1 dev cell9")
        || !done("nft 'table inet mark_it { chain output { type filter hook output priority -100; "
                 "tcp dport 9999 ct mark set 0x02000000; }; }'"))
      GTEST_SKIP() << "no interfaces or rules of one's own here";
    ASSERT_EQ(plan_.on_wire(2), 0x02000000u);
    for (Fd* fd : { &listener_, &connection_ })
      fd->reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in here {};
    here.sin_family = AF_INET;
    here.sin_port = htons(port);
    here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const auto* address = reinterpret_cast<const sockaddr*>(&here);
    ASSERT_EQ(::bind(listener_.get(), address, sizeof here), 0);
    ASSERT_EQ(::listen(listener_.get(), 1), 0);
    ASSERT_EQ(::connect(connection_.get(), address, sizeof here), 0);
    const JournalPlace place = journal_place();
    const nlohmann::json note { { "boot", place.boot }, { "space", place.space }, { "plan", plan_ } };
    ASSERT_EQ(write_note(file_, note.dump() + "\n"), "");
  }
  void TearDown() override { std::filesystem::remove(file_); }

  static bool keeps_after_some_looks(Placer& placer)
  {
    for (int i = 0; i < 5; ++i)
      static_cast<void>(placer.look(placer.next()));
    return placer.state().kept && !placer.state().in_force;
  }

  const PlacementPlan plan_ { .links = { { .value = 2, .interface = "cell9" } } };
  const std::string file_ = testing::TempDir() + "placed-" + std::to_string(::getpid()) + ".json";
  Fd listener_ {}, connection_ {};
};

// What others take away comes back also while nothing is placed, when looks are ever farther apart.
TEST_F(PlacerTest, TheRuleOfALivingConnectionComesBack)
{
  Placer placer { file_ };
  if (!keeps_after_some_looks(placer)) GTEST_SKIP() << "no connection tracking here: " << placer.state().last_error;
  ASSERT_TRUE(done("ip rule show priority 86 | grep -q fwmark"));
  ASSERT_TRUE(done("ip rule del priority 86"));
  placer.refresh();
  EXPECT_LE(placer.next(), now() + 1s);
  static_cast<void>(placer.look(placer.next()));
  EXPECT_TRUE(done("ip rule show priority 86 | grep -q fwmark"));
}

TEST_F(PlacerTest, TheTableOfALivingConnectionComesBack)
{
  Placer placer { file_ };
  if (!keeps_after_some_looks(placer)) GTEST_SKIP() << "no connection tracking here: " << placer.state().last_error;
  ASSERT_TRUE(done("nft delete table inet tandem_placed"));
  placer.rules_changed();
  EXPECT_LE(placer.next(), now() + 1s);
  static_cast<void>(placer.look(placer.next()));
  EXPECT_TRUE(done("nft list table inet tandem_placed"));
}

} // namespace
} // namespace tandem::kernel
