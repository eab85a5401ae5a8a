// The machine's fitness for Tandem as JSON: what `tandem doctor` and GET /v1/doctor show.
#pragma once

#include "src/daemon/config.h"

#include <nlohmann/json.hpp>

namespace tandem::daemon
{

// {health, checks: [{name, health, found, remedy}]}; health is "ok", "warn" or "fail", of a check also "absent". Looks
// only; takes up to a second or two.
nlohmann::json machine_health(const Config& config);

} // namespace tandem::daemon
