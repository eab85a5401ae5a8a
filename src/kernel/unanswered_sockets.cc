#include "src/kernel/unanswered_sockets.h"

#include "src/kernel/tcp_sockets.h"

#include <libmnl/libmnl.h>
#include <linux/tcp.h> // glibc's tcp_info ends before the byte counts

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace tandem::kernel
{

namespace
{

// As in the kernel's include/net/tcp_states.h, of which its headers for programs have no copy.
enum State : std::uint8_t
{
  established = 1,
  syn_sent = 2,
  fin_wait1 = 4,
  close_wait = 8,
  last_ack = 9,
  closing = 11,
};

constexpr std::uint32_t bits(std::initializer_list<State> states)
{
  std::uint32_t all = 0;
  for (const State one : states)
    all |= 1u << one;
  return all;
}

} // namespace

void each_unanswered_socket(const std::function<void(const UnansweredSocket&)>& each)
{
  constexpr std::size_t least = offsetof(tcp_info, tcpi_bytes_acked) + sizeof(tcp_info::tcpi_bytes_acked);
  each_tcp_socket(
      bits({ established, syn_sent, fin_wait1, close_wait, last_ack, closing }),
      [&](const TcpSocket& socket)
      {
        if (socket.info == nullptr || mnl_attr_get_payload_len(socket.info) < least) return;
        tcp_info info {};
        std::memcpy(&info, mnl_attr_get_payload(socket.info),
                    std::min<std::size_t>(sizeof info, mnl_attr_get_payload_len(socket.info)));
        const bool opening = socket.state == syn_sent;
        if (!opening && (info.tcpi_retransmits == 0 || info.tcpi_backoff == 0)) return;
        if (!opening && socket.wants_errors) return;
        each({ .key = socket.key, .opening = opening, .doubled = info.tcpi_backoff, .acked = info.tcpi_bytes_acked });
      });
}

} // namespace tandem::kernel
