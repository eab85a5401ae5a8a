// What to change in the path manager so that it is as a plan wants it. Pure.
#pragma once

#include "src/kernel/mptcp/mptcp_pm.h"
#include "src/kernel/mptcp/mptcp_subflows.h"
#include "src/kernel/mptcp/undo_journal.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tandem::kernel
{

struct MptcpStep
{
  enum class Kind : std::uint8_t
  {
    limits,
    add,
    backup,
    remove,
  };
  Kind kind = Kind::limits;
  MptcpEndpoint endpoint {}; // add: address, ifindex, flags; backup: as it is now; remove
  bool backup = false;       // the flag's new value
  MptcpLimits limits {};

  bool operator==(const MptcpStep&) const = default;
};

struct PathManagerView
{
  std::vector<MptcpEndpoint> endpoints {};
  MptcpLimits limits {};
  std::map<std::string, int> interfaces {}; // index of those that a plan names and that are there
  // No value: they cannot be told. Needed when an endpoint is to be removed.
  std::optional<std::vector<MptcpSubflow>> subflows {};
};

struct MptcpChange
{
  std::vector<MptcpStep> steps {};
  std::vector<RefusedRequest> refused {};
  UndoJournal journal {}; // to be written before the first step
};

// Tells own endpoints from others' by the journal: sets `own`.
void claim(std::vector<MptcpEndpoint>& endpoints, const UndoJournal& journal);

// The kernel closes the subflows of an endpoint that is removed, the first one of a connection too. A removal that
// would leave a connection without any subflow, where it would stall until it times out, is refused; of several such
// endpoints the one by which most connections were opened stays.
MptcpChange mptcp_change(const SteeringPlan& plan, const PathManagerView& now, const UndoJournal& journal);

} // namespace tandem::kernel
