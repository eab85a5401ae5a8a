// Guesses which interface is Wi-Fi and which is cellular when the user does not say.
#pragma once

#include <string>
#include <vector>

namespace tandem::links
{

struct Found
{
  std::string interface; // empty: none found
  std::string why;       // "wlan0 has a phy80211 in sysfs", or what to do
};

// Wi-Fi: has phy80211 or wireless in sysfs, and is no monitor interface. Cellular: device type "wwan", or a name of
// wwan*, ppp*, wwp*; USB tethering cannot be told from Ethernet and must be named by the user. Several candidates: the
// first that is up, then by name; the sentence names the others. `sysfs` is /sys/class/net but for tests.
Found find_wifi(const std::string& sysfs = "/sys/class/net");
Found find_cell(const std::string& sysfs = "/sys/class/net");
// The same, without the interfaces that have another role already.
Found find_wifi(const std::vector<std::string>& besides, const std::string& sysfs);
Found find_cell(const std::vector<std::string>& besides, const std::string& sysfs);

// All further Wi-Fi interfaces, in the same order.
std::vector<std::string> find_more_wifi(const std::vector<std::string>& besides,
                                        const std::string& sysfs = "/sys/class/net");

} // namespace tandem::links
