// The whole status, gathered from the running pieces of the daemon. On the packet thread.
#pragma once

#include "src/chain/chain.h"
#include "src/daemon/config.h"
#include "src/daemon/current_network.h"
#include "src/daemon/datapath.h"
#include "src/daemon/evidence_driver.h"
#include "src/daemon/exclusion_driver.h"
#include "src/daemon/fetch_broker.h"
#include "src/daemon/link_radio.h"
#include "src/daemon/observers.h"
#include "src/daemon/pacing_book.h"
#include "src/daemon/placement_driver.h"
#include "src/daemon/roles.h"
#include "src/daemon/setting_layers.h"
#include "src/daemon/status_json.h"
#include "src/daemon/steering_controller.h"
#include "src/daemon/wifi_watch.h"
#include "src/kernel/keeper/keeper.h"
#include "src/kernel/packet/packet_queue.h"
#include "src/links/cell_cost.h"
#include "src/links/link_table.h"
#include "src/links/routing.h"

#include <tandem/link.h>
#include <tandem/units.h>

#include <nlohmann/json.hpp>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace tandem::daemon
{

// Where the status comes from; valid during the call.
struct StatusSources
{
  const Config& config;
  const std::vector<std::string>& problems; // of loading modules
  chain::Chain& chain;
  const links::LinkTable& links;
  const Roles& roles;
  const Datapath& datapath;
  const kernel::PacketQueue& queue;
  bool bypassed; // no rule queues anything
  RulesStatus rules;
  const SteeringController& steering;
  const PlacementDriver& placement;
  const PacingBook& pacing;
  const FetchBroker& fetching;
  const kernel::Keeper& keeper;
  const Observers& observers;
  WifiWatch& watch;
  std::map<Link, LinkRadio>& more_radio; // of the further Wi-Fi links
  const EvidenceDriver& evidence;
  const ExclusionDriver& exclusions;
  const SettingLayers& settings;
  const CurrentNetwork& network;
  const std::string& hands_off;             // why no flow is taken on; empty: no reason
  std::vector<links::Routing::Aside> aside; // routes into tunnels that lead to a part of the Internet
  std::uint64_t times_off;                  // how often that began
  std::uint64_t sleeps;                     // of the machine
  links::CellCost cell_cost;
  const std::string& cell_denied; // why nothing goes by the cellular link
  Duration uptime;
};

// As control::Backend::status() and links() tell it.
nlohmann::json status_json(const StatusSources& from);
nlohmann::json all_modules_json(const StatusSources& from);
nlohmann::json links_json(const StatusSources& from);

} // namespace tandem::daemon
