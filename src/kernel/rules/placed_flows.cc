#include "src/kernel/rules/placed_flows.h"

#include <arpa/inet.h>
#include <libmnl/libmnl.h>
#include <linux/inet_diag.h>
#include <linux/netfilter/nf_conntrack_tcp.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_conntrack.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <ctime>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <tuple>

namespace tandem::kernel
{

namespace
{

struct Close
{
  void operator()(mnl_socket* s) const { mnl_socket_close(s); }
};

// One netlink socket for dumps. Each throws std::runtime_error with the kernel's words.
class Dump
{
public:
  explicit Dump(int protocol) : socket_ { mnl_socket_open(protocol) }
  {
    if (!socket_ || mnl_socket_bind(socket_.get(), 0, MNL_SOCKET_AUTOPID) < 0)
      throw std::runtime_error { std::strerror(errno) };
    const timeval patience { 2, 0 };
    setsockopt(mnl_socket_get_fd(socket_.get()), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  }

  template <class Request>
  void ask(std::uint16_t type, const Request& request, mnl_cb_t each, void* to)
  {
    nlmsghdr* head = mnl_nlmsg_put_header(buffer_.data());
    head->nlmsg_type = type;
    head->nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
    head->nlmsg_seq = ++asked_;
    std::memcpy(mnl_nlmsg_put_extra_header(head, sizeof request), &request, sizeof request);
    if (mnl_socket_sendto(socket_.get(), head, head->nlmsg_len) < 0) throw std::runtime_error { std::strerror(errno) };
    for (int more = MNL_CB_OK; more > MNL_CB_STOP;)
    {
      const ssize_t length = mnl_socket_recvfrom(socket_.get(), buffer_.data(), buffer_.size());
      if (length >= 0)
        more = mnl_cb_run(buffer_.data(), static_cast<std::size_t>(length), asked_,
                          mnl_socket_get_portid(socket_.get()), each, to);
      if (length < 0 || more < 0) throw std::runtime_error { std::strerror(errno) };
    }
  }

private:
  std::unique_ptr<mnl_socket, Close> socket_;
  unsigned asked_ = 0;
  alignas(nlmsghdr) std::array<char, 32768> buffer_ {};
};

template <std::size_t size>
using Attributes = std::array<const nlattr*, size>;

template <std::size_t size>
int take(const nlattr* attribute, void* to)
{
  auto& all = *static_cast<Attributes<size>*>(to);
  if (const std::uint16_t type = mnl_attr_get_type(attribute); type < all.size()) all[type] = attribute;
  return MNL_CB_OK;
}

template <int last>
Attributes<last + 1> nested(const nlattr* attribute)
{
  Attributes<last + 1> all {};
  if (attribute != nullptr) mnl_attr_parse_nested(attribute, take<last + 1>, &all);
  return all;
}

// In network order; nothing is copied of an attribute of another length.
template <class Value>
bool copy(const nlattr* attribute, Value* to, std::size_t bytes = sizeof(Value))
{
  if (attribute == nullptr || mnl_attr_get_payload_len(attribute) != bytes) return false;
  std::memcpy(to, mnl_attr_get_payload(attribute), bytes);
  return true;
}

bool lives(std::uint8_t tcp_state)
{
  return tcp_state != TCP_CONNTRACK_NONE && tcp_state != TCP_CONNTRACK_TIME_WAIT && tcp_state != TCP_CONNTRACK_CLOSE;
}

struct Found
{
  std::uint32_t mask = 0;
  std::vector<PlacedFlow> flows {};
};

int one_connection(const nlmsghdr* message, void* to)
{
  Found& found = *static_cast<Found*>(to);
  Attributes<CTA_MAX + 1> all {};
  mnl_attr_parse(message, sizeof(nfgenmsg), take<CTA_MAX + 1>, &all);
  PlacedFlow flow {};
  std::uint8_t state = TCP_CONNTRACK_NONE;
  if (!copy(all[CTA_MARK], &flow.mark) || (flow.mark = ntohl(flow.mark) & found.mask) == 0) return MNL_CB_OK;
  const auto tcp = nested<CTA_PROTOINFO_TCP_MAX>(nested<CTA_PROTOINFO_MAX>(all[CTA_PROTOINFO])[CTA_PROTOINFO_TCP]);
  if (!copy(tcp[CTA_PROTOINFO_TCP_STATE], &state) || !lives(state)) return MNL_CB_OK;
  const auto tuple = nested<CTA_TUPLE_MAX>(all[CTA_TUPLE_ORIG]);
  const auto ip = nested<CTA_IP_MAX>(tuple[CTA_TUPLE_IP]);
  const auto ports = nested<CTA_PROTO_MAX>(tuple[CTA_TUPLE_PROTO]);
  flow.remote.v6 = copy(ip[CTA_IP_V6_DST], flow.remote.bytes.data(), 16);
  if (!flow.remote.v6) copy(ip[CTA_IP_V4_DST], flow.remote.bytes.data(), 4);
  if (copy(ports[CTA_PROTO_SRC_PORT], &flow.local_port)) flow.local_port = ntohs(flow.local_port);
  if (copy(ports[CTA_PROTO_DST_PORT], &flow.remote_port)) flow.remote_port = ntohs(flow.remote_port);
  found.flows.push_back(flow);
  return MNL_CB_OK;
}

using Key = std::tuple<bool, std::array<std::uint8_t, 16>, std::uint16_t, std::uint16_t>;

Key key_of(const PlacedFlow& flow)
{
  std::array<std::uint8_t, 16> bytes {};
  std::copy(flow.remote.bytes.begin(), flow.remote.bytes.end(), bytes.begin());
  return { flow.remote.v6, bytes, flow.local_port, flow.remote_port };
}

int one_socket(const nlmsghdr* message, void* to)
{
  constexpr std::array<std::uint8_t, 12> mapped { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff };
  constexpr std::uint32_t lately_ms = 10'000; // what was measured before says little of the link now
  if (mnl_nlmsg_get_payload_len(message) < sizeof(inet_diag_msg)) return MNL_CB_OK;
  inet_diag_msg socket {};
  std::memcpy(&socket, mnl_nlmsg_get_payload(message), sizeof socket);
  std::array<std::uint8_t, 16> remote {};
  std::memcpy(remote.data(), socket.id.idiag_dst, remote.size());
  bool v6 = socket.idiag_family == AF_INET6;
  if (v6 && std::equal(mapped.begin(), mapped.end(), remote.begin()))
  {
    v6 = false;
    std::memcpy(remote.data(), remote.data() + mapped.size(), 4);
  }
  if (!v6) std::fill(remote.begin() + 4, remote.end(), std::uint8_t { 0 });
  auto& sought = *static_cast<std::map<Key, PlacedFlow*>*>(to);
  const auto found = sought.find({ v6, remote, ntohs(socket.id.idiag_sport), ntohs(socket.id.idiag_dport) });
  if (found == sought.end()) return MNL_CB_OK;
  Attributes<INET_DIAG_MAX + 1> all {};
  mnl_attr_parse(message, sizeof(inet_diag_msg), take<INET_DIAG_MAX + 1>, &all);
  tcp_info info {};
  // Newer kernels tell more than headers know.
  if (all[INET_DIAG_INFO] == nullptr || mnl_attr_get_payload_len(all[INET_DIAG_INFO]) < offsetof(tcp_info, tcpi_rttvar))
    return MNL_CB_OK;
  std::memcpy(&info, mnl_attr_get_payload(all[INET_DIAG_INFO]),
              std::min<std::size_t>(sizeof info, mnl_attr_get_payload_len(all[INET_DIAG_INFO])));
  if (info.tcpi_rtt > 0 && info.tcpi_last_data_recv <= lately_ms)
    found->second->rtt = std::chrono::microseconds { info.tcpi_rtt };
  return MNL_CB_OK;
}

} // namespace

std::vector<PlacedFlow> placed_flows(std::uint32_t mask)
{
  Found found { .mask = mask };
  try
  {
    Dump dump { NETLINK_NETFILTER };
    for (const std::uint8_t family : { AF_INET, AF_INET6 })
      dump.ask((NFNL_SUBSYS_CTNETLINK << 8) | IPCTNL_MSG_CT_GET,
               nfgenmsg { .nfgen_family = family, .version = NFNETLINK_V0, .res_id = 0 }, one_connection, &found);
  }
  catch (const std::runtime_error& e)
  {
    throw std::runtime_error { std::string { "the kernel does not list its connections (nf_conntrack_netlink): " }
                               + e.what() };
  }
  return std::move(found.flows);
}

void measure(std::vector<PlacedFlow>& flows)
{
  if (flows.empty()) return;
  std::map<Key, PlacedFlow*> sought {};
  for (PlacedFlow& flow : flows)
    sought[key_of(flow)] = &flow;
  try
  {
    Dump dump { NETLINK_SOCK_DIAG };
    for (const std::uint8_t family : { AF_INET, AF_INET6 })
    {
      inet_diag_req_v2 request {};
      request.sdiag_family = family;
      request.sdiag_protocol = IPPROTO_TCP;
      request.idiag_ext = 1u << (INET_DIAG_INFO - 1);
      request.idiag_states = 1u << TCP_ESTABLISHED;
      dump.ask(SOCK_DIAG_BY_FAMILY, request, one_socket, &sought);
    }
  }
  catch (const std::runtime_error&)
  {
    // A kernel without inet_diag: nobody is measured.
  }
}

} // namespace tandem::kernel
