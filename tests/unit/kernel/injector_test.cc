// A hot-unplug as the injector meets it: the interface goes between any two system calls. A binary of its own, because
// it replaces socket() and setsockopt().
#include "src/kernel/packet/injector.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <map>
#include <set>

namespace
{

std::map<int, int> family_of; // of the sockets opened since the test began
std::set<int> unplugged;      // families whose sockets find no interface any more

} // namespace

extern "C"
{
  // Neither needs a permission here: what is opened is a Unix socket, and no option is set.
  int socket(int family, int, int)
  {
    const int fd = static_cast<int>(syscall(SYS_socket, AF_UNIX, SOCK_DGRAM, 0));
    family_of[fd] = family;
    return fd;
  }

  int setsockopt(int fd, int, int option, const void*, socklen_t)
  {
    if (option != SO_BINDTODEVICE || !unplugged.contains(family_of[fd])) return 0;
    errno = ENODEV;
    return -1;
  }
}

namespace tandem::kernel
{
namespace
{

constexpr std::array<std::byte, 40> v4_packet { std::byte { 0x45 } };
constexpr std::array<std::byte, 40> v6_packet { std::byte { 0x60 } };

class InjectorTest : public testing::TestWithParam<std::set<int>>
{
protected:
  void SetUp() override { unplugged = GetParam(); }
  void TearDown() override { unplugged.clear(); }
};

// The daemon binds anew inside a callback of its loop, where an exception would end it.
TEST_P(InjectorTest, an_interface_that_goes_while_it_is_bound_leaves_the_link_closed)
{
  Injector injector { {} };
  ASSERT_NO_THROW(injector.bind(Link::wifi, "wlan0"));
  EXPECT_EQ(injector.send(v4_packet, Link::wifi), ENODEV);
  EXPECT_EQ(injector.send(v6_packet, Link::wifi), ENODEV);
}

TEST_P(InjectorTest, it_is_bound_again_when_the_interface_is_back)
{
  Injector injector { {} };
  ASSERT_NO_THROW(injector.bind(Link::wifi, "wlan0"));
  unplugged.clear();
  injector.bind(Link::wifi, "wlan0");
  // The Unix socket cannot send it either, but it is asked to.
  EXPECT_NE(injector.send(v6_packet, Link::wifi), ENODEV);
  EXPECT_NE(injector.send(v6_packet, Link::wifi), 0);
}

INSTANTIATE_TEST_SUITE_P(unplugged, InjectorTest,
                         testing::Values(std::set<int> { AF_INET, AF_INET6 }, std::set<int> { AF_INET6 },
                                         std::set<int> { AF_INET }));

} // namespace
} // namespace tandem::kernel
