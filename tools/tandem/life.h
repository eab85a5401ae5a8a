// Starting and stopping the daemon: by systemd where its unit is installed and would do what is asked for, as a
// background process else.
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

// Where the command is called, as far as it matters for who starts and stops the daemon.
struct Caller
{
  bool unit_installed = false;  // and systemd runs
  bool machines_network = true; // that of process 1; not the lab's, for one
  bool default_socket = true;
};

// Whether systemd does it: its daemon is in the machine's network and listens on the default socket.
constexpr bool by_systemd(const Caller& caller)
{
  return caller.unit_installed && caller.machines_network && caller.default_socket;
}

// Returns the exit code: when in the foreground, the daemon's own. Throws Failure.
int up(const UpOptions& options, const Client& client);

// Returns when the daemon is gone and has cleared up. Throws Failure.
int down(const Client& client);

} // namespace tandem::cli
