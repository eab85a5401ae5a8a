#include "src/kernel/rules/placed_flows.h"

#include "src/kernel/netlink_dump.h"
#include "src/kernel/tcp_sockets.h"

#include <arpa/inet.h>
#include <linux/netfilter/nf_conntrack_tcp.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_conntrack.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <tuple>

namespace tandem::kernel
{

namespace
{

bool lives(std::uint8_t tcp_state)
{
  return tcp_state != TCP_CONNTRACK_NONE && tcp_state != TCP_CONNTRACK_TIME_WAIT && tcp_state != TCP_CONNTRACK_CLOSE;
}

std::optional<PlacedFlow> placed(const nlmsghdr* message, std::uint32_t mask)
{
  const auto all = attributes_of<CTA_MAX>(message, sizeof(nfgenmsg));
  PlacedFlow flow {};
  std::uint8_t state = TCP_CONNTRACK_NONE;
  if (!copy_attribute(all[CTA_MARK], &flow.mark) || (flow.mark = ntohl(flow.mark) & mask) == 0) return {};
  const auto protocol = attributes_in<CTA_PROTOINFO_MAX>(all[CTA_PROTOINFO]);
  const auto tcp = attributes_in<CTA_PROTOINFO_TCP_MAX>(protocol[CTA_PROTOINFO_TCP]);
  if (!copy_attribute(tcp[CTA_PROTOINFO_TCP_STATE], &state) || !lives(state)) return {};
  const auto tuple = attributes_in<CTA_TUPLE_MAX>(all[CTA_TUPLE_ORIG]);
  const auto ip = attributes_in<CTA_IP_MAX>(tuple[CTA_TUPLE_IP]);
  const auto ports = attributes_in<CTA_PROTO_MAX>(tuple[CTA_TUPLE_PROTO]);
  flow.remote.v6 = copy_attribute(ip[CTA_IP_V6_DST], flow.remote.bytes.data(), 16);
  if (!flow.remote.v6) copy_attribute(ip[CTA_IP_V4_DST], flow.remote.bytes.data(), 4);
  if (copy_attribute(ports[CTA_PROTO_SRC_PORT], &flow.local_port)) flow.local_port = ntohs(flow.local_port);
  if (copy_attribute(ports[CTA_PROTO_DST_PORT], &flow.remote_port)) flow.remote_port = ntohs(flow.remote_port);
  return flow;
}

using Key = std::tuple<bool, std::array<std::uint8_t, 16>, std::uint16_t, std::uint16_t>;

// Smoothed; nothing when the socket has received nothing lately.
std::optional<Duration> round_trip(const nlattr* told)
{
  constexpr std::uint32_t lately_ms = 10'000; // what was measured before says little of the link now
  tcp_info info {};
  // Newer kernels tell more than headers know.
  if (told == nullptr || mnl_attr_get_payload_len(told) < offsetof(tcp_info, tcpi_rttvar)) return {};
  std::memcpy(&info, mnl_attr_get_payload(told), std::min<std::size_t>(sizeof info, mnl_attr_get_payload_len(told)));
  if (info.tcpi_rtt == 0 || info.tcpi_last_data_recv > lately_ms) return {};
  return std::chrono::microseconds { info.tcpi_rtt };
}

} // namespace

std::vector<PlacedFlow> placed_flows(std::uint32_t mask)
{
  std::vector<PlacedFlow> flows {};
  try
  {
    NetlinkDump dump { NETLINK_NETFILTER };
    for (const std::uint8_t family : { AF_INET, AF_INET6 })
      dump.ask((NFNL_SUBSYS_CTNETLINK << 8) | IPCTNL_MSG_CT_GET,
               nfgenmsg { .nfgen_family = family, .version = NFNETLINK_V0, .res_id = 0 },
               [&](const nlmsghdr* message)
               {
                 if (const auto flow = placed(message, mask)) flows.push_back(*flow);
               });
  }
  catch (const std::runtime_error& e)
  {
    throw std::runtime_error { std::string { "the kernel does not list its connections (nf_conntrack_netlink): " }
                               + e.what() };
  }
  return flows;
}

void measure(std::vector<PlacedFlow>& flows)
{
  if (flows.empty()) return;
  std::map<Key, PlacedFlow*> sought {};
  for (PlacedFlow& flow : flows)
    sought[{ flow.remote.v6, flow.remote.bytes, flow.local_port, flow.remote_port }] = &flow;
  try
  {
    each_tcp_socket(
        1u << TCP_ESTABLISHED,
        [&](const TcpSocket& socket)
        {
          const FlowKey& key = socket.key;
          const auto found = sought.find({ key.remote.v6, key.remote.bytes, key.local_port, key.remote_port });
          if (found == sought.end()) return;
          if (const auto rtt = round_trip(socket.info)) found->second->rtt = rtt;
        });
  }
  catch (const std::runtime_error&)
  {
    // A kernel without inet_diag: nobody is measured.
  }
}

} // namespace tandem::kernel
