#include "src/feeder/sources/nl80211_network.h"

#include "src/feeder/sources/nl80211_decode.h"
#include "src/feeder/sources/nl80211_socket.h"

#include <linux/nl80211.h>
#include <netlink/attr.h>

#include <cstdint>

namespace tandem::feeder::nl80211
{

std::optional<std::string> network_name(int ifindex)
{
  Socket socket {};
  if (socket.open() != 0) return {};
  std::optional<Interface> found {};
  const auto wanted = static_cast<std::uint32_t>(ifindex);
  static_cast<void>(socket.ask(
      NL80211_CMD_GET_INTERFACE, false, [wanted](nl_msg* m) { nla_put_u32(m, NL80211_ATTR_IFINDEX, wanted); },
      [&](std::span<const std::byte> bytes) { found = decode_interface(bytes); }));
  if (!found || found->ssid.empty()) return {};
  return found->ssid;
}

} // namespace tandem::feeder::nl80211
