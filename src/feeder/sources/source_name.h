// How links.radio names its sources. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tandem::feeder
{

constexpr std::string_view lab_prefix = "lab:", replay_prefix = "replay:", monitor_prefix = "monitor:";

// "auto", "none", "nl80211", "monitor", "monitor:IFNAME", "lab:/PATH", "replay:/PATH".
bool is_source_name(std::string_view word);

// What follows the prefix; nothing when the word does not begin with it.
std::optional<std::string> behind(std::string_view prefix, std::string_view word);

} // namespace tandem::feeder
