#include "src/kernel/mptcp/mptcp_subflows.h"

#include "src/kernel/netlink_dump.h"
#include "src/kernel/tcp_sockets.h"
#include "src/wire/text.h"

#include <linux/inet_diag.h>
#include <linux/mptcp.h>
#include <netinet/tcp.h>

#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

namespace tandem::kernel
{

namespace
{

// Nothing when it is of no MPTCP subflow. Leaves the address.
std::optional<MptcpSubflow> subflow_in(const nlattr* upper)
{
  const auto ulp = attributes_in<INET_ULP_INFO_MAX>(upper);
  const auto found = attributes_in<MPTCP_SUBFLOW_ATTR_MAX>(ulp[INET_ULP_INFO_MPTCP]);
  MptcpSubflow subflow {};
  std::uint32_t flags = 0;
  if (!copy_attribute(found[MPTCP_SUBFLOW_ATTR_TOKEN_LOC], &subflow.connection)
      || !copy_attribute(found[MPTCP_SUBFLOW_ATTR_FLAGS], &flags))
    return {};
  constexpr std::uint32_t joined = MPTCP_SUBFLOW_FLAG_JOIN_REM | MPTCP_SUBFLOW_FLAG_JOIN_LOC;
  if (!(flags & (MPTCP_SUBFLOW_FLAG_MCAP_REM | joined))) return {}; // the peer speaks TCP only
  subflow.first = !(flags & joined);
  subflow.sound = (flags & MPTCP_SUBFLOW_FLAG_FULLY_ESTABLISHED) != 0;
  return subflow;
}

} // namespace

std::vector<MptcpSubflow> mptcp_subflows()
{
  std::vector<MptcpSubflow> all {};
  try
  {
    each_tcp_socket(1u << TCP_ESTABLISHED | 1u << TCP_CLOSE_WAIT,
                    [&](const TcpSocket& socket)
                    {
                      auto one = subflow_in(socket.upper);
                      if (!one) return;
                      one->address = wire::to_string(socket.key.local);
                      one->sound = one->sound && socket.state == TCP_ESTABLISHED;
                      one->socket = socket;
                      all.push_back(std::move(*one));
                    });
  }
  catch (const std::runtime_error& e)
  {
    throw std::runtime_error { std::string { "read the MPTCP connections: " } + e.what() };
  }
  return all;
}

} // namespace tandem::kernel
