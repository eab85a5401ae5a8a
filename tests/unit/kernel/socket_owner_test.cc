#include "src/kernel/mptcp/blackhole.h"
#include "src/kernel/socket_owner.h"

#include <gtest/gtest.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

namespace tandem::kernel
{
namespace
{

// A connection over loopback, and its key as the connecting side sees it.
struct Connection
{
  Fd listening { ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0) };
  Fd socket {};
  FlowKey key {};

  explicit Connection(int family, int protocol = 0)
  {
    sockaddr_in here { .sin_family = AF_INET, .sin_port = 0, .sin_addr = { htonl(INADDR_LOOPBACK) }, .sin_zero = {} };
    socklen_t length = sizeof here;
    EXPECT_EQ(::bind(listening.get(), reinterpret_cast<sockaddr*>(&here), length), 0);
    EXPECT_EQ(::listen(listening.get(), 1), 0);
    EXPECT_EQ(::getsockname(listening.get(), reinterpret_cast<sockaddr*>(&here), &length), 0);
    socket = Fd { ::socket(family, SOCK_STREAM | SOCK_CLOEXEC, protocol) };
    key.local.bytes = key.remote.bytes = { 127, 0, 0, 1 };
    key.remote_port = ntohs(here.sin_port);
    if (family == AF_INET)
    {
      EXPECT_EQ(::connect(socket.get(), reinterpret_cast<sockaddr*>(&here), sizeof here), 0);
      EXPECT_EQ(::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&here), &length), 0);
      key.local_port = ntohs(here.sin_port);
      return;
    }
    // As most applications connect: IPv4 by a socket of IPv6.
    sockaddr_in6 mapped {
      .sin6_family = AF_INET6, .sin6_port = here.sin_port, .sin6_flowinfo = 0, .sin6_addr = {}, .sin6_scope_id = 0
    };
    mapped.sin6_addr.s6_addr[10] = mapped.sin6_addr.s6_addr[11] = 0xff;
    std::memcpy(mapped.sin6_addr.s6_addr + 12, &here.sin_addr, 4);
    length = sizeof mapped;
    EXPECT_EQ(::connect(socket.get(), reinterpret_cast<sockaddr*>(&mapped), length), 0);
    EXPECT_EQ(::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&mapped), &length), 0);
    key.local_port = ntohs(mapped.sin6_port);
  }
};

TEST(SocketOwner, IsTheUserWhoMadeTheSocket)
{
  SocketOwners owners {};
  for (const int family : { AF_INET, AF_INET6 })
  {
    const Connection connection { family };
    const auto owner = owners.find(connection.key);
    ASSERT_TRUE(owner) << "does this kernel have inet_diag?";
    EXPECT_EQ(owner->user, ::geteuid());
    FlowKey other = connection.key;
    other.remote.bytes[3] = 2;
    EXPECT_EQ(owners.find(other), std::nullopt);
    EXPECT_EQ(owners.find(connection.key), owner) << "after a question without an answer";
  }
}

TEST(SocketOwner, IsToldOfASocketThatIsBoundToAnInterface)
{
  Connection connection { AF_INET };
  const int loopback = static_cast<int>(::if_nametoindex("lo"));
  ASSERT_GT(loopback, 0);
  SocketOwners owners {};
  const auto owner = owners.find(connection.key, loopback);
  ASSERT_TRUE(owner);
  EXPECT_EQ(owners.find(connection.key), owner) << "as long as it is bound to none, any will do";
  if (::setsockopt(connection.socket.get(), SOL_SOCKET, SO_BINDTODEVICE, "lo", 3) != 0)
    GTEST_SKIP() << "takes CAP_NET_RAW";
  EXPECT_EQ(owners.find(connection.key, loopback), owner);
  EXPECT_NE(owners.find(connection.key), owner);
}

TEST(SocketOwner, SaysWhetherTheApplicationAskedForMptcp)
{
  if (::geteuid() != 0) GTEST_SKIP() << "takes CAP_NET_ADMIN";
  SocketOwners owners {};
  EXPECT_FALSE(owners.find(Connection { AF_INET }.key).value().mptcp);
  const Fd possible { ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_MPTCP) };
  if (!possible) GTEST_SKIP() << "no MPTCP here: " << std::strerror(errno);
  for (const int family : { AF_INET, AF_INET6 })
    EXPECT_TRUE(owners.find(Connection { family, IPPROTO_MPTCP }.key).value().mptcp) << "plain TCP answers it";
}

TEST(Netstat, IsReadByNames)
{
  constexpr std::string_view text = "TcpExt: A Blackhole C\nTcpExt: 1 2 3\nMPTcpExt: X Blackhole Z\nMPTcpExt: 4 5 6\n";
  EXPECT_EQ(netstat_value(text, "MPTcpExt:", "Blackhole"), 5u);
  EXPECT_EQ(netstat_value(text, "TcpExt:", "C"), 3u);
  EXPECT_EQ(netstat_value(text, "MPTcpExt:", "Y"), 0u);
  EXPECT_EQ(netstat_value("MPTcpExt: X Blackhole\nMPTcpExt: 4\n", "MPTcpExt:", "Blackhole"), 0u) << "cut short";
  EXPECT_EQ(netstat_value("MPTcpExt: Blackhole\nMPTcpExt: many\n", "MPTcpExt:", "Blackhole"), 0u);
  EXPECT_EQ(netstat_value("", "MPTcpExt:", "Blackhole"), 0u);
  EXPECT_EQ(mptcp_blackholes("/nowhere"), 0u);
}

TEST(CgroupPath, IsTheDirectoryWithThatInode)
{
  std::string top = testing::TempDir() + "cgroups-XXXXXX";
  ASSERT_NE(::mkdtemp(top.data()), nullptr);
  const std::filesystem::path deep = std::filesystem::path { top } / "system.slice" / "backup.service" / "job";
  std::filesystem::create_directories(deep);
  struct stat status
  {
  };
  ASSERT_EQ(::stat(deep.c_str(), &status), 0);
  EXPECT_EQ(cgroup_path(status.st_ino, top), "/system.slice/backup.service/job");
  ASSERT_EQ(::stat(top.c_str(), &status), 0);
  EXPECT_EQ(cgroup_path(status.st_ino, top), "/");
  EXPECT_EQ(cgroup_path(~0ull, top), "");
  EXPECT_EQ(cgroup_path(1, top + "/nowhere"), "");
}

// As those of services, and of what runs in them, come and go. One that was missed would leave alone nothing.
TEST(CgroupPath, IsFoundWhileOthersGo)
{
  namespace fs = std::filesystem;
  std::string top = testing::TempDir() + "cgroups-XXXXXX";
  ASSERT_NE(::mkdtemp(top.data()), nullptr);
  fs::create_directories(top + "/system.slice/backup.service");
  struct stat status
  {
  };
  ASSERT_EQ(::stat((top + "/system.slice/backup.service").c_str(), &status), 0);
  std::atomic<bool> enough { false };
  std::vector<std::thread> others {};
  for (int number = 0; number < 4; ++number)
    others.emplace_back(
        [&, number]
        {
          for (int i = 0; !enough; i = (i + 1) % 50)
          {
            const std::string one = top + "/run-" + std::to_string(number) + "-" + std::to_string(i) + ".scope";
            ::mkdir(one.c_str(), 0755);
            ::rmdir(one.c_str());
          }
        });
  int missed = 0;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds { 1 };
  while (std::chrono::steady_clock::now() < end)
    missed += cgroup_path(status.st_ino, top) == "/system.slice/backup.service" ? 0 : 1;
  enough = true;
  for (std::thread& one : others)
    one.join();
  EXPECT_EQ(missed, 0);
  fs::remove_all(top);
}

} // namespace
} // namespace tandem::kernel
