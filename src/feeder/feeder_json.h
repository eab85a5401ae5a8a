// What the feeder knows, for the control API. Absent values are left out.
#pragma once

#include "src/feeder/feeder.h"

#include <nlohmann/json.hpp>

namespace tandem::feeder
{

// {"sources": [...], "aps": [...], "surveys": [...], "candidates": [...], "interfaces": [...]}, see
// docs/control-api.md.
nlohmann::json wifi_json(const Feeder& feeder, Tick now);
// [{"modem": ..., "state": ..., ...}]
nlohmann::json modems_json(const Feeder& feeder);

} // namespace tandem::feeder
