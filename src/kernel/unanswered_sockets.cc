#include "src/kernel/unanswered_sockets.h"

#include "src/kernel/tcp_sockets.h"

#include <libmnl/libmnl.h>
#include <linux/tcp.h> // glibc's tcp_info ends before the byte counts

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace tandem::kernel
{

void each_unanswered_socket(const std::function<void(const UnansweredSocket&)>& each)
{
  // TCP_SYN_SENT of <netinet/tcp.h>, which cannot be included with <linux/tcp.h>.
  constexpr std::uint8_t syn_sent = 2;
  constexpr std::size_t tells_unsent = offsetof(tcp_info, tcpi_notsent_bytes) + sizeof(tcp_info::tcpi_notsent_bytes);
  constexpr std::size_t least = offsetof(tcp_info, tcpi_bytes_acked) + sizeof(tcp_info::tcpi_bytes_acked);
  each_tcp_socket(sending_states | 1u << syn_sent,
                  [&](const TcpSocket& socket)
                  {
                    if (socket.info == nullptr || mnl_attr_get_payload_len(socket.info) < least) return;
                    tcp_info info {};
                    std::memcpy(&info, mnl_attr_get_payload(socket.info),
                                std::min<std::size_t>(sizeof info, mnl_attr_get_payload_len(socket.info)));
                    const bool opening = socket.state == syn_sent;
                    if (!opening && (info.tcpi_retransmits == 0 || info.tcpi_backoff == 0)) return;
                    if (!opening && socket.wants_errors) return;
                    const bool known = !opening && mnl_attr_get_payload_len(socket.info) >= tells_unsent;
                    each({ .key = socket.key,
                           .opening = opening,
                           .doubled = info.tcpi_backoff,
                           .acked = info.tcpi_bytes_acked,
                           .unacked = known && socket.queued > info.tcpi_notsent_bytes
                                          ? socket.queued - info.tcpi_notsent_bytes
                                          : 0 });
                  });
}

} // namespace tandem::kernel
