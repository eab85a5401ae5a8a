#include "src/association/power_save.h"

#include "src/kernel/clock.h"

#include <linux/nl80211.h>
#include <net/if.h>
#include <netlink/attr.h>

#include <cerrno>

namespace tandem::association
{

namespace nl80211 = feeder::nl80211;

Presence::Report PowerSave::order(const std::string& station, bool present)
{
  const std::uint32_t ifindex = if_nametoindex(station.c_str());
  int error = ifindex == 0 ? ENODEV : 0;
  if (error == 0 && !socket_) error = socket_.open();
  if (error == 0)
    error = socket_.ask(
        NL80211_CMD_SET_POWER_SAVE, false,
        [&](nl_msg* m)
        {
          nla_put_u32(m, NL80211_ATTR_IFINDEX, ifindex);
          nla_put_u32(m, NL80211_ATTR_PS_STATE, present ? NL80211_PS_DISABLED : NL80211_PS_ENABLED);
        },
        nullptr);
  return { kernel::now(), error == 0 ? std::string {} : nl80211::Socket::explain("power save of " + station, error) };
}

} // namespace tandem::association
