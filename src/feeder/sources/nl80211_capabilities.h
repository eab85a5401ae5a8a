// What the Wi-Fi driver at hand can tell, for `tandem doctor`.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::feeder
{

enum class Ability : std::uint8_t
{
  yes,
  absent,
  unknown, // cannot be told now
};

constexpr std::string_view name(Ability ability)
{
  switch (ability)
  {
  case Ability::yes:
    return "yes";
  case Ability::absent:
    return "absent";
  case Ability::unknown:
    break;
  }
  return "unknown";
}

struct Capability
{
  std::string name; // "station signal", "survey busy time", "monitor", ...
  Ability ability = Ability::unknown;
  std::string why {}; // how it is known, or why not
};

// Looks only, changes nothing. Never throws. Takes up to a second or two when the kernel is slow to answer.
std::vector<Capability> capabilities(const std::string& interface);

} // namespace tandem::feeder
