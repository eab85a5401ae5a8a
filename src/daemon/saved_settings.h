// Switches and knobs of modules that a user had saved: they outlive the daemon. Pure; the file is saved_file.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace tandem::daemon
{

// What a saved setting is about.
struct SettingName
{
  std::string module;
  std::string knob {}; // empty: the module's switch

  std::string text() const { return knob.empty() ? module : module + "." + knob; } // "offload", "offload.window_mss"
  auto operator<=>(const SettingName&) const = default;
};

// Of a switch, as a value.
constexpr std::string_view switched_on = "on", switched_off = "off";

struct SavedSetting
{
  std::string value;     // as the user typed it; of a switch on or off
  std::int64_t at_s = 0; // when it was saved, seconds since 1970

  bool operator==(const SavedSetting&) const = default;
};

using SavedSettings = std::map<SettingName, SavedSetting>;

constexpr std::size_t longest_saved_text = 256u << 10;

// JSON with its version; the same settings give the same text.
std::string saved_text(const SavedSettings& settings);

// Adds what a text of saved_text() holds. Returns what is wrong with it, and adds nothing then; empty: nothing is.
// A name that no module knows is none of its business.
std::string read_saved(const std::string& text, SavedSettings& into);

} // namespace tandem::daemon
