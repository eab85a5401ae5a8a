#include "src/kernel/packet/raw_sockets.h"

#include "src/kernel/check.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <exception>

namespace tandem::kernel
{

namespace
{

Fd open_raw(int family, std::uint32_t mark)
{
  Fd fd { static_cast<int>(check("open a raw socket (needs root or CAP_NET_RAW)",
                                 ::socket(family, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_RAW))) };
  const int one = 1;
  if (family == AF_INET)
    check("set IP_HDRINCL", setsockopt(fd.get(), IPPROTO_IP, IP_HDRINCL, &one, sizeof one));
  else
    check("set IPV6_HDRINCL", setsockopt(fd.get(), IPPROTO_IPV6, IPV6_HDRINCL, &one, sizeof one));
  check("set SO_MARK on a raw socket (needs root or CAP_NET_ADMIN)",
        setsockopt(fd.get(), SOL_SOCKET, SO_MARK, &mark, sizeof mark));
  // Only for sending: a raw socket of protocol IPPROTO_RAW receives nothing, so its buffer may be tiny.
  const int tiny = 0;
  setsockopt(fd.get(), SOL_SOCKET, SO_RCVBUF, &tiny, sizeof tiny);
  return fd;
}

} // namespace

RawSockets::RawSockets(std::uint32_t mark) : v4_ { open_raw(AF_INET, mark) }
{
  try
  {
    v6_ = open_raw(AF_INET6, mark);
  }
  catch (const std::exception&)
  {
    // A kernel without IPv6 has no IPv6 flows either.
  }
}

bool RawSockets::bind(const std::string& interface)
{
  for (const Fd* fd : { &v4_, &v6_ })
  {
    if (!*fd) continue;
    const auto size = static_cast<socklen_t>(interface.size() + 1);
    if (setsockopt(fd->get(), SOL_SOCKET, SO_BINDTODEVICE, interface.c_str(), size) == 0) continue;
    if (errno == ENODEV) return false;
    fail("bind a raw socket to " + interface, errno);
  }
  return true;
}

int RawSockets::send(std::span<const std::byte> packet) noexcept
{
  if (!v4_) return ENODEV;
  if (packet.empty()) return EINVAL;
  const unsigned version = std::to_integer<unsigned>(packet[0]) >> 4;
  ssize_t sent = -1;
  if (version == 4 && packet.size() >= 20)
  {
    sockaddr_in to {};
    to.sin_family = AF_INET;
    std::memcpy(&to.sin_addr, packet.data() + 16, 4);
    sent = sendto(v4_.get(), packet.data(), packet.size(), MSG_DONTWAIT, reinterpret_cast<sockaddr*>(&to), sizeof to);
  }
  else if (version == 6 && packet.size() >= 40)
  {
    if (!v6_) return EAFNOSUPPORT;
    sockaddr_in6 to {};
    to.sin6_family = AF_INET6;
    std::memcpy(&to.sin6_addr, packet.data() + 24, 16);
    sent = sendto(v6_.get(), packet.data(), packet.size(), MSG_DONTWAIT, reinterpret_cast<sockaddr*>(&to), sizeof to);
  }
  else
    return EINVAL;
  return sent < 0 ? errno : 0;
}

} // namespace tandem::kernel
