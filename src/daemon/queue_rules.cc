#include "src/daemon/queue_rules.h"

#include "src/daemon/network_text.h"
#include "src/wire/text.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace tandem::daemon
{

Wanted wanted_now(Wanted modules, bool everything, const links::LinkInfo& wifi, bool bypass)
{
  if (everything)
  {
    modules.queued |= traffic::egress | traffic::ingress;
    modules.any = true;
  }
  if (wifi.addresses.empty() || bypass) modules.queued = 0;
  return modules;
}

kernel::RulePlan rule_plan(const Wanted& wanted, const Config& config, const Roles& roles, const kernel::Marks& marks,
                           const links::LinkInfo& wifi, const Exclusions& exclusions)
{
  kernel::RulePlan plan {};
  plan.queue = config.daemon.queue;
  plan.traffic = wanted.queued;
  plan.marks = marks;
  plan.wifi = roles.wifi;
  plan.cell = roles.cell;
  for (const Address& address : wifi.addresses)
    plan.wifi_addresses.push_back(wire::to_string(address));
  if (plan.traffic == 0) return plan; // no rule, so nothing to spare from it
  // Those of the configuration first: nothing but rules keeps them out.
  std::vector<Network> networks = config.daemon.exempt_networks;
  const std::vector<Network> excluded = exclusions.networks();
  networks.insert(networks.end(), excluded.begin(), excluded.end());
  if (networks.size() > most_networks_in_rules) networks.resize(most_networks_in_rules);
  for (const Network& network : networks)
    plan.exempt_remote.push_back(prefix_text(network));
  plan.exempt_users = exclusions.users();
  plan.exempt_ports = config.daemon.exempt_ports;
  return plan;
}

std::size_t beyond_rules(const Config& config, const Exclusions& exclusions)
{
  const std::size_t all = config.daemon.exempt_networks.size() + exclusions.network_count();
  return all - std::min(all, most_networks_in_rules);
}

std::uint32_t copy_range(const Interest& interest, std::uint32_t recorded)
{
  const bool whole = (interest.decide & ~(traffic::egress_pure_ack | traffic::ingress_ack)) != 0;
  return whole ? 0xffff : std::max<std::uint32_t>(256, recorded);
}

bool Bypass::look(bool needed, bool at_once)
{
  constexpr int timeout = 2; // looks, so that a short pause takes no rule away
  if (needed)
  {
    unneeded_ = 0;
    return std::exchange(on_, false);
  }
  if (on_ || (++unneeded_ < timeout && !at_once)) return false;
  on_ = true;
  return true;
}

} // namespace tandem::daemon
