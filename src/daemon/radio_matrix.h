// What this machine's drivers, modem and kernel tell of the radio: the matrix in `tandem doctor`.
#pragma once

#include "src/daemon/config.h"

#include <nlohmann/json.hpp>

namespace tandem::daemon
{

// [{source, field, there, why}], in the order of sources; `there` is "yes", "absent" or "unknown" (cannot be told now).
// Looks only; takes up to two seconds each for the Wi-Fi driver and for the modem.
nlohmann::json radio_matrix(const Config& config);

} // namespace tandem::daemon
