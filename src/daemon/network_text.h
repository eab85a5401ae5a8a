// Networks as people write them: "10.0.0.0/8", "2001:db8::1". Pure.
#pragma once

#include "src/links/network.h"

#include <optional>
#include <string>
#include <string_view>

namespace tandem::daemon
{

// An address alone is a network of one. Bits behind the prefix become zero. Nothing when it is none.
std::optional<links::Network> as_network(std::string_view text);

// An address alone without a prefix length.
std::string network_text(const links::Network& network);
// As rules have it: always with one.
std::string prefix_text(const links::Network& network);

} // namespace tandem::daemon
