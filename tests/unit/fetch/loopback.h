// Real sockets on a network of the test's own: for what owns sockets and cannot be given others.
#pragma once

#include "src/kernel/fd.h"

#include <tandem/segment.h>

#include <arpa/inet.h>
#include <boost/asio/io_context.hpp>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>

namespace tandem::fetch::test
{

using namespace std::chrono_literals;

constexpr Address this_host { .bytes = { 127, 0, 0, 1 } };

inline std::vector<std::byte> bytes(std::string_view text)
{
  const auto all = std::as_bytes(std::span { text.data(), text.size() });
  return { all.begin(), all.end() };
}

// From now on this process has a network of its own, with the loopback device alone. False: it may not.
inline bool own_network()
{
  static const bool made = []
  {
    // A user namespace takes a process with one thread, which one under ThreadSanitizer is not; root needs none.
    if (::unshare(CLONE_NEWNET) != 0 && ::unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) return false;
    const kernel::Fd any { ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0) };
    ifreq loopback {};
    std::strcpy(loopback.ifr_name, "lo");
    loopback.ifr_flags = IFF_UP | IFF_RUNNING;
    return ::ioctl(any.get(), SIOCSIFFLAGS, &loopback) == 0;
  }();
  return made;
}

// The descriptors that a program started by this process would have, too.
inline std::set<int> inherited()
{
  std::set<int> all {};
  for (const auto& entry : std::filesystem::directory_iterator { "/proc/self/fd" })
  {
    const int number = std::stoi(entry.path().filename());
    const int flags = ::fcntl(number, F_GETFD); // of the one by which this is read, too
    if (flags >= 0 && (flags & FD_CLOEXEC) == 0) all.insert(number);
  }
  return all;
}

inline sockaddr_in here(std::uint16_t port)
{
  sockaddr_in at {};
  at.sin_family = AF_INET;
  at.sin_port = htons(port);
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return at;
}

inline std::uint16_t local_port(const kernel::Fd& socket)
{
  sockaddr_in at {};
  socklen_t size = sizeof at;
  if (::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&at), &size) != 0) throw std::runtime_error { "no port" };
  return ntohs(at.sin_port);
}

// Whoever accepts, reads and writes here does not wait: until() does.
inline kernel::Fd listening(std::uint16_t port = 0)
{
  kernel::Fd socket { ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0) };
  const sockaddr_in at = here(port);
  const int on = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0 || ::listen(socket.get(), 8) != 0)
    throw std::runtime_error { "no listener" };
  return socket;
}

class LoopbackTest : public ::testing::Test
{
protected:
  void SetUp() override
  {
    if (!own_network()) GTEST_SKIP() << "no network namespace can be made here";
    listener = listening();
    port = local_port(listener);
  }

  // Runs what `context` has to do until `done` says true.
  template <class Done>
  bool until(Done&& done, std::chrono::milliseconds limit = 10s)
  {
    const auto end = std::chrono::steady_clock::now() + limit;
    while (!done())
    {
      if (std::chrono::steady_clock::now() > end) return false;
      context.restart();
      context.poll();
      std::this_thread::sleep_for(1ms);
    }
    return true;
  }

  kernel::Fd accepted()
  {
    kernel::Fd socket {};
    until([&]
          { return (socket = kernel::Fd { ::accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK) }).get() >= 0; });
    return socket;
  }
  // What has come, as soon as it ends with an empty line.
  std::string heard(const kernel::Fd& socket)
  {
    std::string text {};
    until(
        [&]
        {
          char more[4096];
          const ssize_t size = ::recv(socket.get(), more, sizeof more, MSG_DONTWAIT);
          if (size > 0) text.append(more, static_cast<std::size_t>(size));
          return text.ends_with("\r\n\r\n");
        });
    return text;
  }
  bool say(const kernel::Fd& socket, std::string_view text)
  {
    return until(
        [&]
        {
          const ssize_t size = ::send(socket.get(), text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
          if (size > 0) text.remove_prefix(static_cast<std::size_t>(size));
          return text.empty();
        });
  }

  boost::asio::io_context context {};
  kernel::Fd listener {};
  std::uint16_t port = 0;
};

} // namespace tandem::fetch::test
