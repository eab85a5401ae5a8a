// What the daemon and the keeper's process say to each other of the keeper.
#pragma once

#include "src/kernel/mptcp/steering.h"
#include "src/kernel/pacing/pacing_plan.h"
#include "src/kernel/pacing/socket_pacing.h"
#include "src/kernel/rules/placement_rules.h"
#include "src/kernel/rules/policy_route.h"
#include "src/kernel/rules/rules.h"

#include <tandem/units.h>

#include <nlohmann/json_fwd.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::kernel
{

constexpr std::size_t keeper_message_limit = 64 * 1024; // bytes of one command or answer

struct KeeperOptions
{
  BackendChoice backend = BackendChoice::automatic;
  Duration timeout = std::chrono::milliseconds { 300 }; // the heartbeat may be missing this long
  Duration period = std::chrono::milliseconds { 100 };  // between looks at the heartbeat
  // Where the keeper notes which MPTCP endpoints, flags and limits it changed, for the next start after both it and the
  // daemon were killed. A file in the daemon's run directory, which only root can write. Empty: nothing is noted.
  std::string steering_file {};
  // Likewise for the cellular interface's arp_announce.
  std::string arp_file {};
  // Likewise for the rules and routes that placed connections need.
  std::string placement_file {};
  // Likewise for sockets whose pacing is bounded. `pacing`: by what; loaded before the rights to do so were given up.
  std::string pacing_file {};
  PacingProgram pacing {};
  // Descriptors that the keeper keeps open: locks which the next daemon waits for until everything is undone.
  std::vector<int> inherited {};
};

struct KeeperState
{
  enum class Phase : std::uint8_t
  {
    idle,      // no rules wanted
    armed,     // rules in place
    suspended, // rules wanted, but the packet loop hangs: taken away
    lost,      // the keeper itself is gone: nothing watches any more
  };
  Phase phase = Phase::idle;
  bool watching = false; // looks at the heartbeat: something is in force that has to go when the packet loop hangs
  Tick since {};
  std::uint64_t suspensions = 0; // how often the packet loop stood still
  Duration suspended_total {};   // completed suspensions only
  std::uint64_t applied = 0;     // rule sets loaded
  std::uint64_t restored = 0;    // rules or the ip rule that somebody took away, put back
  std::string backend;           // RuleBackend::name()
  std::string why;               // RuleBackend::why()
  RouteState route {};
  SteeringState steering {};
  PlacementState placement {};
  PacingState pacing {};
  std::string last_error; // of the last failed command, empty when the last one succeeded
};

constexpr std::string_view name(KeeperState::Phase phase)
{
  switch (phase)
  {
  case KeeperState::Phase::idle:
    return "idle";
  case KeeperState::Phase::armed:
    return "armed";
  case KeeperState::Phase::suspended:
    return "suspended";
  case KeeperState::Phase::lost:
    return "lost";
  }
  return "?";
}

void to_json(nlohmann::json& out, const KeeperState& state);
void from_json(const nlohmann::json& in, KeeperState& state);

} // namespace tandem::kernel
