// The network that a Wi-Fi interface is in, as its driver says at this moment.
#pragma once

#include <optional>
#include <string>

namespace tandem::feeder::nl80211
{

// The SSID; nothing while the interface is in none, or is no Wi-Fi interface of the kernel's own stack. Asks once; for
// what follows a network see Source.
std::optional<std::string> network_name(int ifindex);

} // namespace tandem::feeder::nl80211
