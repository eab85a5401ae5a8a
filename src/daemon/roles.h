// Which interface plays which role, from what the configuration says and what is there.
#pragma once

#include "src/daemon/config.h"
#include "src/links/link_table.h"

#include <tandem/units.h>

#include <string>
#include <vector>

namespace tandem::daemon
{

struct Roles
{
  std::string wifi;                   // wifi; empty: none is there (yet)
  std::string cell;                   // cell; empty: none
  links::LowerInterfaces lower {};    // what is below these two where they are the tunnels to a relay
  std::vector<std::string> more_wifi; // wifi2 and so on; empty: the one that had the role is gone
  std::vector<std::string> unused {}; // Wi-Fi interfaces beyond the eighth, when they were looked for
  std::string wifi_why {};            // "has a phy80211 in sysfs", "named in the configuration", or what is waited for
  std::string cell_why {};

  bool same_interfaces(const Roles& other) const
  {
    return wifi == other.wifi && cell == other.cell && more_wifi == other.more_wifi && lower == other.lower;
  }
  // The card and the modem, whatever is above them.
  const std::string& wifi_card() const { return lower.wifi.empty() ? wifi : lower.wifi; }
  const std::string& modem() const { return lower.wifi.empty() ? cell : lower.cell; }
};

struct FoundRoles
{
  Roles roles {};
  Tick again = Tick::max(); // when they have to be looked for again, if nothing happens before
};

// Virtual stations of Tandem's own (src/association) are further Wi-Fi interfaces, whatever is named. No interface gets
// two roles: "auto" chooses among those that nobody names. Who has a role keeps it while it exists, because a blackout
// must not hand it on; only when it had no carrier or no default route for 30 s, while another has both, is the other
// one taken. Where the relay's tunnel by Wi-Fi is there, the tunnels are above what was found; without the one by the
// cellular link nothing leaves by that. `before`: who has them now. `sysfs` is /sys/class/net but for tests.
FoundRoles find_roles(const Config::Links& links, const Roles& before,
                      const std::vector<links::PresentInterface>& present, Tick now,
                      const std::string& sysfs = "/sys/class/net");

} // namespace tandem::daemon
