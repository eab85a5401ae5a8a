// What ModemManager's objects say of the modem behind an interface. Pure.
#pragma once

#include "src/links/bus.h"

#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace tandem::links
{

inline const std::string modem_manager = "org.freedesktop.ModemManager1";
inline const std::string modem_interface = modem_manager + ".Modem";
inline const std::string gpp_interface = modem_interface + ".Modem3gpp";

// The answer to GetManagedObjects: path -> interface -> properties.
using ModemObjects = std::map<sdbus::ObjectPath, std::map<std::string, Properties>>;

// MMModem3gppRegistrationState, ModemManager-enums.h 1.20; nothing when it is registered nowhere.
std::optional<bool> roaming(unsigned mm_registration);
// Of the modem that the interface belongs to; when none says so, of any modem.
std::optional<bool> roaming_of(const ModemObjects& objects, const std::string& interface);

// Country and network, MCC and MNC, of five or six digits (3GPP TS 23.003, 2.2): as it is, else empty.
std::string operator_code(std::string_view told);
// Where the modem that the interface belongs to is registered (Modem3gpp.OperatorCode); empty: nobody says so.
std::string operator_of(const ModemObjects& objects, const std::string& interface);

} // namespace tandem::links
