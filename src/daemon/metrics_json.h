// Numbers for Prometheus, from the status and from what the radio sources know.
#pragma once

#include <nlohmann/json.hpp>

namespace tandem::daemon
{

// As control::Backend::metrics() tells it. `status`: of Backend::status(); `radio`: of WifiWatch::known_json().
nlohmann::json metrics_json(const nlohmann::json& status, const nlohmann::json& radio);

} // namespace tandem::daemon
