// What this machine offers Tandem, and what stands in its way: the checks behind `tandem doctor`.
#pragma once

#include "src/daemon/config.h"
#include "src/kernel/pacing/socket_pacing.h"
#include "src/kernel/rules/policy_route.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::daemon
{

enum class Health : std::uint8_t
{
  ok,
  warn,   // Tandem runs, with less gain or at the user's own risk
  fail,   // Tandem cannot work like this
  absent, // an optional part that is not there
};

constexpr std::string_view name(Health health)
{
  switch (health)
  {
  case Health::ok:
    return "ok";
  case Health::warn:
    return "warn";
  case Health::fail:
    return "fail";
  case Health::absent:
    return "absent";
  }
  return "?";
}

struct Check
{
  std::string name; // "nft queue expression"
  Health health = Health::ok;
  std::string found;  // what was seen
  std::string remedy; // what to do; empty when there is nothing to do
};

struct DoctorInput
{
  std::string wifi {}; // interface names; empty: detect
  std::string cell {};
  bool no_cell = false;      // the configuration wants none
  std::string relay_wifi {}; // tunnels to a relay; empty: there is none
  std::string relay_cell {};
  std::uint16_t queue = 84;
  std::uint32_t mark_mask = 0x70000000; // bits of the firewall mark: those that can be chosen, and
  std::uint32_t placement_mask = 0;     // those of placement, while it is switched on
  kernel::RoutePlan route {};
  std::string module_directory {};               // empty: not checked
  std::string run_directory {};                  // of the daemon
  const kernel::PacingProgram* pacing = nullptr; // of the daemon that asks; null: whether one can be loaded is tried
};

// What a daemon with this configuration would use of the machine; `module_directory` and `pacing` are left empty.
DoctorInput doctor_input(const Config& config);

// Looks only: changes nothing that outlasts the call. Never throws; a check that cannot be made says so. Takes up to a
// second or two (it asks nft and iptables).
std::vector<Check> examine(const DoctorInput& input);

} // namespace tandem::daemon
