// What to change in the path manager so that it is as a plan wants it. Pure.
#pragma once

#include "src/kernel/mptcp/mptcp_pm.h"
#include "src/kernel/mptcp/mptcp_subflows.h"
#include "src/kernel/mptcp/undo_journal.h"

#include <map>
#include <optional>
#include <set>
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
  bool backup = false;       // the flag's new value; remove: when the endpoint has to stay
  MptcpLimits limits {};
  bool replaced = false; // remove: an endpoint of the same address is added next

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

// What the removal of an endpoint does to connections: the kernel closes its subflows, the first one of a connection
// too.
struct RemovalCost
{
  std::size_t stalled = 0; // connections without any sound subflow afterwards: they would stall until they time out
  // First subflows of the others. They are to be ended by a reset afterwards: Linux (6.18) sends a FIN and keeps them,
  // acknowledges what comes by them and drops it. A server that has closed, too, and did not hear REMOVE_ADDR, which is
  // said once, sends by them again and again to its end.
  std::vector<TcpSocketName> half_closed {};
};

// `gone`: addresses whose endpoints are removed along with it.
RemovalCost removal_cost(const std::string& address, const std::set<std::string>& gone,
                         const std::vector<MptcpSubflow>& subflows);
std::string stall_words(std::size_t connections);

// A removal by which a connection would stall is refused; of several such endpoints the one by which most connections
// were opened stays. Whoever carries it out asks for the cost again: connections begin at any moment.
MptcpChange mptcp_change(const SteeringPlan& plan, const PathManagerView& now, const UndoJournal& journal);

// The plan for while nobody decides: without marks, and without the backup flags that modules asked for.
SteeringPlan unattended(SteeringPlan plan);
// Whether any of that is in force, by the endpoints as they are.
bool needs_attention(const SteeringPlan& plan, const std::vector<CeRule>& marks,
                     const std::vector<MptcpEndpoint>& endpoints, const UndoJournal& journal);

} // namespace tandem::kernel
