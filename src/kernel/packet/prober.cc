#include "src/kernel/packet/prober.h"

#include "src/wire/checksum.h"

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <net/if_arp.h>
#include <netinet/icmp6.h>
#include <netinet/in.h>
#include <netinet/ip_icmp.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <span>

namespace tandem::kernel
{

namespace
{

// Behind unicast fails that often in a row, every eighth probe is for all: the neighbour's address may have changed.
constexpr std::uint32_t unicast_timeout = 8;
// Video class: not behind the queue of a bulk upload (802.11e), and within what needs no CAP_NET_ADMIN.
constexpr int socket_priority = 5;

struct Solicitation
{
  nd_neighbor_solicit head;
  nd_opt_hdr option;
  std::uint8_t mac[6];
};
static_assert(sizeof(Solicitation) == 32);

} // namespace

std::optional<std::array<std::uint8_t, 6>> hardware_address(const std::string& interface)
{
  const Fd any { ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0) };
  ifreq request {};
  interface.copy(request.ifr_name, sizeof request.ifr_name - 1);
  if (!any || ::ioctl(any.get(), SIOCGIFHWADDR, &request) != 0 || request.ifr_hwaddr.sa_family != ARPHRD_ETHER)
    return {};
  std::array<std::uint8_t, 6> mac {};
  std::memcpy(mac.data(), request.ifr_hwaddr.sa_data, mac.size());
  return mac;
}

bool Prober::aim(const Target& target)
{
  if (target == target_ && socket_) return true;
  target_ = target;
  socket_.reset();
  way_ = ProbeWay::none;
  why_ = "no gateway";
  neighbour_.reset();
  unanswered_ = 0;
  const auto fail = [this](const char* what)
  {
    why_ = std::string { what } + ": " + std::strerror(errno);
    socket_.reset();
    return false;
  };
  if (target.ifindex == 0) return false;
  const auto mac = hardware_address(target.interface);
  own_ = mac.value_or(own_);
  const bool ethernet = mac.has_value() && !target.point_to_point;

  if (target.gateway_v4 && target.source_v4 && ethernet)
  {
    socket_.reset(::socket(AF_PACKET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    sockaddr_ll here {};
    here.sll_family = AF_PACKET;
    here.sll_protocol = htons(ETH_P_ARP);
    here.sll_ifindex = target.ifindex;
    if (!socket_ || ::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&here), sizeof here) != 0)
      return fail("open a packet socket for ARP");
    way_ = ProbeWay::arp;
    find_neighbour();
  }
  else if (target.gateway_v6 || target.gateway_v4)
  {
    const bool v6 = target.gateway_v6 && !(target.gateway_v4 && !ethernet);
    const bool solicit = v6 && ethernet;
    socket_.reset(::socket(v6 ? AF_INET6 : AF_INET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC,
                           v6 ? static_cast<int>(IPPROTO_ICMPV6) : static_cast<int>(IPPROTO_ICMP)));
    if (!socket_
        || ::setsockopt(socket_.get(), SOL_SOCKET, SO_BINDTODEVICE, target.interface.c_str(),
                        static_cast<socklen_t>(target.interface.size()))
               != 0)
      return fail("open a raw socket for probes");
    if (v6)
    {
      icmp6_filter filter {};
      ICMP6_FILTER_SETBLOCKALL(&filter);
      ICMP6_FILTER_SETPASS(solicit ? ND_NEIGHBOR_ADVERT : ICMP6_ECHO_REPLY, &filter);
      const int hops = 255; // RFC 4861: a router ignores any other
      if (::setsockopt(socket_.get(), IPPROTO_ICMPV6, ICMP6_FILTER, &filter, sizeof filter) != 0
          || ::setsockopt(socket_.get(), IPPROTO_IPV6, IPV6_UNICAST_HOPS, &hops, sizeof hops) != 0)
        return fail("set up a raw socket for probes");
    }
    way_ = solicit ? ProbeWay::solicitation : ProbeWay::echo;
  }
  else
    return false;
  ::setsockopt(socket_.get(), SOL_SOCKET, SO_PRIORITY, &socket_priority, sizeof socket_priority);
  // The kernel's least: a driver that keeps a handful of probes for an access point that is away gets no more of them.
  const int send_buffer = 1;
  ::setsockopt(socket_.get(), SOL_SOCKET, SO_SNDBUF, &send_buffer, sizeof send_buffer);
  why_.clear();
  return true;
}

std::string_view Prober::way() const
{
  switch (way_)
  {
  case ProbeWay::none:
    return "none";
  case ProbeWay::arp:
    return "arp";
  case ProbeWay::solicitation:
    return "neighbour solicitation";
  case ProbeWay::echo:
    return "echo";
  }
  return "?";
}

void Prober::find_neighbour() noexcept
{
  const Fd any { ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0) };
  arpreq request {};
  sockaddr_in gateway {};
  gateway.sin_family = AF_INET;
  std::memcpy(&gateway.sin_addr, target_.gateway_v4->bytes.data(), 4);
  std::memcpy(&request.arp_pa, &gateway, sizeof gateway);
  target_.interface.copy(request.arp_dev, sizeof request.arp_dev - 1);
  if (!any || ::ioctl(any.get(), SIOCGARP, &request) != 0 || (request.arp_flags & ATF_COM) == 0) return;
  neighbour_.emplace();
  std::memcpy(neighbour_->data(), request.arp_ha.sa_data, neighbour_->size());
}

bool Prober::send() noexcept
{
  ssize_t sent = -1;
  ++unanswered_;
  if (way_ == ProbeWay::arp)
  {
    ArpPacket ask {};
    ask.hardware = htons(ARPHRD_ETHER);
    ask.protocol = htons(ETH_P_IP);
    ask.hardware_length = 6;
    ask.protocol_length = 4;
    ask.operation = htons(ARPOP_REQUEST);
    std::memcpy(ask.sender_mac, own_.data(), 6);
    std::memcpy(ask.sender, target_.source_v4->bytes.data(), 4);
    std::memcpy(ask.target, target_.gateway_v4->bytes.data(), 4);
    sockaddr_ll to {};
    to.sll_family = AF_PACKET;
    to.sll_protocol = htons(ETH_P_ARP);
    to.sll_ifindex = target_.ifindex;
    to.sll_halen = 6;
    if (neighbour_ && (unanswered_ <= unicast_timeout || unanswered_ % unicast_timeout != 0))
      std::memcpy(to.sll_addr, neighbour_->data(), 6);
    else
      std::memset(to.sll_addr, 0xff, 6);
    sent = ::sendto(socket_.get(), &ask, sizeof ask, MSG_DONTWAIT, reinterpret_cast<const sockaddr*>(&to), sizeof to);
  }
  else if (way_ != ProbeWay::none && target_.gateway_v6 && (way_ == ProbeWay::solicitation || !target_.gateway_v4))
  {
    sockaddr_in6 to {};
    to.sin6_family = AF_INET6;
    to.sin6_scope_id = static_cast<std::uint32_t>(target_.ifindex);
    std::memcpy(&to.sin6_addr, target_.gateway_v6->bytes.data(), 16);
    if (way_ == ProbeWay::solicitation)
    {
      Solicitation ask {};
      ask.head.nd_ns_type = ND_NEIGHBOR_SOLICIT;
      std::memcpy(&ask.head.nd_ns_target, &to.sin6_addr, 16);
      ask.option = { .nd_opt_type = ND_OPT_SOURCE_LINKADDR, .nd_opt_len = 1 };
      std::memcpy(ask.mac, own_.data(), 6);
      sent = ::sendto(socket_.get(), &ask, sizeof ask, MSG_DONTWAIT, reinterpret_cast<const sockaddr*>(&to), sizeof to);
    }
    else
    {
      icmp6_hdr ask {};
      ask.icmp6_type = ICMP6_ECHO_REQUEST;
      ask.icmp6_id = htons(static_cast<std::uint16_t>(::getpid()));
      ask.icmp6_seq = htons(++sequence_);
      sent = ::sendto(socket_.get(), &ask, sizeof ask, MSG_DONTWAIT, reinterpret_cast<const sockaddr*>(&to), sizeof to);
    }
  }
  else if (way_ == ProbeWay::echo)
  {
    icmphdr ask {};
    ask.type = ICMP_ECHO;
    ask.un.echo.id = htons(static_cast<std::uint16_t>(::getpid()));
    ask.un.echo.sequence = htons(++sequence_);
    ask.checksum = htons(wire::checksum(std::as_bytes(std::span { &ask, 1 })));
    sockaddr_in to {};
    to.sin_family = AF_INET;
    std::memcpy(&to.sin_addr, target_.gateway_v4->bytes.data(), 4);
    sent = ::sendto(socket_.get(), &ask, sizeof ask, MSG_DONTWAIT, reinterpret_cast<const sockaddr*>(&to), sizeof to);
  }
  return sent > 0;
}

int Prober::receive() noexcept
{
  if (way_ == ProbeWay::none) return 0;
  int answers = 0;
  for (int i = 0; i < 64; ++i)
  {
    std::array<std::uint8_t, 256> buffer {};
    sockaddr_storage from {};
    socklen_t from_length = sizeof from;
    const ssize_t count = ::recvfrom(socket_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT,
                                     reinterpret_cast<sockaddr*>(&from), &from_length);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) break; // also ENETDOWN, once, when the interface goes down
    const ProbeAnswer answer =
        read_answer(way_, from.ss_family == AF_INET6, { buffer.data(), static_cast<std::size_t>(count) },
                    { .source_v4 = target_.source_v4,
                      .gateway_v4 = target_.gateway_v4,
                      .gateway_v6 = target_.gateway_v6,
                      .identifier = static_cast<std::uint16_t>(::getpid()) });
    if (answer.neighbour) neighbour_ = answer.neighbour;
    answers += answer.ours ? 1 : 0;
  }
  if (answers > 0) unanswered_ = 0;
  return answers;
}

} // namespace tandem::kernel
