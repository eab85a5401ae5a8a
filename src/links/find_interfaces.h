// Guesses which interface is Wi-Fi and which is cellular when the user does not say.
#pragma once

#include <string>
#include <vector>

namespace tandem::links
{

// An interface that looks like one of the kind asked for.
struct Candidate
{
  std::string name;
  std::string sign; // "has a phy80211 in sysfs"
  bool up = false;  // by operstate
};

struct Found
{
  std::string interface; // empty: none found
  std::string why;       // "wlan0 has a phy80211 in sysfs", or what to do
};

// Wi-Fi: has phy80211 or wireless in sysfs, and is no monitor interface. Cellular: device type "wwan", a name of wwan*,
// ppp*, wwp*, a phone by Bluetooth (device type "bluetooth") or by a USB driver that only phones have (ipheth,
// rndis_host), or by another one (cdc_ncm, cdc_ether, cdc_eem) with an Ethernet address of its own making (locally
// administered), where a dock has its maker's.
// Several candidates: the first that is up, then by name; the sentence names the others. `sysfs` is /sys/class/net but
// for tests.
Found find_wifi(const std::string& sysfs = "/sys/class/net");
Found find_cell(const std::string& sysfs = "/sys/class/net");
// The same, without the interfaces that have another role already.
Found find_wifi(const std::vector<std::string>& besides, const std::string& sysfs);
Found find_cell(const std::vector<std::string>& besides, const std::string& sysfs);

// All there are besides those, in the same order.
std::vector<Candidate> wifi_candidates(const std::vector<std::string>& besides, const std::string& sysfs);
std::vector<Candidate> cell_candidates(const std::vector<std::string>& besides, const std::string& sysfs);

} // namespace tandem::links
