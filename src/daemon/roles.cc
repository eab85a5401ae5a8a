#include "src/daemon/roles.h"

#include "src/links/find_interfaces.h"

#include <tandem/link.h>

#include <stdexcept>

namespace tandem::daemon
{

Roles find_roles(const Config::Links& links, const std::string& sysfs)
{
  std::vector<std::string> taken = links.more_wifi.value_or(std::vector<std::string> {});
  if (links.cell != "auto" && links.cell != "none") taken.push_back(links.cell);

  Roles roles;
  roles.wifi = links.wifi;
  if (links.wifi == "auto")
  {
    const links::Found found = links::find_wifi(taken, sysfs);
    if (found.interface.empty()) throw std::runtime_error { found.why };
    roles.wifi = found.interface;
  }
  taken.push_back(roles.wifi);

  if (links.cell == "auto")
    roles.cell = links::find_cell(taken, sysfs).interface;
  else if (links.cell != "none")
    roles.cell = links.cell;

  if (links.more_wifi)
  {
    roles.more_wifi = *links.more_wifi;
    return roles;
  }
  if (!roles.cell.empty()) taken.push_back(roles.cell);
  for (std::string& name : links::find_more_wifi(taken, sysfs))
    (roles.more_wifi.size() + 1 < most_wifi ? roles.more_wifi : roles.unused).push_back(std::move(name));
  return roles;
}

} // namespace tandem::daemon
