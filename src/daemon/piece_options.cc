#include "src/daemon/piece_options.h"

#include "src/chain/worth.h"
#include "src/daemon/layout.h"
#include "src/kernel/clock.h"

#include <sys/utsname.h>

#include <chrono>
#include <limits>
#include <random>
#include <utility>

namespace tandem::daemon
{

namespace
{

kernel::BackendChoice choice_of(RuleBackend backend)
{
  switch (backend)
  {
  case RuleBackend::automatic:
    return kernel::BackendChoice::automatic;
  case RuleBackend::nft:
    return kernel::BackendChoice::nftables;
  case RuleBackend::iptables:
    return kernel::BackendChoice::iptables;
  }
  return kernel::BackendChoice::automatic;
}

} // namespace

kernel::Marks marks_of(const Config::Daemon& daemon)
{
  std::uint32_t left = daemon.mark_mask;
  const auto next = [&left]
  {
    const std::uint32_t bit = left & (~left + 1);
    left &= ~bit;
    return kernel::MarkBits { bit, bit };
  };
  const kernel::MarkBits by_cell = next();
  const kernel::MarkBits injected = next();
  return { .by_cell = by_cell, .injected = injected, .release = next() };
}

kernel::KeeperOptions keeper_options(const Config::Daemon& daemon, ForKeeper for_keeper)
{
  return { .backend = choice_of(daemon.backend),
           .steering_file = (daemon.socket.parent_path() / "steering.json").string(),
           .arp_file = (daemon.socket.parent_path() / "arp_announce").string(),
           .placement_file = (daemon.socket.parent_path() / "placement.json").string(),
           .pacing_file = (daemon.socket.parent_path() / "pacing.json").string(),
           .pacing = std::move(for_keeper.pacing),
           .inherited = std::move(for_keeper.locks) };
}

kernel::RoutePlan route_plan(const Config& config, const kernel::Marks& marks, const Roles& roles)
{
  return { .cell = roles.cell,
           .mark = marks.by_cell,
           .table = config.daemon.route_table,
           .priority = config.daemon.rule_priority,
           .lower = roles.cell.empty() ? std::string {} : roles.lower.cell,
           .lower_mark = { Config::Links::Relay::mark, 0xffffffff } };
}

std::optional<trace::Recorder::Limits> recorder_limits(const Config::Recorder& recorder)
{
  if (recorder.seconds == 0) return {};
  return trace::Recorder::Limits { .keep = std::chrono::seconds { recorder.seconds },
                                   .bytes = recorder.bytes,
                                   .snap = recorder.snap };
}

chain::Chain::Options chain_options(const Config& config, std::uint64_t seed,
                                    std::function<chain::Rest(const FlowView&)> rest)
{
  return { .table = { .capacity = config.daemon.max_flows, .seed = random_seed(), .idle = config.daemon.flow_idle },
           .seed = seed,
           .cell_budget = config.budget.cell_bytes.value_or(std::numeric_limits<std::uint64_t>::max()),
           .worth = chain::worth_bytes,
           .stopwatch = [] { return kernel::now(); },
           .rest = std::move(rest) };
}

LoadedModules load_configured(const Config::Daemon& daemon)
{
  return load_modules(module_directory(daemon.module_dir));
}

std::vector<Module*> modules_of(const LoadedModules& loaded)
{
  std::vector<Module*> all {};
  for (const LoadedModule& one : loaded.modules)
    all.push_back(one.module.get());
  return all;
}

std::uint64_t random_seed()
{
  // The kernel's, not the processor's own: on a kernel in virtual time (docs/lab.md) it follows from the run's seed.
  std::random_device device { "/dev/urandom" };
  return (std::uint64_t { device() } << 32) | device();
}

std::string kernel_name()
{
  utsname names {};
  return ::uname(&names) == 0 ? std::string { names.sysname } + " " + names.release : "unknown";
}

} // namespace tandem::daemon
