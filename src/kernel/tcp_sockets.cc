#include "src/kernel/tcp_sockets.h"

#include "src/kernel/netlink_dump.h"

#include <arpa/inet.h>
#include <linux/inet_diag.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <system_error>

namespace tandem::kernel
{

namespace
{

Address address_of(std::uint8_t family, const std::uint32_t (&words)[4])
{
  constexpr std::array<std::uint8_t, 12> mapped { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff };
  Address address {};
  std::memcpy(address.bytes.data(), words, address.bytes.size());
  address.v6 = family == AF_INET6 && !std::equal(mapped.begin(), mapped.end(), address.bytes.begin());
  if (address.v6) return address;
  if (family == AF_INET6) std::memcpy(address.bytes.data(), &words[3], 4);
  std::fill(address.bytes.begin() + 4, address.bytes.end(), std::uint8_t { 0 });
  return address;
}

// INET_DIAG_SOCKOPT, of Linux 5.10; headers may be older. Its first byte has recverr in its lowest bit, as all bit
// fields of little-endian machines, in its highest on others.
constexpr int sockopt_attribute = 22;

bool wants_errors(const nlattr* options)
{
  constexpr std::uint8_t recverr = std::endian::native == std::endian::little ? 0x01 : 0x80;
  if (options == nullptr || mnl_attr_get_payload_len(options) == 0) return false;
  return (*static_cast<const std::uint8_t*>(mnl_attr_get_payload(options)) & recverr) != 0;
}

void put_address(const Address& address, std::uint32_t (&words)[4])
{
  std::memcpy(words, address.bytes.data(), address.bytes.size());
}

} // namespace

const std::uint32_t sending_states =
    1u << TCP_ESTABLISHED | 1u << TCP_FIN_WAIT1 | 1u << TCP_CLOSE_WAIT | 1u << TCP_LAST_ACK | 1u << TCP_CLOSING;

void each_tcp_socket(std::uint32_t states, const std::function<void(const TcpSocket&)>& each)
{
  NetlinkDump dump { NETLINK_SOCK_DIAG };
  for (const std::uint8_t family : { AF_INET, AF_INET6 })
  {
    inet_diag_req_v2 request {};
    request.sdiag_family = family;
    request.sdiag_protocol = IPPROTO_TCP;
    request.idiag_ext = 1u << (INET_DIAG_INFO - 1); // the upper layer's part comes only along with TCP's
    request.idiag_states = states;
    dump.ask(SOCK_DIAG_BY_FAMILY, request,
             [&](const nlmsghdr* message)
             {
               if (mnl_nlmsg_get_payload_len(message) < sizeof(inet_diag_msg)) return;
               inet_diag_msg told {};
               std::memcpy(&told, mnl_nlmsg_get_payload(message), sizeof told);
               const auto all = attributes_of<sockopt_attribute>(message, sizeof told);
               TcpSocket socket {};
               socket.key = { .local = address_of(told.idiag_family, told.id.idiag_src),
                              .remote = address_of(told.idiag_family, told.id.idiag_dst),
                              .local_port = ntohs(told.id.idiag_sport),
                              .remote_port = ntohs(told.id.idiag_dport) };
               socket.interface = static_cast<int>(told.id.idiag_if);
               socket.cookie = std::uint64_t { told.id.idiag_cookie[1] } << 32 | told.id.idiag_cookie[0];
               socket.state = told.idiag_state;
               socket.queued = told.idiag_wqueue;
               socket.wants_errors = wants_errors(all[sockopt_attribute]);
               socket.info = all[INET_DIAG_INFO];
               socket.upper = all[INET_DIAG_ULP_INFO];
               each(socket);
             });
  }
}

std::string end_tcp_socket(const TcpSocketName& socket)
{
  // The kernel finds IPv4 in an IPv6 socket by this family, too.
  const FlowKey& key = socket.key;
  inet_diag_req_v2 request {};
  request.sdiag_family = key.local.v6 ? AF_INET6 : AF_INET;
  request.sdiag_protocol = IPPROTO_TCP;
  put_address(key.local, request.id.idiag_src);
  put_address(key.remote, request.id.idiag_dst);
  request.id.idiag_sport = htons(key.local_port);
  request.id.idiag_dport = htons(key.remote_port);
  request.id.idiag_if = static_cast<std::uint32_t>(socket.interface);
  request.id.idiag_cookie[0] = static_cast<std::uint32_t>(socket.cookie);
  request.id.idiag_cookie[1] = static_cast<std::uint32_t>(socket.cookie >> 32);
  try
  {
    NetlinkDump { NETLINK_SOCK_DIAG }.order(SOCK_DESTROY, request);
  }
  catch (const std::system_error& e)
  {
    // ESTALE: another socket has its ports now.
    if (e.code().value() != ENOENT && e.code().value() != ESTALE) return e.what();
  }
  return {};
}

} // namespace tandem::kernel
