#include "src/feeder/sources/nl80211_network.h"

#include "src/feeder/sources/nl80211_decode.h"
#include "src/feeder/sources/nl80211_socket.h"

#include <linux/nl80211.h>
#include <netlink/attr.h>

#include <cstdint>
#include <variant>

namespace tandem::feeder::nl80211
{

std::optional<std::string> network_name(int ifindex)
{
  Socket socket {};
  if (socket.open() != 0) return {};
  std::string name {};
  const auto wanted = [ifindex](nl_msg* m)
  { nla_put_u32(m, NL80211_ATTR_IFINDEX, static_cast<std::uint32_t>(ifindex)); };
  static_cast<void>(socket.ask(NL80211_CMD_GET_INTERFACE, false, wanted,
                               [&](std::span<const std::byte> bytes)
                               {
                                 if (const auto one = decode_interface(bytes)) name = one->ssid;
                               }));
  // Where user space associates (wpa_supplicant with mac80211), kernels such as 6.1 know no name of the interface's
  // own, but what they have heard of its access point.
  if (name.empty())
    static_cast<void>(socket.ask(NL80211_CMD_GET_SCAN, true, wanted,
                                 [&](std::span<const std::byte> bytes)
                                 {
                                   const auto message = decode(bytes);
                                   if (!message) return;
                                   const auto* heard = std::get_if<Candidate>(&message->what);
                                   if (heard != nullptr && heard->associated) name = heard->ssid;
                                 }));
  return name.empty() ? std::nullopt : std::optional { name };
}

} // namespace tandem::feeder::nl80211
