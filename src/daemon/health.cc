#include "src/daemon/health.h"

#include "src/daemon/doctor.h"
#include "src/daemon/layout.h"
#include "src/daemon/radio_matrix.h"

namespace tandem::daemon
{
namespace
{

// "auto" is for the checks to find out.
std::string named(const std::string& interface)
{
  return interface == "auto" || interface == "none" ? "" : interface;
}

} // namespace

nlohmann::json machine_health(const Config& config, const kernel::PacingProgram* pacing)
{
  const auto& given = config.daemon;
  DoctorInput input { .wifi = named(config.links.wifi),
                      .cell = named(config.links.cell),
                      .no_cell = config.links.cell == "none",
                      .queue = given.queue,
                      .module_directory = module_directory(given.module_dir).string(),
                      .run_directory = given.socket.parent_path().string(),
                      .pacing = pacing };
  input.route.table = given.route_table;
  input.route.priority = given.rule_priority;

  auto checks = nlohmann::json::array();
  bool warned = false;
  bool failed = false;
  for (const Check& check : examine(input))
  {
    warned = warned || check.health == Health::warn;
    failed = failed || check.health == Health::fail;
    checks.push_back({ { "name", check.name },
                       { "health", name(check.health) },
                       { "found", check.found },
                       { "remedy", check.remedy } });
  }
  return { { "health", failed   ? "fail"
                       : warned ? "warn"
                                : "ok" },
           { "checks", std::move(checks) },
           { "radio", radio_matrix(config) } };
}

} // namespace tandem::daemon
