// What modules request of the links, and when the keeper is told: the newest plan, at most ten a second. Pure; the
// caller owns the timer and the keeper.
#pragma once

#include "src/chain/chain.h"
#include "src/daemon/link_requests.h"
#include "src/flow/table.h"
#include "src/kernel/keeper/keeper_state.h"
#include "src/kernel/mptcp/steering.h"
#include "src/links/link_table.h"

#include <tandem/units.h>

#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace tandem::daemon
{

class SteeringController
{
public:
  explicit SteeringController(const RequestSettings& settings) : requests_ { settings } {}

  // Each of these may change what is wanted: ask due() soon.
  void take(const chain::ModuleRequest& request);
  void lapse(std::uint8_t slot) { requests_.lapse(slot); } // the module is off
  void links_changed(const links::LinkTable& table);
  // True: what is wanted may have changed.
  bool gate(CellUse cell) { return std::exchange(cell_, cell) != cell; }
  // Interfaces whose access points the card is mostly away from.
  void away(std::set<std::string> interfaces) { away_ = std::move(interfaces); }
  bool is_away(const std::string& interface) const { return away_.contains(interface); }
  // A look at the module, now and then: one that failed, or has had no flow for a while, cannot take back what it
  // requested. True: what is wanted may have changed.
  bool look(std::uint8_t slot, const chain::Chain::ModuleStats& module, Tick now);

  // The plan that the keeper is to be told now, if any; it counts as told. Call every 100 ms while settled() is false.
  std::optional<kernel::SteeringPlan> due(const links::LinkTable& table, Tick now);
  // What due() gave last did not reach the keeper: the plan of now is given when it is next asked for, in a while.
  void not_sent() { told_.reset(), told_newest_ = false; }
  // What the keeper could not do may be possible by now: another program's endpoints have gone, or MPTCP was switched
  // on, and nobody tells of either. True, once in a while: the plan of now is given again, ask due() soon.
  bool again(const kernel::SteeringState& state, Tick now);
  bool settled() const { return told_newest_ && requests_.settled(); }

  const LinkRequests& requests() const { return requests_; }
  std::uint64_t taken() const { return taken_; }

private:
  struct Requester
  {
    std::uint64_t excluded = 0; // as last seen
    Tick flowless {};           // since when the module has no flow
  };

  LinkRequests requests_;
  CellUse cell_ = CellUse::allowed;
  std::set<std::string> away_ {};
  std::uint64_t taken_ = 0;
  std::optional<kernel::SteeringPlan> told_ { kernel::SteeringPlan {} }; // nothing: not known what the keeper has
  Tick told_at_ {};
  bool told_newest_ = true;
  std::array<Requester, flow::max_modules> requesters_ {};
};

// What a change of the keeper's state means for the daemon.
struct KeeperChange
{
  bool steering_only = false;           // or placement, or pacing: rules, routes and errors are as they were
  std::vector<std::string> warnings {}; // for the log
};

KeeperChange compare(const kernel::KeeperState& before, const kernel::KeeperState& after);

} // namespace tandem::daemon
