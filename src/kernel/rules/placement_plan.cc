// What a placement plan may say, and how it is told to the keeper.
#include "src/kernel/json_fields.h"
#include "src/kernel/rules/placement_rules.h"
#include "src/kernel/rules/rules.h"

#include <algorithm>
#include <bit>
#include <set>

namespace tandem::kernel
{

std::uint32_t PlacementPlan::on_wire(std::uint32_t value) const
{
  return mark.mask == 0 ? 0 : value << std::countr_zero(mark.mask);
}

void validate(const PlacementPlan& plan)
{
  const std::uint32_t low = plan.mark.mask >> std::countr_zero(plan.mark.mask | 0x8000'0000);
  if (low == 0 || std::popcount(low + 1) != 1)
    refuse("placement mark", std::to_string(plan.mark.mask), "bits side by side");
  std::set<std::uint32_t> known { placed_at_home };
  for (const PlacementLink& link : plan.links)
  {
    check_interface("placement link", link.interface);
    if (link.value <= placed_at_home || link.value > low)
      refuse("placement link", std::to_string(link.value), "a value that fits");
    if (!known.insert(link.value).second) refuse("placement link", std::to_string(link.value), "each value once");
    if (link.mtu != 0 && (link.mtu < 576 || link.mtu > 65535))
      refuse("placement mtu", std::to_string(link.mtu), "576 to 65535");
  }
  for (const auto* turns : { &plan.turns_v4, &plan.turns_v6 })
  {
    if (turns->size() > most_placement_turns)
      refuse("placement turns", std::to_string(turns->size()), "at most " + std::to_string(most_placement_turns));
    for (const std::uint32_t value : *turns)
      if (!known.contains(value)) refuse("placement turn", std::to_string(value), "the value of a link");
  }
  for (const std::uint32_t value : { plan.short_v4, plan.short_v6 })
    if (value != 0 && !known.contains(value)) refuse("placement short", std::to_string(value), "the value of a link");
  if (plan.choose) check_interface("placement home", plan.home);
  for (const std::string& address : plan.home_addresses)
    check_address("placement home", address);
  for (const auto* networks : { &plan.never_to, &plan.spread_to })
    for (const std::string& network : *networks)
      check_network("placement network", network);
}

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PlacementLink, value, interface, mtu)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PlacedCount, connections, answered, bytes_in, bytes_out, alive, rtt_us)
TANDEM_JSON_FIELDS(PlacementPlan, choose, let_go, mark, table, home, home_addresses, links, turns_v4, turns_v6,
                   short_v4, short_v6, short_ports, by_site, spread_to, spread_ports, never_to, never_ports,
                   never_users)
TANDEM_JSON_FIELDS(PlacementState, in_force, why, kept, count, last_error)

} // namespace tandem::kernel
