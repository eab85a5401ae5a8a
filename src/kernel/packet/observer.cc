#include "src/kernel/packet/observer.h"

#include "src/kernel/check.h"
#include "src/kernel/clock.h"
#include "src/kernel/packet/bpf.h"
#include "src/kernel/packet/packet_socket.h"

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace tandem::kernel
{

namespace
{
constexpr std::size_t most_at_once = 64;
constexpr std::size_t control_size = CMSG_SPACE(sizeof(tpacket_auxdata)) + CMSG_SPACE(sizeof(timespec));
// A time stamp further from now than this was taken before the wall clock was stepped.
constexpr Duration oldest = std::chrono::seconds { 1 };
} // namespace

struct Observer::Parts
{
  std::string interface;
  Sampling sampling {};
  Fd socket {};
  ObserverStats stats {};
  std::array<mmsghdr, most_at_once> messages {};
  std::array<iovec, most_at_once> vectors {};
  std::array<sockaddr_ll, most_at_once> addresses {};
  std::array<std::array<std::byte, snap>, most_at_once> buffers {};
  alignas(cmsghdr) std::array<std::array<char, control_size>, most_at_once> controls {};

  void attach(const Sampling& wanted)
  {
    attach_filter(socket, observer_filter(wanted, snap), "attach the sampling filter on " + interface);
    int ignore = wanted.egress ? 0 : 1;
    check("choose the direction to observe on " + interface,
          setsockopt(socket.get(), SOL_PACKET, PACKET_IGNORE_OUTGOING, &ignore, sizeof ignore));
    sampling = wanted;
  }
};

Observer::Observer(const std::string& interface, const Sampling& sampling) : parts_ { std::make_unique<Parts>() }
{
  Parts& p = *parts_;
  p.interface = interface;
  int ifindex = static_cast<int>(if_nametoindex(interface.c_str()));
  if (ifindex == 0) fail("observe interface " + interface, errno);
  p.socket = open_packet_socket(1024 * 1024);
  p.attach(sampling);
  const int one = 1;
  // Without it the time of reading has to do.
  setsockopt(p.socket.get(), SOL_SOCKET, SO_TIMESTAMPNS, &one, sizeof one);
  bind_packet_socket(p.socket, ifindex, ETH_P_ALL, interface); // ETH_P_IP would miss what leaves
  for (std::size_t i = 0; i < most_at_once; ++i)
  {
    p.vectors[i] = { p.buffers[i].data(), snap };
    p.messages[i].msg_hdr.msg_iov = &p.vectors[i];
    p.messages[i].msg_hdr.msg_iovlen = 1;
    p.messages[i].msg_hdr.msg_name = &p.addresses[i];
    p.messages[i].msg_hdr.msg_control = p.controls[i].data();
  }
}

Observer::~Observer() = default;

int Observer::fd() const
{
  return parts_->socket.get();
}

void Observer::set(const Sampling& sampling)
{
  if (sampling != parts_->sampling) parts_->attach(sampling);
}

const Sampling& Observer::sampling() const
{
  return parts_->sampling;
}

int Observer::drain(Call call, void* context, int limit) noexcept
{
  Parts& p = *parts_;
  int taken = 0;
  while (taken < limit)
  {
    for (std::size_t i = 0; i < most_at_once; ++i)
    {
      p.messages[i].msg_hdr.msg_namelen = sizeof(sockaddr_ll);
      p.messages[i].msg_hdr.msg_controllen = control_size;
    }
    int count = recvmmsg(p.socket.get(), p.messages.data(), most_at_once, MSG_DONTWAIT, nullptr);
    if (count < 0)
    {
      if (errno == EINTR) continue;
      if (errno == ENETDOWN || errno == ENODEV || errno == ENXIO) return -1;
      break;
    }
    const Tick arrival = now();
    const Duration offset = realtime_offset();
    for (int n = 0; n < count; ++n)
    {
      auto i = static_cast<std::size_t>(n);
      ObservedPacket packet {};
      std::size_t length = std::min<std::size_t>(p.messages[i].msg_len, snap);
      packet.bytes = { p.buffers[i].data(), length };
      packet.original_length = length;
      packet.received = arrival;
      for (cmsghdr* c = CMSG_FIRSTHDR(&p.messages[i].msg_hdr); c; c = CMSG_NXTHDR(&p.messages[i].msg_hdr, c))
      {
        if (c->cmsg_level == SOL_PACKET && c->cmsg_type == PACKET_AUXDATA)
        {
          tpacket_auxdata aux;
          std::memcpy(&aux, CMSG_DATA(c), sizeof aux);
          packet.original_length = aux.tp_len;
          packet.checksum_ready = (aux.tp_status & TP_STATUS_CSUMNOTREADY) == 0;
        }
        if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_TIMESTAMPNS)
        {
          timespec at;
          std::memcpy(&at, CMSG_DATA(c), sizeof at);
          const Tick received { std::chrono::seconds { at.tv_sec } + std::chrono::nanoseconds { at.tv_nsec } - offset };
          if (received <= arrival && arrival - received < oldest) packet.received = received;
        }
      }
      packet.direction = p.addresses[i].sll_pkttype == PACKET_OUTGOING ? Direction::egress : Direction::ingress;
      packet.ifindex = p.addresses[i].sll_ifindex;
      packet.arrival = arrival;
      ++p.stats.packets;
      try
      {
        call(context, packet);
      }
      catch (...)
      {
        ++p.stats.sink_faults;
      }
    }
    taken += count;
    if (static_cast<std::size_t>(count) < most_at_once) break;
  }
  return taken;
}

ObserverStats Observer::stats()
{
  tpacket_stats kernel {};
  socklen_t size = sizeof kernel;
  // Reading resets the kernel's counters.
  if (getsockopt(parts_->socket.get(), SOL_PACKET, PACKET_STATISTICS, &kernel, &size) == 0)
    parts_->stats.kernel_drops += kernel.tp_drops;
  return parts_->stats;
}

} // namespace tandem::kernel
