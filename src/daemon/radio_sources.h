// From links.radio and links.modem to sources.
#pragma once

#include "src/feeder/sources/source.h"

#include <tandem/units.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

namespace tandem::daemon
{

// How long sources that nobody else wanted stay open after a request of the control API.
constexpr Duration looked_at_for = std::chrono::seconds { 10 };

// The sources of these names (src/feeder/sources/source_name.h), and rtnetlink for `interfaces`, of which the first is
// the Wi-Fi one. "auto" is nl80211 where that is wireless.
std::vector<std::unique_ptr<feeder::Source>> make_sources(const std::vector<std::string>& names, bool modem,
                                                          const std::vector<std::string>& interfaces);

} // namespace tandem::daemon
