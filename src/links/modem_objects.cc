#include "src/links/modem_objects.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

namespace tandem::links
{

namespace
{

using Ports = std::vector<sdbus::Struct<std::string, std::uint32_t>>; // name, MMModemPortType

bool has_port(const std::map<std::string, Properties>& interfaces, const std::string& interface)
{
  const auto modem = interfaces.find(modem_interface);
  if (modem == interfaces.end()) return false;
  const auto found = modem->second.find("Ports");
  if (found == modem->second.end() || !found->second.containsValueOfType<Ports>()) return false;
  const auto ports = found->second.get<Ports>();
  return std::any_of(ports.begin(), ports.end(), [&](const auto& port) { return std::get<0>(port) == interface; });
}

} // namespace

std::optional<bool> roaming(unsigned mm_registration)
{
  // HOME 1, ROAMING 5, HOME_SMS_ONLY 6, ROAMING_SMS_ONLY 7, HOME_CSFB_NOT_PREFERRED 9, ROAMING_CSFB_NOT_PREFERRED 10.
  constexpr std::array home { 1u, 6u, 9u }, away { 5u, 7u, 10u };
  if (std::find(away.begin(), away.end(), mm_registration) != away.end()) return true;
  if (std::find(home.begin(), home.end(), mm_registration) != home.end()) return false;
  return {};
}

std::optional<bool> roaming_of(const ModemObjects& objects, const std::string& interface)
{
  std::optional<bool> ours {}, any {};
  bool named = false;
  const auto take = [](std::optional<bool>& into, std::optional<bool> one)
  {
    if (one) into = into.value_or(false) || *one;
  };
  for (const auto& [path, interfaces] : objects)
  {
    const auto gpp = interfaces.find(gpp_interface);
    const bool mine = has_port(interfaces, interface);
    named = named || mine;
    if (gpp == interfaces.end()) continue;
    const auto state = whole(gpp->second, "RegistrationState");
    const auto one = state ? roaming(*state) : std::nullopt;
    take(any, one);
    if (mine) take(ours, one);
  }
  return named ? ours : any;
}

std::string operator_code(std::string_view told)
{
  const bool digits = told.find_first_not_of("0123456789") == std::string_view::npos;
  return digits && (told.size() == 5 || told.size() == 6) ? std::string { told } : std::string {};
}

std::string operator_of(const ModemObjects& objects, const std::string& interface)
{
  for (const auto& [path, interfaces] : objects)
  {
    const auto gpp = interfaces.find(gpp_interface);
    // Another modem's operator says nothing of this interface.
    if (gpp == interfaces.end() || !has_port(interfaces, interface)) continue;
    const auto found = gpp->second.find("OperatorCode");
    if (found == gpp->second.end() || !found->second.containsValueOfType<std::string>()) continue;
    if (std::string code = operator_code(found->second.get<std::string>()); !code.empty()) return code;
  }
  return {};
}

} // namespace tandem::links
