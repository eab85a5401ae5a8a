// What a value of a scenario file names: an access point, an interface, a server. All throw BadInput with what is
// allowed.
#pragma once

#include "tools/lab/emulator/scenario.h"
#include "tools/lab/emulator/settings.h"

#include <cstddef>
#include <string>

namespace tandem::lab
{

// "wlan0" .. "wlan7", whether the client has it or not.
std::size_t interface_number(const Value& value);
// Places in Scenario::aps, ::interfaces and ::servers.
std::size_t find_ap(const Scenario& scenario, const Value& value);
std::size_t find_interface(const Scenario& scenario, const Value& value);
std::size_t find_server(const Scenario& scenario, const Value& value);

// The client's Wi-Fi interfaces: "wlan0 wlan1".
std::string interface_names(const Scenario& scenario);

} // namespace tandem::lab
