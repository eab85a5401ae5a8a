#include "src/kernel/mptcp/steering.h"

#include "src/kernel/json_fields.h"
#include "src/kernel/rules/rules.h"

#include <set>

namespace tandem::kernel
{

void validate(const SteeringPlan& plan)
{
  if (plan.ce.size() > most_steered || plan.paths.size() > most_steered)
    refuse("steering", std::to_string(std::max(plan.ce.size(), plan.paths.size())) + " interfaces",
           "at most " + std::to_string(most_steered));
  std::set<std::string> seen {};
  for (const CeRule& rule : plan.ce)
  {
    check_interface("ce", rule.interface);
    if (!seen.insert(rule.interface).second) refuse("ce", rule.interface, "each interface once");
    if (!(rule.rate >= 0 && rule.rate <= 1)) refuse("ce rate", std::to_string(rule.rate), "0 to 1");
  }
  for (const SteeringPath& path : plan.paths)
  {
    check_interface("path", path.interface);
    if (const std::size_t most = std::max(path.addresses.size(), path.deprecated.size()); most > most_path_addresses)
      refuse("path " + path.interface, std::to_string(most) + " addresses",
             "at most " + std::to_string(most_path_addresses));
    for (const auto* all : { &path.addresses, &path.deprecated })
      for (const std::string& address : *all)
        check_address("path " + path.interface, address);
  }
}

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CeRule, interface, rate)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(SteeringPath, interface, addresses, deprecated, endpoint, backup,
                                                backup_stays)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(MptcpEndpoint, address, port, id, ifindex, flags, own, interface)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RefusedRequest, what, why)
TANDEM_JSON_FIELDS(SteeringPlan, ce, paths, setup, foreign)
TANDEM_JSON_FIELDS(SteeringState, ce_backend, ce_why, ce, mptcp_why, endpoints, limit_subflows, limit_add_addr, refused,
                   recovered, last_error, suspended, plans, ce_changes, flag_changes, endpoints_added,
                   endpoints_deleted)

} // namespace tandem::kernel
