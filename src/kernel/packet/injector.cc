#include "src/kernel/packet/injector.h"

#include "src/kernel/check.h"
#include "src/kernel/fd.h"

#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace tandem::kernel
{

namespace
{

struct Sockets
{
  Fd v4 {};
  Fd v6 {};
  bool bound = false; // may send; false: the interface was not there when asked
};

Fd open_raw(int family, std::uint32_t mark)
{
  Fd fd { static_cast<int>(check("open a raw socket (needs root or CAP_NET_RAW)",
                                 ::socket(family, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_RAW))) };
  int one = 1;
  if (family == AF_INET)
    check("set IP_HDRINCL", setsockopt(fd.get(), IPPROTO_IP, IP_HDRINCL, &one, sizeof one));
  else
    check("set IPV6_HDRINCL", setsockopt(fd.get(), IPPROTO_IPV6, IPV6_HDRINCL, &one, sizeof one));
  check("set SO_MARK on a raw socket (needs root or CAP_NET_ADMIN)",
        setsockopt(fd.get(), SOL_SOCKET, SO_MARK, &mark, sizeof mark));
  // Only for sending: a raw socket of protocol IPPROTO_RAW receives nothing, so its buffer may be tiny.
  int tiny = 0;
  setsockopt(fd.get(), SOL_SOCKET, SO_RCVBUF, &tiny, sizeof tiny);
  return fd;
}

Sockets open_both(std::uint32_t mark)
{
  Sockets both {};
  both.v4 = open_raw(AF_INET, mark);
  try
  {
    both.v6 = open_raw(AF_INET6, mark);
  }
  catch (const std::exception&)
  {
    both.v6 = {}; // a kernel without IPv6 has no IPv6 flows either
  }
  return both;
}

} // namespace

struct Injector::Parts
{
  Marks marks {};
  std::array<Sockets, link_count> sockets {};
  std::array<Stats, link_count> stats {};

  int send(std::span<const std::byte> packet, Sockets& by) noexcept
  {
    if (!by.bound) return ENODEV;
    if (packet.empty()) return EINVAL;
    unsigned version = std::to_integer<unsigned>(packet[0]) >> 4;
    ssize_t sent;
    if (version == 4 && packet.size() >= 20)
    {
      sockaddr_in to {};
      to.sin_family = AF_INET;
      std::memcpy(&to.sin_addr, packet.data() + 16, 4);
      sent =
          sendto(by.v4.get(), packet.data(), packet.size(), MSG_DONTWAIT, reinterpret_cast<sockaddr*>(&to), sizeof to);
    }
    else if (version == 6 && packet.size() >= 40)
    {
      if (!by.v6) return EAFNOSUPPORT;
      sockaddr_in6 to {};
      to.sin6_family = AF_INET6;
      std::memcpy(&to.sin6_addr, packet.data() + 24, 16);
      sent =
          sendto(by.v6.get(), packet.data(), packet.size(), MSG_DONTWAIT, reinterpret_cast<sockaddr*>(&to), sizeof to);
    }
    else
      return EINVAL;
    return sent < 0 ? errno : 0;
  }
};

Injector::Injector(const Marks& marks) : parts_ { std::make_unique<Parts>() }
{
  parts_->marks = marks;
}

Injector::~Injector() = default;

void Injector::bind(Link link, const std::string& interface)
{
  Sockets& by = parts_->sockets[static_cast<std::size_t>(link)];
  by = {};
  if (interface.empty()) return;
  std::uint32_t mark = parts_->marks.injected.value;
  if (link == Link::cell) mark = parts_->marks.by_cell.on(mark);
  by = open_both(mark);
  for (const Fd* fd : { &by.v4, &by.v6 })
  {
    if (!*fd) continue;
    const auto size = static_cast<socklen_t>(interface.size() + 1);
    if (setsockopt(fd->get(), SOL_SOCKET, SO_BINDTODEVICE, interface.c_str(), size) == 0) continue;
    // The interface may go between any two calls. It stays unbound: send() says ENODEV until bound again.
    if (errno == ENODEV) return;
    fail("bind a raw socket to " + interface, errno);
  }
  by.bound = true;
}

void Injector::follow_routes(Link link)
{
  Sockets& by = parts_->sockets[static_cast<std::size_t>(link)];
  by = open_both(parts_->marks.injected.value);
  by.bound = true;
}

int Injector::send(std::span<const std::byte> packet, Link link) noexcept
{
  auto at = static_cast<std::size_t>(link);
  int code = parts_->send(packet, parts_->sockets[at]);
  Stats& s = parts_->stats[at];
  if (code == 0)
  {
    ++s.packets;
    s.bytes += packet.size();
  }
  else
  {
    ++s.failures;
    s.last_error = code;
  }
  return code;
}

const Injector::Stats& Injector::stats(Link link) const
{
  return parts_->stats[static_cast<std::size_t>(link)];
}

} // namespace tandem::kernel
