#include "src/feeder/sources/source_name.h"

namespace tandem::feeder
{

std::optional<std::string> behind(std::string_view prefix, std::string_view word)
{
  if (!word.starts_with(prefix)) return {};
  return std::string { word.substr(prefix.size()) };
}

bool is_source_name(std::string_view word)
{
  constexpr std::size_t longest_interface = 15; // IFNAMSIZ
  constexpr std::size_t longest_path = 100;     // fits into sun_path
  if (word == "auto" || word == "none" || word == "nl80211" || word == "monitor") return true;
  if (const auto name = behind(monitor_prefix, word))
    return !name->empty() && name->size() <= longest_interface && name->find('/') == std::string::npos;
  for (const std::string_view prefix : { lab_prefix, replay_prefix })
    if (const auto path = behind(prefix, word)) return path->starts_with('/') && path->size() <= longest_path;
  return false;
}

} // namespace tandem::feeder
