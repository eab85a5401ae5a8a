// What [placement] says of links and peers. Each is false, with `out` as it was, when the value is not what is needed.
#pragma once

#include "src/daemon/config_value.h"

#include <cstdint>
#include <vector>

namespace tandem::daemon
{

// "auto"; names of links, each once; or NAME=SHARE of each, where the shares sum to one.
bool put_links(Config::Placement& out, const Value& value);
// A list of networks and ports.
bool put_peers(std::vector<Network>& networks, std::vector<std::uint16_t>& ports, const Value& value);

} // namespace tandem::daemon
