// What the pieces of the packet loop begin with, from the configuration.
#pragma once

#include "src/chain/chain.h"
#include "src/daemon/config.h"
#include "src/daemon/module_loader.h"
#include "src/daemon/roles.h"
#include "src/kernel/keeper/keeper.h"
#include "src/kernel/marks.h"
#include "src/kernel/rules/policy_route.h"
#include "src/trace/recorder.h"

#include <tandem/module.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace tandem::daemon
{

// One bit of the configured mask for each kind of packet, from the lowest.
kernel::Marks marks_of(const Config::Daemon& daemon);

// What was opened before the keeper's process began, which inherits it.
struct ForKeeper
{
  std::vector<int> locks {}; // descriptors
  kernel::PacingProgram pacing {};
};
kernel::KeeperOptions keeper_options(const Config::Daemon& daemon, ForKeeper for_keeper);

// What leaves by the cellular link although the main table has another route.
kernel::RoutePlan route_plan(const Config& config, const kernel::Marks& marks, const Roles& roles);

// Nothing: the recorder is off.
std::optional<trace::Recorder::Limits> recorder_limits(const Config::Recorder& recorder);

// `seed`: of every decision that needs chance. `rest`: see Chain::Options.
chain::Chain::Options chain_options(const Config& config, std::uint64_t seed,
                                    std::function<chain::Rest(const FlowView&)> rest);

LoadedModules load_configured(const Config::Daemon& daemon);
std::vector<Module*> modules_of(const LoadedModules& loaded);

std::uint64_t random_seed();
std::string kernel_name(); // "Linux 6.1.0"

} // namespace tandem::daemon
