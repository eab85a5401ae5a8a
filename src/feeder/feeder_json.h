// What the feeder knows, for the control API. Absent values are left out.
#pragma once

#include "src/feeder/feeder.h"

#include <nlohmann/json.hpp>

#include <string>

namespace tandem::feeder
{

// {"sources": [...], "aps": [...], "surveys": [...], "candidates": [...], "interfaces": [...]}, see
// docs/control-api.md.
nlohmann::json wifi_json(const Feeder& feeder, Tick now);
// [{"modem": ..., "state": ..., ...}]
nlohmann::json modems_json(const Feeder& feeder);

// The name of a network. Any bytes may be in it, and JSON takes UTF-8 only: U+FFFD is what is none.
nlohmann::json ssid_json(const std::string& bytes);

} // namespace tandem::feeder
