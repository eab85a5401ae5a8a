// Starting and stopping the daemon: by systemd where its unit is installed, as a background process else.
#pragma once

#include "tools/tandem/client.h"

#include <string>
#include <vector>

namespace tandem::cli
{

struct UpOptions
{
  std::string config; // empty: the default file, if there is one
  std::string wifi;
  std::string cell;
  std::vector<std::string> modules;
  std::vector<std::string> default_modules; // on where nobody says on or off
  std::vector<std::string> settings;        // KEY=VALUE
  bool foreground = false;

  // Is there anything the unit's own command line does not say?
  bool any() const
  {
    return !config.empty() || !wifi.empty() || !cell.empty() || !modules.empty() || !default_modules.empty()
           || !settings.empty();
  }
};

// Returns the exit code: when in the foreground, the daemon's own. Throws Failure.
int up(const UpOptions& options, const Client& client);

// Returns when the daemon is gone and has cleared up. Throws Failure.
int down(const Client& client);

} // namespace tandem::cli
