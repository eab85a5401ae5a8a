#include "src/daemon/health.h"

#include "src/daemon/doctor.h"
#include "src/daemon/layout.h"
#include "src/daemon/radio_matrix.h"

namespace tandem::daemon
{

nlohmann::json machine_health(const Config& config, const kernel::PacingProgram* pacing)
{
  DoctorInput input = doctor_input(config);
  input.module_directory = module_directory(config.daemon.module_dir).string();
  input.pacing = pacing;

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
