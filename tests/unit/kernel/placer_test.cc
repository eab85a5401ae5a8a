// What living connections need while none is placed, and what waits in a queue meanwhile, in a network namespace of its
// own.
#include "src/kernel/clock.h"
#include "src/kernel/fd.h"
#include "src/kernel/note_file.h"
#include "src/kernel/rules/placement_rules.h"
#include "tests/unit/kernel/own_namespace.h"
#include "tests/unit/kernel/waiting_packets.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <nlohmann/json.hpp>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>

namespace tandem::kernel
{
namespace
{

using namespace std::chrono_literals;

constexpr std::uint16_t port = 9999;

using test::done;

// An earlier run has placed one connection on the second link, which lives.
class PlacerTest : public testing::Test
{
protected:
  void SetUp() override
  {
    if (!test::in_namespace_of_ones_own()
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

  bool three_wait() { return packets_.begin(); }
  std::uint32_t waiting() const { return packets_.count(); }
  std::string noted() const
  {
    std::ifstream in { file_ };
    return { std::istreambuf_iterator<char> { in }, {} };
  }
  static sockaddr_in at(std::uint32_t address, std::uint16_t its)
  {
    sockaddr_in all {};
    all.sin_family = AF_INET;
    all.sin_port = htons(its);
    all.sin_addr.s_addr = htonl(address);
    return all;
  }
  // Connections that leave home, and are never answered.
  static void begin(int connections)
  {
    for (int i = 0; i < connections; ++i)
    {
      const Fd one { ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0) };
      const sockaddr_in to = at(0xc633'6401 + static_cast<std::uint32_t>(i), 443); // 198.51.100.1 ..
      ::connect(one.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to);
    }
  }
  static std::uint64_t begun(Placer& placer)
  {
    static_cast<void>(placer.look(placer.next()));
    return placer.state().count.at(placed_at_home).connections;
  }
  PlacementPlan choosing() const
  {
    PlacementPlan plan = plan_;
    plan.choose = true;
    plan.home = "cell9";
    plan.home_addresses = { "192.0.2.2" };
    plan.links = { { .value = 2, .interface = "peer9" } };
    plan.turns_v4 = { placed_at_home };
    return plan;
  }

  static bool keeps_after_some_looks(Placer& placer)
  {
    for (int i = 0; i < 5; ++i)
      static_cast<void>(placer.look(placer.next()));
    return placer.state().kept && !placer.state().in_force;
  }

  const PlacementPlan plan_ { .links = { { .value = 2, .interface = "cell9" } } };
  const std::string file_ = testing::TempDir() + "placed-" + std::to_string(::getpid()) + ".json";
  Fd listener_ {}, connection_ {};
  test::WaitingPackets packets_ {};
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

// With any hook that goes the kernel drops what waits in every queue.
TEST_F(PlacerTest, WhenConnectionsAreLetGoNothingThatWaitsIsDropped)
{
  Placer placer { file_ };
  if (!keeps_after_some_looks(placer)) GTEST_SKIP() << "no connection tracking here: " << placer.state().last_error;
  if (!three_wait()) GTEST_SKIP() << "no queues here";
  placer.packets_wait(true);
  placer.carry_out({ .choose = false, .let_go = true });
  EXPECT_EQ(waiting(), 3u);
  EXPECT_FALSE(placer.state().kept);
  EXPECT_FALSE(done("nft list table inet tandem_placed | grep -q -E 'vmap|masquerade'"))
      << "its rules are out of force";
  EXPECT_FALSE(done("ip rule show priority 86 | grep -q fwmark"));
  EXPECT_NE(noted(), "") << "the next start takes the table away";
  placer.packets_wait(false);
  EXPECT_FALSE(done("nft list table inet tandem_placed"));
  EXPECT_EQ(noted(), "");
}

// Of kernels without table owners the one that chooses, too.
TEST_F(PlacerTest, WhatAKilledRunLeftGoesWithTheQueuesOwnRulesAndNothingThatWaitsIsDropped)
{
  for (const char* table : { "tandem_place", "tandem_placed" })
    if (!done("nft 'table inet " + std::string { table }
              + " { chain output { type route hook output priority -160; meta mark set 7; }; }'"))
      GTEST_SKIP();
  const JournalPlace place = journal_place();
  const nlohmann::json note { { "boot", place.boot }, { "space", place.space }, { "plan", PlacementPlan {} } };
  ASSERT_EQ(write_note(file_, note.dump() + "\n"), "");
  const bool wait = three_wait();
  Placer placer { file_ };
  EXPECT_EQ(placer.state().last_error, "");
  if (wait)
  {
    EXPECT_EQ(waiting(), 3u) << "another program's";
  }
  EXPECT_FALSE(done("nft list ruleset | grep -q 'mark set 0x00000007'")) << "the rules are out of force";
  EXPECT_NE(noted(), "") << "the next start takes the tables away";
  placer.packets_wait(true);
  placer.packets_wait(false);
  EXPECT_FALSE(done("nft list ruleset | grep -q tandem_place"));
  EXPECT_EQ(noted(), "");
}

TEST_F(PlacerTest, WhatAKilledRunLeftIsGoneAtTheEnd)
{
  if (!done("nft 'table inet tandem_placed { chain output { type route hook output priority -160; }; }'")) GTEST_SKIP();
  ASSERT_EQ(write_note(file_, "not JSON\n"), "");
  Placer::clear(file_);
  EXPECT_FALSE(done("nft list table inet tandem_placed"));
  EXPECT_EQ(noted(), "");
}

TEST_F(PlacerTest, ConnectionsBegunSinceTheLastLookAreCountedAtTheEnd)
{
  Placer placer { file_ };
  if (!keeps_after_some_looks(placer)) GTEST_SKIP() << "no connection tracking here: " << placer.state().last_error;
  placer.carry_out(choosing());
  ASSERT_TRUE(placer.state().in_force) << placer.state().why;
  begin(3);
  placer.carry_out(plan_);
  EXPECT_EQ(placer.state().count.at(placed_at_home).connections, 3u);
}

TEST_F(PlacerTest, WhenNoMoreArePlacedNothingThatWaitsIsDroppedAndNoneIsCountedTwice)
{
  Placer placer { file_ };
  if (!keeps_after_some_looks(placer)) GTEST_SKIP() << "no connection tracking here: " << placer.state().last_error;
  placer.carry_out(choosing());
  ASSERT_TRUE(placer.state().in_force) << placer.state().why;
  begin(3);
  ASSERT_EQ(begun(placer), 3u);
  if (!three_wait()) GTEST_SKIP() << "no queues here";
  placer.packets_wait(true);
  placer.carry_out(plan_);
  EXPECT_EQ(waiting(), 3u);
  EXPECT_FALSE(placer.state().in_force);
  begin(2);
  EXPECT_EQ(begun(placer), 3u) << "none was placed";
  placer.carry_out(choosing());
  begin(1);
  EXPECT_EQ(begun(placer), 4u);
  placer.carry_out(plan_);
  EXPECT_EQ(waiting(), 3u);
  placer.packets_wait(false);
  EXPECT_FALSE(done("nft list table inet tandem_place"));
  // The counters of a new table begin anew.
  placer.carry_out(choosing());
  begin(7);
  EXPECT_EQ(begun(placer), 11u);
}

} // namespace
} // namespace tandem::kernel
