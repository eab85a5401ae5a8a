#include "src/daemon/roles.h"

#include "src/association/choice.h"
#include "src/links/find_interfaces.h"

#include <tandem/link.h>

#include <algorithm>
#include <cstddef>
#include <utility>

namespace tandem::daemon
{

namespace
{

using namespace std::chrono_literals;
using links::Candidate;
using links::PresentInterface;

// Longer than roaming, DHCP and the blackouts that freeze carries flows over.
constexpr Duration useless_for = 30s;

const PresentInterface* find(const std::vector<PresentInterface>& present, const std::string& name)
{
  const auto found = std::find_if(present.begin(), present.end(), [&](const auto& one) { return one.name == name; });
  return found == present.end() ? nullptr : &*found;
}

bool useful(const std::vector<PresentInterface>& present, const std::string& name)
{
  const PresentInterface* one = find(present, name);
  return one != nullptr && one->useful;
}

// The candidate that gets the role; nothing when there is none.
const Candidate* choose(const std::vector<Candidate>& all, const std::string& holder,
                        const std::vector<PresentInterface>& present, Tick now, Tick& again)
{
  if (all.empty()) return nullptr;
  auto best = std::find_if(all.begin(), all.end(), [&](const Candidate& one) { return useful(present, one.name); });
  const bool any_useful = best != all.end();
  if (!any_useful) best = all.begin();
  const auto has_it = std::find_if(all.begin(), all.end(), [&](const Candidate& one) { return one.name == holder; });
  if (has_it == all.end()) return &*best;
  const PresentInterface* its = find(present, holder);
  if (its == nullptr || its->useful || !any_useful) return &*has_it;
  const Tick due = its->since + useless_for;
  if (now >= due) return &*best;
  again = std::min(again, due);
  return &*has_it;
}

// Who has a place keeps it, so that no link changes its number; who is new takes the first free one.
void place_more(Roles& roles, const std::vector<std::string>& before, const std::vector<Candidate>& all)
{
  const auto is_there = [&](const std::string& name)
  { return std::any_of(all.begin(), all.end(), [&](const Candidate& one) { return one.name == name; }); };
  for (const std::string& name : before)
    roles.more_wifi.push_back(is_there(name) ? name : std::string {});
  for (const Candidate& one : all)
  {
    auto& places = roles.more_wifi;
    if (std::find(places.begin(), places.end(), one.name) != places.end()) continue;
    if (const auto free = std::find(places.begin(), places.end(), ""); free != places.end())
      *free = one.name;
    else
      (places.size() + 1 < most_wifi ? places : roles.unused).push_back(one.name);
  }
  while (!roles.more_wifi.empty() && roles.more_wifi.back().empty())
    roles.more_wifi.pop_back();
}

// The tunnels take the roles of what they leave by.
void put_above(Roles& roles, const Config::Links::Relay& relay, const std::vector<PresentInterface>& present)
{
  if (relay.wifi.empty() || roles.wifi.empty() || find(present, relay.wifi) == nullptr) return;
  roles.wifi_why = "to the relay, by " + roles.wifi + ": " + roles.wifi_why;
  roles.lower.wifi = std::exchange(roles.wifi, relay.wifi);
  if (roles.cell.empty()) return;
  if (!relay.cell.empty() && find(present, relay.cell) != nullptr)
  {
    roles.cell_why = "to the relay, by " + roles.cell + ": " + roles.cell_why;
    roles.lower.cell = std::exchange(roles.cell, relay.cell);
    return;
  }
  // Servers see the relay's address: nothing that leaves past it is of a connection of theirs.
  roles.lower.cell = std::exchange(roles.cell, "");
  roles.cell_why = relay.cell.empty() ? "no tunnel to the relay by " + roles.lower.cell + " is named (links.relay)"
                                      : relay.cell + ", to the relay by " + roles.lower.cell + ", is not there";
}

constexpr const char* named = "named in the configuration";

bool is_virtual_station(const Candidate& one)
{
  return one.name.starts_with(association::own_prefix);
}

} // namespace

FoundRoles find_roles(const Config::Links& links, const Roles& before, const std::vector<PresentInterface>& present,
                      Tick now, const std::string& sysfs)
{
  std::vector<std::string> taken = links.more_wifi.value_or(std::vector<std::string> {});
  if (links.cell != "auto" && links.cell != "none") taken.push_back(links.cell);

  FoundRoles found {};
  Roles& roles = found.roles;
  roles.wifi = links.wifi;
  roles.wifi_why = named;
  if (links.wifi == "auto")
  {
    std::vector<Candidate> all = links::wifi_candidates(taken, sysfs);
    // Beside the card's own association, never in its place.
    std::erase_if(all, is_virtual_station);
    const Candidate* one = choose(all, before.wifi_card(), present, now, found.again);
    roles.wifi = one != nullptr ? one->name : std::string {};
    roles.wifi_why = one != nullptr ? one->sign : "no Wi-Fi interface is there; Tandem waits for one";
  }
  if (!roles.wifi.empty()) taken.push_back(roles.wifi);

  if (links.cell == "auto")
  {
    const std::vector<Candidate> all = links::cell_candidates(taken, sysfs);
    const Candidate* one = choose(all, before.modem(), present, now, found.again);
    roles.cell = one != nullptr ? one->name : std::string {};
    roles.cell_why = one != nullptr ? one->sign
                                    : "no cellular interface is there; Tandem waits for one (a tethered phone that "
                                      "has a maker's Ethernet address must be named: links.cell)";
  }
  else if (links.cell == "none")
    roles.cell_why = "none is to be used (links.cell)";
  else
  {
    roles.cell = links.cell;
    roles.cell_why = named;
  }

  if (!roles.cell.empty()) taken.push_back(roles.cell);
  std::vector<Candidate> more = links::wifi_candidates(taken, sysfs);
  std::vector<std::string> placed = before.more_wifi;
  if (links.more_wifi)
  {
    // Behind those that are named there are places for virtual stations, and for nothing else.
    roles.more_wifi = *links.more_wifi;
    std::erase_if(more, [](const Candidate& one) { return !is_virtual_station(one); });
    placed.erase(placed.begin(),
                 placed.begin() + static_cast<std::ptrdiff_t>(std::min(placed.size(), roles.more_wifi.size())));
  }
  place_more(roles, placed, more);
  put_above(roles, links.relay, present);
  return found;
}

} // namespace tandem::daemon
