#include "src/daemon/saved_settings.h"

#include "src/daemon/config_value.h"

#include <nlohmann/json.hpp>

#include <optional>
#include <utility>

namespace tandem::daemon
{

using nlohmann::json;

namespace
{

constexpr const char* version_key = "tandem-saved";
constexpr int version = 1;
constexpr std::size_t longest_value = 200; // as the control API takes it

std::optional<SettingName> name_of(const std::string& text)
{
  const std::size_t dot = text.find('.');
  SettingName name { text.substr(0, dot), dot == std::string::npos ? std::string {} : text.substr(dot + 1) };
  if (!is_module_name(name.module) || (dot != std::string::npos && !is_module_name(name.knob))) return {};
  return name;
}

// Empty: it is one.
std::string wrong_with(const SettingName& name, const json& one)
{
  if (!one.is_object() || one.size() != 2 || !one.contains("value") || !one["value"].is_string()
      || !one.contains("at_s") || !one["at_s"].is_number_integer())
    return "a text \"value\" and a whole number \"at_s\" are needed";
  const std::string& value = one["value"].get_ref<const std::string&>();
  if (value.size() > longest_value) return "its value is longer than " + std::to_string(longest_value) + " bytes";
  if (name.knob.empty() && value != switched_on && value != switched_off) return "on or off is needed";
  return {};
}

} // namespace

std::string saved_text(const SavedSettings& settings)
{
  json all = json::object();
  for (const auto& [name, one] : settings)
    all[name.text()] = { { "value", one.value }, { "at_s", one.at_s } };
  return json { { version_key, version }, { "settings", std::move(all) } }.dump(2, ' ', false,
                                                                                json::error_handler_t::replace)
         + '\n';
}

std::string read_saved(const std::string& text, SavedSettings& into)
{
  const json whole = json::parse(text, nullptr, false);
  if (whole.is_discarded()) return "is torn, or no file of saved settings";
  if (!whole.is_object() || !whole.contains(version_key)) return "is no file of saved settings";
  if (whole[version_key] != version)
    return "is of version " + whole[version_key].dump() + "; this Tandem reads version " + std::to_string(version);
  if (whole.size() != 2 || !whole.contains("settings") || !whole["settings"].is_object())
    return "has no \"settings\", or something beside them";
  SavedSettings read {};
  for (const auto& [key, one] : whole["settings"].items())
  {
    const auto name = name_of(key);
    const std::string wrong = name ? wrong_with(*name, one) : "MODULE or MODULE.KNOB is needed";
    if (!wrong.empty()) return "settings \"" + shortened(key) + "\": " + wrong;
    read[*name] = { one["value"], one["at_s"] };
  }
  for (auto& [name, one] : read)
    into[name] = std::move(one);
  return {};
}

} // namespace tandem::daemon
