// What the daemon knows, as the control API tells it: one piece of it each, from data that is handed in.
#pragma once

#include "src/chain/chain.h"
#include "src/daemon/config.h"
#include "src/daemon/datapath.h"
#include "src/daemon/link_requests.h"
#include "src/kernel/keeper/keeper_state.h"
#include "src/kernel/mptcp/steering.h"
#include "src/links/link_table.h"

#include <tandem/link.h>
#include <tandem/module.h>
#include <tandem/units.h>

#include <nlohmann/json.hpp>

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace tandem::daemon
{

// "wifi" and "cell" are always there, the further ones when an interface has the role.
nlohmann::json each_link_json(const links::LinkTable& links, const std::function<nlohmann::json(Link)>& of);
nlohmann::json link_json(const links::LinkInfo& info, const LinkState& state);

// What is requested of the link, and what is in force. Nothing without either.
nlohmann::json link_steering_json(Link link, const std::string& interface, const LinkRequests& requests,
                                  chain::Chain& chain, const kernel::SteeringState& state);
nlohmann::json steering_json(const kernel::SteeringState& state, bool setup, bool foreign);

// At most a thousand, of more those that carry something and were seen last: it is more than anyone reads, and the
// packet thread must not be held up.
nlohmann::json flows_json(chain::Chain& chain, Tick now);
nlohmann::json flow_table_json(const flow::Table& table);

// Whether the rules that are wanted reach packets.
struct RulesStatus
{
  bool in_force = true;
  std::string why {}; // not; empty while the keeper's answer is awaited
  Duration retry {};  // until they are tried again; zero: no retry is due
};
nlohmann::json rules_json(const RulesStatus& rules);
nlohmann::json module_json(chain::Chain& chain, std::size_t i, const RulesStatus& rules);
nlohmann::json modules_json(chain::Chain& chain, const RulesStatus& rules);
// Markdown, with the table of knobs.
std::string manual_text(const Module& module);

// {name, why, from, sets, profiles: [{name, ssid}]}: which profile holds (`held`; empty: none) and what it sets.
nlohmann::json profile_json(const std::vector<Profile>& all, const std::string& held, const std::string& network);

nlohmann::json counters_json(const Datapath::Counters& counters);
nlohmann::json faults_json(const Datapath::Counters& counters);
nlohmann::json keeper_json(const kernel::KeeperState& keeper, int pid);

} // namespace tandem::daemon
