// What happens in a scenario, and when.
#pragma once

#include "tools/lab/emulator/mistakes.h"
#include "tools/lab/emulator/scenario.h"

#include <string_view>
#include <vector>

namespace tandem::lab
{

// The tables of [[timeline]], in order of time, for a scenario whose other parts are known. Of each its first mistake
// is gathered; it is left out then.
std::vector<Event> read_timeline(const std::vector<const toml::table*>& tables, const Scenario& scenario,
                                 Mistakes& mistakes);

// One live change, as `set` on the control socket asks for: "wifi.loss", "cell.rate_down", "wan.delay",
// "wan.SERVER.delay". Throws BadInput when there is no such key, it cannot change while the air is up, or the value is
// not allowed.
ChangeEvent parse_change(const Scenario& scenario, std::string_view path, const toml::node& value);

} // namespace tandem::lab
