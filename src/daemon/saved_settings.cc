#include "src/daemon/saved_settings.h"

#include "src/daemon/config_value.h"
#include "src/daemon/kept_json.h"

#include <optional>
#include <utility>

namespace tandem::daemon
{

using nlohmann::json;

namespace
{

constexpr Envelope settings_envelope {
  .key = "tandem-saved", .version = 1, .body = "settings", .type = json::value_t::object, .content = "saved settings"
};
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
  return settings_envelope.closed(std::move(all));
}

std::string read_saved(const std::string& text, SavedSettings& into)
{
  json all {};
  if (std::string wrong = settings_envelope.open(text, all); !wrong.empty()) return wrong;
  SavedSettings read {};
  for (const auto& [key, one] : all.items())
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
