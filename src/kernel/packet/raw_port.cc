#include "src/kernel/packet/raw_port.h"

#include "src/kernel/check.h"
#include "src/kernel/packet/bpf.h"
#include "src/kernel/packet/packet_socket.h"
#include "src/kernel/socket_address.h"

#include <ifaddrs.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

namespace tandem::kernel
{

namespace
{

// A merged super-packet may be longer; GRO stops at 64 KiB unless big TCP was switched on, and then the segment is
// left out (it comes again).
constexpr std::size_t largest_packet = 65536 + 64;

std::uint32_t word(const Address& address, std::size_t at)
{
  std::uint32_t value;
  std::memcpy(&value, address.bytes.data() + at, 4);
  return ntohl(value);
}

// Only the first fragment of TCP between these two ends: everything else is refused. Every comparison that fails jumps
// to the last instruction.
BpfProgram conversation_filter(const FlowKey& key)
{
  BpfProgram code;
  const auto load = [&](std::uint16_t size, std::uint32_t at) {
    code.push_back({ static_cast<std::uint16_t>(BPF_LD | size | BPF_ABS), 0, 0, at });
  };
  const auto must_be = [&](std::uint32_t value) { code.push_back({ BPF_JMP | BPF_JEQ | BPF_K, 0, 1, value }); };
  const auto addresses = [&](std::uint32_t at)
  {
    const std::size_t words = key.local.v6 ? 4 : 1;
    for (const Address* address : { &key.remote, &key.local })
      for (std::size_t i = 0; i < words; ++i, at += 4)
      {
        load(BPF_W, at);
        must_be(word(*address, 4 * i));
      }
  };
  const std::uint32_t ports = static_cast<std::uint32_t>(key.remote_port) << 16 | key.local_port;
  load(BPF_B, 0);
  code.push_back({ BPF_ALU | BPF_RSH | BPF_K, 0, 0, 4 });
  must_be(key.local.v6 ? 6 : 4);
  if (key.local.v6)
  {
    load(BPF_B, 6);
    must_be(IPPROTO_TCP); // a server that puts extension headers before TCP is not heard
    addresses(8);
    load(BPF_W, 40);
    must_be(ports);
  }
  else
  {
    load(BPF_B, 9);
    must_be(IPPROTO_TCP);
    load(BPF_H, 6);
    code.push_back({ BPF_JMP | BPF_JSET | BPF_K, 1, 0, 0x1fff });
    addresses(12);
    code.push_back({ BPF_LDX | BPF_B | BPF_MSH, 0, 0, 0 });
    code.push_back({ BPF_LD | BPF_W | BPF_IND, 0, 0, 0 });
    must_be(ports);
  }
  code.push_back({ BPF_RET | BPF_K, 0, 0, 0xffffffffu });
  code.push_back({ BPF_RET | BPF_K, 0, 0, 0 });
  const std::size_t refuse = code.size() - 1;
  for (std::size_t i = 0; i < refuse; ++i)
  {
    sock_filter& jump = code[i];
    if (BPF_CLASS(jump.code) != BPF_JMP) continue;
    const auto away = static_cast<std::uint8_t>(refuse - i - 1);
    if (jump.jf == 1) jump.jf = away;
    if (jump.jt == 1) jump.jt = away;
  }
  return code;
}

} // namespace

std::optional<Address> global_address(const std::string& interface, bool v6)
{
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0) return {};
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> all { list, freeifaddrs };
  for (const ifaddrs* at = list; at != nullptr; at = at->ifa_next)
  {
    const auto address = interface == at->ifa_name ? read_address(at->ifa_addr) : std::nullopt;
    if (address && address->v6 == v6 && !is_link_local(*address)) return address;
  }
  return {};
}

std::size_t packet_limit(const std::string& interface) noexcept
{
  const Fd any { ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0) };
  ifreq request {};
  interface.copy(request.ifr_name, sizeof request.ifr_name - 1);
  if (!any || ::ioctl(any.get(), SIOCGIFMTU, &request) != 0 || request.ifr_mtu < 0) return 0;
  return static_cast<std::size_t>(request.ifr_mtu);
}

RawPort::RawPort(const std::string& interface, const Marks& marks, const Address& local, const Address& remote,
                 std::uint16_t remote_port)
    : injector_ { marks }, buffer_(largest_packet)
{
  const int ifindex = static_cast<int>(if_nametoindex(interface.c_str()));
  if (ifindex == 0) fail("take a port on " + interface, errno);
  const int family = local.v6 ? AF_INET6 : AF_INET;
  listener_ = Fd { static_cast<int>(
      check("open the socket that holds a port", ::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0))) };
  SocketAddress here = socket_address(local, 0);
  check("take a port on " + interface, ::bind(listener_.get(), here.get(), here.size));
  here.size = sizeof here.storage;
  check("learn the port taken", ::getsockname(listener_.get(), here.get(), &here.size));
  key_ = { .local = local, .remote = remote, .remote_port = remote_port };
  key_.local_port = read_port(here);
  // First the filter, then listening: not one packet is answered in between.
  attach_filter(listener_, { { BPF_RET | BPF_K, 0, 0, 0 } }, "close the held port to the kernel's TCP");
  check("hold the port", ::listen(listener_.get(), 1));

  packets_ = open_packet_socket(8 * 1024 * 1024); // a server that is not withheld sends in large bursts
  attach_filter(packets_, conversation_filter(key_), "attach the filter of a mirror connection");
  // Arriving packets only.
  bind_packet_socket(packets_, ifindex, local.v6 ? ETH_P_IPV6 : ETH_P_IP, interface);
  injector_.bind(Link::cell, interface);
}

std::optional<RawArrival> RawPort::next() noexcept
{
  iovec part { buffer_.data(), buffer_.size() };
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(tpacket_auxdata))> control {};
  msghdr header {};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = control.data();
  header.msg_controllen = control.size();
  ssize_t length;
  do
    length = ::recvmsg(packets_.get(), &header, MSG_DONTWAIT | MSG_TRUNC);
  while (length < 0 && errno == EINTR);
  if (length < 0)
  {
    gone_ = errno == ENETDOWN || errno == ENODEV || errno == ENXIO;
    return {};
  }
  RawArrival arrival;
  if (static_cast<std::size_t>(length) > buffer_.size()) return arrival; // cut: of no use
  arrival.bytes = { buffer_.data(), static_cast<std::size_t>(length) };
  for (cmsghdr* c = CMSG_FIRSTHDR(&header); c != nullptr; c = CMSG_NXTHDR(&header, c))
  {
    if (c->cmsg_level != SOL_PACKET || c->cmsg_type != PACKET_AUXDATA) continue;
    tpacket_auxdata aux;
    std::memcpy(&aux, CMSG_DATA(c), sizeof aux);
    arrival.checksum_verified = (aux.tp_status & (TP_STATUS_CSUM_VALID | TP_STATUS_CSUMNOTREADY)) != 0;
  }
  return arrival;
}

} // namespace tandem::kernel
