#include "src/kernel/mptcp/mptcp_subflows.h"

#include <arpa/inet.h>
#include <linux/inet_diag.h>
#include <linux/mptcp.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/tcp.h>
#include <netlink/attr.h>
#include <netlink/errno.h>
#include <netlink/msg.h>
#include <netlink/netlink.h>
#include <netlink/socket.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <array>
#include <cstring>
#include <memory>
#include <stdexcept>

namespace tandem::kernel
{

namespace
{

struct Release
{
  void operator()(nl_sock* s) const { nl_socket_free(s); }
};

constexpr timeval timeout { 2, 0 };
constexpr std::array<unsigned char, 12> mapped { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff };

std::string local_address(const inet_diag_msg& message)
{
  std::array<char, INET6_ADDRSTRLEN> text {};
  const void* source = message.id.idiag_src;
  int family = message.idiag_family;
  if (family == AF_INET6 && std::memcmp(source, mapped.data(), mapped.size()) == 0)
  {
    family = AF_INET;
    source = &message.id.idiag_src[3];
  }
  return inet_ntop(family, source, text.data(), text.size()) ? text.data() : "";
}

int on_valid(nl_msg* message, void* argument)
{
  auto* all = static_cast<std::vector<MptcpSubflow>*>(argument);
  const nlmsghdr* head = nlmsg_hdr(message);
  if (!nlmsg_valid_hdr(head, sizeof(inet_diag_msg))) return NL_OK;
  std::array<nlattr*, INET_DIAG_MAX + 1> found {};
  if (nlmsg_parse(const_cast<nlmsghdr*>(head), sizeof(inet_diag_msg), found.data(), INET_DIAG_MAX, nullptr) < 0)
    return NL_OK;
  MptcpSubflow one {};
  if (!read_subflow(found[INET_DIAG_ULP_INFO], one)) return NL_OK;
  one.address = local_address(*static_cast<const inet_diag_msg*>(nlmsg_data(head)));
  if (!one.address.empty()) all->push_back(one);
  return NL_OK;
}

} // namespace

bool read_subflow(nlattr* nested, MptcpSubflow& subflow)
{
  std::array<nlattr*, INET_ULP_INFO_MAX + 1> ulp {};
  if (!nested || nla_parse_nested(ulp.data(), INET_ULP_INFO_MAX, nested, nullptr) < 0 || !ulp[INET_ULP_INFO_MPTCP])
    return false;
  std::array<nlattr*, MPTCP_SUBFLOW_ATTR_MAX + 1> found {};
  if (nla_parse_nested(found.data(), MPTCP_SUBFLOW_ATTR_MAX, ulp[INET_ULP_INFO_MPTCP], nullptr) < 0) return false;
  nlattr *token = found[MPTCP_SUBFLOW_ATTR_TOKEN_LOC], *flags = found[MPTCP_SUBFLOW_ATTR_FLAGS];
  if (!token || nla_len(token) != 4 || !flags || nla_len(flags) != 4) return false;
  const std::uint32_t bits = nla_get_u32(flags);
  constexpr std::uint32_t joined = MPTCP_SUBFLOW_FLAG_JOIN_REM | MPTCP_SUBFLOW_FLAG_JOIN_LOC;
  if (!(bits & (MPTCP_SUBFLOW_FLAG_MCAP_REM | joined))) return false; // the peer speaks TCP only
  subflow.connection = nla_get_u32(token);
  subflow.first = !(bits & joined);
  return true;
}

std::vector<MptcpSubflow> mptcp_subflows()
{
  std::vector<MptcpSubflow> all {};
  const std::unique_ptr<nl_sock, Release> socket { nl_socket_alloc() };
  if (!socket) throw std::bad_alloc {};
  int code = nl_connect(socket.get(), NETLINK_SOCK_DIAG);
  if (code >= 0)
  {
    setsockopt(nl_socket_get_fd(socket.get()), SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
    nl_socket_modify_cb(socket.get(), NL_CB_VALID, NL_CB_CUSTOM, on_valid, &all);
  }
  for (std::uint8_t family : { AF_INET, AF_INET6 })
  {
    inet_diag_req_v2 request {};
    request.sdiag_family = family;
    request.sdiag_protocol = IPPROTO_TCP;
    request.idiag_ext = 1u << (INET_DIAG_INFO - 1); // the upper layer's part comes only along with TCP's
    request.idiag_states = 1u << TCP_ESTABLISHED | 1u << TCP_CLOSE_WAIT | 1u << TCP_FIN_WAIT1 | 1u << TCP_FIN_WAIT2;
    if (code >= 0) code = nl_send_simple(socket.get(), SOCK_DIAG_BY_FAMILY, NLM_F_DUMP, &request, sizeof request);
    if (code >= 0) code = nl_recvmsgs_default(socket.get());
  }
  if (code < 0) throw std::runtime_error { std::string { "read the MPTCP connections: " } + nl_geterror(code) };
  return all;
}

} // namespace tandem::kernel
