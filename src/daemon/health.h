// The machine's fitness for Tandem as JSON: what `tandem doctor` and GET /v1/doctor show.
#pragma once

#include "src/daemon/config.h"
#include "src/kernel/pacing/socket_pacing.h"

#include <nlohmann/json.hpp>

namespace tandem::daemon
{

// {health, checks: [{name, health, found, remedy}], radio: [{source, field, there, why}]}; health is "ok", "warn" or
// "fail", of a check also "absent"; for `radio` see radio_matrix(). Looks only; takes a few seconds.
// `pacing`: of the daemon that asks.
nlohmann::json machine_health(const Config& config, const kernel::PacingProgram* pacing = nullptr);

} // namespace tandem::daemon
