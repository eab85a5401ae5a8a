#include "src/kernel/mptcp/mptcp_pm.h"

#include "src/kernel/rtnetlink.h"

#include <arpa/inet.h>
#include <linux/mptcp.h>
#include <linux/netlink.h>
#include <net/if.h>
#include <netlink/attr.h>
#include <netlink/errno.h>
#include <netlink/genl/ctrl.h>
#include <netlink/genl/genl.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <array>
#include <cstring>
#include <fstream>
#include <functional>
#include <stdexcept>

namespace tandem::kernel
{

namespace
{

constexpr timeval timeout { 2, 0 }; // the kernel answers within the call; this is for a kernel that does not

// What a netlink request came to.
struct Outcome
{
  std::string reason {};
  std::function<void(nlattr**)> take {};
};

int on_valid(nl_msg* message, void* argument)
{
  auto* outcome = static_cast<Outcome*>(argument);
  std::array<nlattr*, MPTCP_PM_ATTR_MAX + 1> found {};
  if (genlmsg_parse(nlmsg_hdr(message), 0, found.data(), MPTCP_PM_ATTR_MAX, nullptr) >= 0 && outcome->take)
    outcome->take(found.data());
  return NL_OK;
}

int on_error(sockaddr_nl*, nlmsgerr* error, void* argument)
{
  auto* outcome = static_cast<Outcome*>(argument);
  outcome->reason = std::strerror(-error->error);
  // The kernel's own words, where it has any.
  const auto* head = reinterpret_cast<const nlmsghdr*>(reinterpret_cast<const char*>(error) - NLMSG_HDRLEN);
  if (!(head->nlmsg_flags & NLM_F_ACK_TLVS)) return NL_STOP;
  std::size_t skip = sizeof *error;
  if (!(head->nlmsg_flags & NLM_F_CAPPED) && error->msg.nlmsg_len >= NLMSG_HDRLEN)
    skip += NLMSG_ALIGN(error->msg.nlmsg_len) - NLMSG_HDRLEN;
  const std::size_t payload = head->nlmsg_len - NLMSG_HDRLEN;
  if (payload <= skip) return NL_STOP;
  std::array<nlattr*, NLMSGERR_ATTR_MAX + 1> found {};
  auto* first = reinterpret_cast<nlattr*>(reinterpret_cast<char*>(error) + skip);
  if (nla_parse(found.data(), NLMSGERR_ATTR_MAX, first, static_cast<int>(payload - skip), nullptr) < 0) return NL_STOP;
  if (nlattr* text = found[NLMSGERR_ATTR_MSG]; text && nla_len(text) > 1)
    outcome->reason =
        std::string { static_cast<const char*>(nla_data(text)),
                      strnlen(static_cast<const char*>(nla_data(text)), static_cast<std::size_t>(nla_len(text))) }
        + " (" + outcome->reason + ")";
  return NL_STOP;
}

int on_end(nl_msg*, void*)
{
  return NL_STOP;
}

bool put_address(nl_msg* message, const std::string& address)
{
  std::array<unsigned char, 16> bytes;
  if (inet_pton(AF_INET, address.c_str(), bytes.data()) == 1)
    return nla_put_u16(message, MPTCP_PM_ADDR_ATTR_FAMILY, AF_INET) == 0
           && nla_put(message, MPTCP_PM_ADDR_ATTR_ADDR4, 4, bytes.data()) == 0;
  if (inet_pton(AF_INET6, address.c_str(), bytes.data()) == 1)
    return nla_put_u16(message, MPTCP_PM_ADDR_ATTR_FAMILY, AF_INET6) == 0
           && nla_put(message, MPTCP_PM_ADDR_ATTR_ADDR6, 16, bytes.data()) == 0;
  return false;
}

std::string read_word(const std::string& path)
{
  std::string word;
  std::ifstream { path } >> word;
  return word;
}

} // namespace

std::string mptcp_unavailable()
{
  const std::string directory = "/proc/sys/net/mptcp/";
  const std::string enabled = read_word(directory + "enabled");
  if (enabled.empty()) return "this kernel has no MPTCP (CONFIG_MPTCP)";
  if (enabled != "1") return "MPTCP is off here: sysctl -w net.mptcp.enabled=1";
  const std::string manager = read_word(directory + "path_manager"), type = read_word(directory + "pm_type");
  if (manager.empty() ? type == "1" : manager != "kernel")
    return "MPTCP paths are managed from user space here (net.mptcp."
           + (manager.empty() ? "pm_type=" + type : "path_manager=" + manager)
           + "), by mptcpd for instance: that program decides, or set it to the kernel's";
  return {};
}

bool read_endpoint(nlattr* nested, MptcpEndpoint& endpoint)
{
  std::array<nlattr*, MPTCP_PM_ADDR_ATTR_MAX + 1> found {};
  if (!nested || nla_parse_nested(found.data(), MPTCP_PM_ADDR_ATTR_MAX, nested, nullptr) < 0) return false;
  auto sized = [&](int type, int length)
  { return found[type] && nla_len(found[type]) == length ? found[type] : nullptr; };
  nlattr *family = sized(MPTCP_PM_ADDR_ATTR_FAMILY, 2), *id = sized(MPTCP_PM_ADDR_ATTR_ID, 1);
  if (!family || !id) return false;
  const int version = nla_get_u16(family);
  nlattr* address = version == AF_INET    ? sized(MPTCP_PM_ADDR_ATTR_ADDR4, 4)
                    : version == AF_INET6 ? sized(MPTCP_PM_ADDR_ATTR_ADDR6, 16)
                                          : nullptr;
  std::array<char, INET6_ADDRSTRLEN> text {};
  if (!address || !inet_ntop(version, nla_data(address), text.data(), text.size())) return false;
  endpoint = {};
  endpoint.address = text.data();
  endpoint.id = nla_get_u8(id);
  if (nlattr* port = sized(MPTCP_PM_ADDR_ATTR_PORT, 2)) endpoint.port = nla_get_u16(port);
  if (nlattr* flags = sized(MPTCP_PM_ADDR_ATTR_FLAGS, 4)) endpoint.flags = nla_get_u32(flags);
  if (nlattr* index = sized(MPTCP_PM_ADDR_ATTR_IF_IDX, 4)) endpoint.ifindex = nla_get_s32(index);
  std::array<char, IF_NAMESIZE> name {};
  if (endpoint.ifindex > 0 && if_indextoname(static_cast<unsigned>(endpoint.ifindex), name.data()))
    endpoint.interface = name.data();
  return true;
}

struct MptcpPathManager::Parts
{
  Owned<nl_sock> socket {};
  int family = 0;

  std::string ask(std::uint8_t command, int flags, const std::function<bool(nl_msg*)>& fill,
                  const std::function<void(nlattr**)>& take = {})
  {
    Owned<nl_msg> message { nlmsg_alloc() };
    Owned<nl_cb> callbacks { nl_cb_alloc(NL_CB_DEFAULT) };
    if (!message || !callbacks
        || !genlmsg_put(message.get(), NL_AUTO_PORT, NL_AUTO_SEQ, family, 0, flags | NLM_F_REQUEST, command,
                        MPTCP_PM_VER)
        || (fill && !fill(message.get())))
      return "out of memory, or not an address";
    Outcome outcome {};
    outcome.take = take;
    nl_cb_set(callbacks.get(), NL_CB_VALID, NL_CB_CUSTOM, on_valid, &outcome);
    nl_cb_set(callbacks.get(), NL_CB_ACK, NL_CB_CUSTOM, on_end, nullptr);
    nl_cb_err(callbacks.get(), NL_CB_CUSTOM, on_error, &outcome);
    int code = nl_send_auto(socket.get(), message.get());
    if (code >= 0) code = nl_recvmsgs(socket.get(), callbacks.get());
    if (outcome.reason.empty() && code < 0) outcome.reason = nl_geterror(code);
    return outcome.reason;
  }

  std::string ask_about(std::uint8_t command, const std::function<bool(nl_msg*)>& fill)
  {
    return ask(command, NLM_F_ACK,
               [&](nl_msg* message)
               {
                 nlattr* nested = nla_nest_start(message, MPTCP_PM_ATTR_ADDR | NLA_F_NESTED);
                 if (!nested || !fill(message)) return false;
                 nla_nest_end(message, nested);
                 return true;
               });
  }
};

MptcpPathManager::MptcpPathManager() : parts_ { std::make_unique<Parts>() }
{
  Parts& p = *parts_;
  p.socket.reset(nl_socket_alloc());
  if (!p.socket) throw std::bad_alloc {};
  nl_socket_disable_auto_ack(p.socket.get()); // a question is answered by its answer
  int code = genl_connect(p.socket.get());
  if (code >= 0) code = p.family = genl_ctrl_resolve(p.socket.get(), MPTCP_PM_NAME);
  if (code < 0)
    throw std::runtime_error { std::string { "the kernel's MPTCP path manager cannot be reached: " }
                               + nl_geterror(code) };
  const int fd = nl_socket_get_fd(p.socket.get()), on = 1;
  setsockopt(fd, SOL_NETLINK, NETLINK_EXT_ACK, &on, sizeof on);
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
}

MptcpPathManager::~MptcpPathManager() = default;

std::vector<MptcpEndpoint> MptcpPathManager::endpoints()
{
  std::vector<MptcpEndpoint> all {};
  const std::string reason = parts_->ask(MPTCP_PM_CMD_GET_ADDR, NLM_F_DUMP, {},
                                         [&](nlattr** found)
                                         {
                                           MptcpEndpoint one {};
                                           if (read_endpoint(found[MPTCP_PM_ATTR_ADDR], one)) all.push_back(one);
                                         });
  if (!reason.empty()) throw std::runtime_error { "read the MPTCP endpoints: " + reason };
  return all;
}

MptcpLimits MptcpPathManager::limits()
{
  MptcpLimits limits {};
  bool seen = false;
  const std::string reason =
      parts_->ask(MPTCP_PM_CMD_GET_LIMITS, 0, {},
                  [&](nlattr** found)
                  {
                    nlattr *subflows = found[MPTCP_PM_ATTR_SUBFLOWS], *peers = found[MPTCP_PM_ATTR_RCV_ADD_ADDRS];
                    if (!subflows || !peers || nla_len(subflows) != 4 || nla_len(peers) != 4) return;
                    limits = { .subflows = nla_get_u32(subflows), .add_addr = nla_get_u32(peers) };
                    seen = true;
                  });
  if (!seen)
    throw std::runtime_error { "read the MPTCP limits: " + (reason.empty() ? "an answer without them" : reason) };
  return limits;
}

std::string MptcpPathManager::add(const std::string& address, int ifindex, std::uint32_t flags)
{
  return parts_->ask_about(MPTCP_PM_CMD_ADD_ADDR,
                           [&](nl_msg* message)
                           {
                             return put_address(message, address)
                                    && nla_put_u32(message, MPTCP_PM_ADDR_ATTR_FLAGS, flags) == 0
                                    && (ifindex == 0 || nla_put_s32(message, MPTCP_PM_ADDR_ATTR_IF_IDX, ifindex) == 0);
                           });
}

std::string MptcpPathManager::remove(const MptcpEndpoint& endpoint)
{
  // By its id; 0 would mean the first subflows of all connections.
  if (endpoint.id == 0) return "an endpoint without an id";
  return parts_->ask_about(MPTCP_PM_CMD_DEL_ADDR,
                           [&](nl_msg* message) {
                             return nla_put_u8(message, MPTCP_PM_ADDR_ATTR_ID, endpoint.id) == 0
                                    && put_address(message, endpoint.address);
                           });
}

std::string MptcpPathManager::set_backup(const MptcpEndpoint& endpoint, bool backup)
{
  // By its address: early kernels tell existing subflows only then. The flag fullmesh changes along unless repeated.
  return parts_->ask_about(
      MPTCP_PM_CMD_SET_FLAGS,
      [&](nl_msg* message)
      {
        const std::uint32_t flags = (endpoint.flags & mptcp_flag::fullmesh) | (backup ? mptcp_flag::backup : 0);
        return put_address(message, endpoint.address) && nla_put_u32(message, MPTCP_PM_ADDR_ATTR_FLAGS, flags) == 0
               && (endpoint.port == 0 || nla_put_u16(message, MPTCP_PM_ADDR_ATTR_PORT, endpoint.port) == 0);
      });
}

std::string MptcpPathManager::set_limits(const MptcpLimits& limits)
{
  return parts_->ask(MPTCP_PM_CMD_SET_LIMITS, NLM_F_ACK,
                     [&](nl_msg* message)
                     {
                       return nla_put_u32(message, MPTCP_PM_ATTR_SUBFLOWS, limits.subflows) == 0
                              && nla_put_u32(message, MPTCP_PM_ATTR_RCV_ADD_ADDRS, limits.add_addr) == 0;
                     });
}

} // namespace tandem::kernel
