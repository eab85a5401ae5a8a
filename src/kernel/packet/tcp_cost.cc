#include "src/kernel/packet/tcp_cost.h"

#include <linux/tcp.h> // glibc's tcp_info ends before the byte counts
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstddef>

namespace tandem::kernel
{

std::uint64_t tcp_cost(int socket, bool v6) noexcept
{
  tcp_info info {};
  socklen_t size = sizeof info;
  if (getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return 0;
  if (size < offsetof(tcp_info, tcpi_bytes_retrans) + sizeof info.tcpi_bytes_retrans) return 0;
  const std::uint64_t headers = (v6 ? 40 : 20) + 20 + 12; // with timestamps
  return info.tcpi_bytes_sent + info.tcpi_bytes_received
         + headers * (std::uint64_t { info.tcpi_segs_out } + info.tcpi_segs_in);
}

} // namespace tandem::kernel
