#include "tools/lab/emulator/mentions.h"

namespace tandem::lab
{

namespace
{

template <class Named>
std::size_t find_named(const std::vector<Named>& all, const Value& value, const std::string& kind)
{
  const std::string name = value.text();
  std::string allowed = "the name of " + kind + " is allowed:";
  for (std::size_t i = 0; i < all.size(); ++i)
  {
    if (all[i].name == name) return i;
    allowed += " " + all[i].name;
  }
  value.refuse(allowed);
}

} // namespace

std::size_t find_ap(const Scenario& scenario, const Value& value)
{
  return find_named(scenario.aps, value, "an access point");
}

std::size_t find_server(const Scenario& scenario, const Value& value)
{
  return find_named(scenario.servers, value, "a server");
}

std::size_t interface_number(const Value& value)
{
  const std::string name = value.text();
  for (std::size_t i = 0; i < most_interfaces; ++i)
    if (name == "wlan" + std::to_string(i)) return i;
  value.refuse("\"wlan0\" to \"wlan" + std::to_string(most_interfaces - 1) + "\" is allowed");
}

std::string interface_names(const Scenario& scenario)
{
  std::string names;
  for (std::size_t i = 0; i < scenario.interfaces.size(); ++i)
    names += (i > 0 ? " wlan" : "wlan") + std::to_string(i);
  return names;
}

std::size_t find_interface(const Scenario& scenario, const Value& value)
{
  const std::size_t number = interface_number(value);
  if (number >= scenario.interfaces.size())
    value.refuse("a Wi-Fi interface of the client is allowed: " + interface_names(scenario));
  return number;
}

} // namespace tandem::lab
