// A kernel that is played: the functions of nl80211::Socket, which are linked instead of those that ask the kernel. For
// one file of a program.
#pragma once

#include "src/feeder/radio/report.h"
#include "src/feeder/sources/nl80211_socket.h"

#include <linux/nl80211.h>
#include <netlink/attr.h>
#include <netlink/genl/genl.h>
#include <netlink/msg.h>
#include <netlink/socket.h>

#include <cerrno>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace tandem::feeder
{

constexpr std::uint32_t loopback = 1; // an interface that is everywhere
using Bytes = std::vector<std::byte>;

// A message of the family, as the kernel would send it.
inline Bytes message(std::uint8_t command, const std::function<void(nl_msg*)>& fill)
{
  nl_msg* m = nlmsg_alloc();
  genlmsg_put(m, 0, 0, NLMSG_MIN_TYPE, 0, 0, command, 1);
  nla_put_u32(m, NL80211_ATTR_IFINDEX, loopback);
  fill(m);
  const auto* begin = reinterpret_cast<const std::byte*>(nlmsg_hdr(m));
  Bytes out { begin, begin + nlmsg_hdr(m)->nlmsg_len };
  nlmsg_free(m);
  return out;
}

struct Kernel
{
  struct Answer
  {
    std::vector<Bytes> messages {};
    int error = 0;
  };
  std::map<std::uint8_t, Answer> lists {}; // by command
  std::map<Mac, Answer> stations {};       // asked about each
  std::vector<Bytes> events {};
  std::map<std::uint8_t, unsigned> listed {}; // times that a list was asked for, by command
  std::vector<std::uint32_t> removed {};      // interfaces, by number
  unsigned opened = 0;
};
inline Kernel* playing = nullptr;

namespace nl80211
{

void CloseSocket::operator()(nl_sock* socket) const noexcept
{
  nl_socket_free(socket);
}
int Socket::fd() const
{
  return socket_ ? 0 : -1;
}
std::string Socket::explain(const std::string& what, int error)
{
  return what + ": " + std::strerror(error);
}
int Socket::open(std::span<const char* const>)
{
  socket_.reset(nl_socket_alloc());
  ++playing->opened;
  return 0;
}
int Socket::ask(std::uint8_t command, bool dump, const std::function<void(nl_msg*)>& fill, const Take& take)
{
  nl_msg* question = nlmsg_alloc();
  genlmsg_put(question, 0, 0, NLMSG_MIN_TYPE, 0, 0, command, 1);
  if (fill) fill(question);
  Kernel::Answer answer = playing->lists[command];
  if (dump) ++playing->listed[command];
  if (command == NL80211_CMD_GET_STATION && !dump)
  {
    Mac mac {};
    const nlattr* which = nlmsg_find_attr(nlmsg_hdr(question), GENL_HDRLEN, NL80211_ATTR_MAC);
    if (which != nullptr) std::memcpy(mac.data(), nla_data(which), mac.size());
    const auto its = playing->stations.find(mac);
    answer = its == playing->stations.end() ? Kernel::Answer { {}, ENOENT } : its->second;
  }
  if (command == NL80211_CMD_DEL_INTERFACE)
    playing->removed.push_back(nla_get_u32(nlmsg_find_attr(nlmsg_hdr(question), GENL_HDRLEN, NL80211_ATTR_IFINDEX)));
  nlmsg_free(question);
  for (const Bytes& one : answer.messages)
    take(one);
  return answer.error;
}
int Socket::listen(const Take& take, unsigned)
{
  for (const Bytes& one : std::exchange(playing->events, {}))
    take(one);
  return 0;
}

} // namespace nl80211

inline Bytes interface(std::uint32_t type)
{
  return message(NL80211_CMD_NEW_INTERFACE,
                 [type](nl_msg* m)
                 {
                   nla_put_u32(m, NL80211_ATTR_WIPHY, 0);
                   nla_put_u32(m, NL80211_ATTR_IFTYPE, type);
                 });
}

inline Bytes station(const Mac& mac)
{
  return message(NL80211_CMD_NEW_STATION,
                 [&mac](nl_msg* m)
                 {
                   nla_put(m, NL80211_ATTR_MAC, static_cast<int>(mac.size()), mac.data());
                   nlattr* nest = nla_nest_start(m, NL80211_ATTR_STA_INFO);
                   nla_put_u32(m, NL80211_STA_INFO_RX_PACKETS, 7);
                   nla_nest_end(m, nest);
                 });
}

inline Bytes heard(const Mac& mac, bool associated)
{
  return message(NL80211_CMD_NEW_SCAN_RESULTS,
                 [&](nl_msg* m)
                 {
                   nlattr* nest = nla_nest_start(m, NL80211_ATTR_BSS);
                   nla_put(m, NL80211_BSS_BSSID, static_cast<int>(mac.size()), mac.data());
                   nla_put_u32(m, NL80211_BSS_FREQUENCY, 2412);
                   if (associated) nla_put_u32(m, NL80211_BSS_STATUS, NL80211_BSS_STATUS_ASSOCIATED);
                   nla_nest_end(m, nest);
                 });
}

} // namespace tandem::feeder
