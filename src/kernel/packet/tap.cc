#include "src/kernel/packet/tap.h"

#include "src/kernel/check.h"
#include "src/kernel/clock.h"
#include "src/kernel/packet/packet_socket.h"

#include <arpa/inet.h>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace tandem::kernel
{

namespace
{

constexpr std::size_t read_at_once = 16;
constexpr std::size_t largest = 65536; // a merged super-packet
constexpr std::size_t control_size = CMSG_SPACE(sizeof(tpacket_auxdata));

using Program = std::vector<sock_filter>;

void op(Program& program, unsigned code, std::uint32_t k)
{
  program.push_back({ static_cast<std::uint16_t>(code), 0, 0, k });
}

// Skips the next instruction, which leaves the program, when the value is `k`.
void only(Program& program, unsigned jump, std::uint32_t k, bool when)
{
  program.push_back({ static_cast<std::uint16_t>(BPF_JMP | jump | BPF_K), static_cast<std::uint8_t>(when ? 1 : 0),
                      static_cast<std::uint8_t>(when ? 0 : 1), k });
  op(program, BPF_RET | BPF_K, 0);
}

// TCP of one version, an unfragmented packet or the first fragment, whose source or destination port is one of them.
Program of_version(bool v6, std::span<const std::uint16_t> ports)
{
  Program program {};
  op(program, BPF_LD | BPF_B | BPF_ABS, v6 ? 6 : 9);
  only(program, BPF_JEQ, IPPROTO_TCP, true);
  if (!v6)
  {
    op(program, BPF_LD | BPF_H | BPF_ABS, 6);
    only(program, BPF_JSET, 0x1fff, false);
    op(program, BPF_LDX | BPF_B | BPF_MSH, 0);
  }
  for (const std::uint32_t field : { 0u, 2u })
  {
    if (v6)
      op(program, BPF_LD | BPF_H | BPF_ABS, 40 + field);
    else
      op(program, BPF_LD | BPF_H | BPF_IND, field);
    for (const std::uint16_t port : ports)
    {
      program.push_back({ BPF_JMP | BPF_JEQ | BPF_K, 0, 1, port });
      op(program, BPF_RET | BPF_K, 0x4'0000);
    }
  }
  op(program, BPF_RET | BPF_K, 0);
  return program;
}

Program filter_for(std::span<const std::uint16_t> ports)
{
  const Program v4 = of_version(false, ports), v6 = of_version(true, ports);
  Program program {};
  op(program, BPF_LD | BPF_B | BPF_ABS, 0);
  op(program, BPF_ALU | BPF_RSH | BPF_K, 4);
  program.push_back({ BPF_JMP | BPF_JEQ | BPF_K, 0, static_cast<std::uint8_t>(v4.size()), 4 });
  program.insert(program.end(), v4.begin(), v4.end());
  only(program, BPF_JEQ, 6, true);
  program.insert(program.end(), v6.begin(), v6.end());
  return program;
}

} // namespace

struct Tap::Parts
{
  Fd socket {};
  std::vector<std::byte> memory = std::vector<std::byte>(read_at_once * largest);
  std::array<mmsghdr, read_at_once> messages {};
  std::array<iovec, read_at_once> vectors {};
  std::array<sockaddr_ll, read_at_once> addresses {};
  alignas(cmsghdr) std::array<std::array<char, control_size>, read_at_once> controls {};
  std::uint64_t faults = 0; // of the sink, since dropped()
};

Tap::Tap(const std::string& interface, std::span<const std::uint16_t> ports) : parts_ { std::make_unique<Parts>() }
{
  if (ports.empty() || ports.size() > most_ports)
    throw std::invalid_argument { "1 to " + std::to_string(most_ports) + " ports can be followed, not "
                                  + std::to_string(ports.size()) };
  Parts& p = *parts_;
  const int ifindex = static_cast<int>(if_nametoindex(interface.c_str()));
  if (ifindex == 0) fail("tap interface " + interface, errno);
  p.socket = open_packet_socket(8 * 1024 * 1024);
  attach_filter(p.socket, filter_for(ports), "attach the port filter on " + interface);
  bind_packet_socket(p.socket, ifindex, ETH_P_ALL, interface); // ETH_P_IP would miss what leaves
  for (std::size_t i = 0; i < read_at_once; ++i)
  {
    p.vectors[i] = { p.memory.data() + i * largest, largest };
    p.messages[i].msg_hdr.msg_iov = &p.vectors[i];
    p.messages[i].msg_hdr.msg_iovlen = 1;
    p.messages[i].msg_hdr.msg_name = &p.addresses[i];
    p.messages[i].msg_hdr.msg_control = p.controls[i].data();
  }
}

Tap::~Tap() = default;

int Tap::fd() const
{
  return parts_->socket.get();
}

std::uint64_t Tap::dropped()
{
  tpacket_stats kernel {};
  socklen_t size = sizeof kernel;
  // Reading resets the kernel's counters.
  if (getsockopt(parts_->socket.get(), SOL_PACKET, PACKET_STATISTICS, &kernel, &size) != 0) kernel = {};
  return kernel.tp_drops + std::exchange(parts_->faults, 0);
}

int Tap::drain(Call call, void* context, int limit) noexcept
{
  Parts& p = *parts_;
  int taken = 0;
  while (taken < limit)
  {
    for (mmsghdr& message : p.messages)
    {
      message.msg_hdr.msg_namelen = sizeof(sockaddr_ll);
      message.msg_hdr.msg_controllen = control_size;
    }
    const int count = recvmmsg(p.socket.get(), p.messages.data(), read_at_once, MSG_DONTWAIT, nullptr);
    if (count < 0)
    {
      if (errno == EINTR) continue;
      if (errno == ENETDOWN || errno == ENODEV || errno == ENXIO) return -1;
      break;
    }
    const Tick arrival = now();
    for (int n = 0; n < count; ++n)
    {
      const auto i = static_cast<std::size_t>(n);
      TappedPacket packet {};
      packet.bytes = { p.memory.data() + i * largest, p.messages[i].msg_len };
      packet.original_length = packet.bytes.size();
      for (cmsghdr* c = CMSG_FIRSTHDR(&p.messages[i].msg_hdr); c; c = CMSG_NXTHDR(&p.messages[i].msg_hdr, c))
      {
        if (c->cmsg_level != SOL_PACKET || c->cmsg_type != PACKET_AUXDATA) continue;
        tpacket_auxdata aux;
        std::memcpy(&aux, CMSG_DATA(c), sizeof aux);
        packet.original_length = aux.tp_len;
        packet.sound = (aux.tp_status & (TP_STATUS_CSUM_VALID | TP_STATUS_CSUMNOTREADY)) != 0;
      }
      packet.direction = p.addresses[i].sll_pkttype == PACKET_OUTGOING ? Direction::egress : Direction::ingress;
      packet.arrival = arrival;
      try
      {
        call(context, packet);
      }
      catch (...)
      {
        ++p.faults;
      }
    }
    taken += count;
    if (static_cast<std::size_t>(count) < read_at_once) break;
  }
  return taken;
}

} // namespace tandem::kernel
