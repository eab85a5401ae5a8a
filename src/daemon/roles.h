// Which interface plays which role, from what the configuration says and what is there.
#pragma once

#include "src/daemon/config.h"

#include <string>
#include <vector>

namespace tandem::daemon
{

struct Roles
{
  std::string wifi;                   // wifi
  std::string cell;                   // cell; empty: none
  std::vector<std::string> more_wifi; // wifi2 and so on
  std::vector<std::string> unused {}; // Wi-Fi interfaces beyond the eighth, when they were looked for
};

// No interface gets two roles: "auto" chooses among those that nobody names. Throws std::runtime_error with a sentence
// when no Wi-Fi interface is found. `sysfs` is /sys/class/net but for tests.
Roles find_roles(const Config::Links& links, const std::string& sysfs = "/sys/class/net");

} // namespace tandem::daemon
