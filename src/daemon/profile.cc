// Profiles: what holds in some Wi-Fi networks only.
#include "src/daemon/profile.h"

#include "src/daemon/settings.h"

#include <algorithm>
#include <utility>

namespace tandem::daemon
{
namespace
{

bool by_command_line(const Source& where)
{
  return where.file == command_line;
}

std::string limit_text(std::optional<std::uint64_t> bytes)
{
  return bytes ? std::to_string(*bytes) + " bytes" : std::string { "no limit" };
}

template <class Setting, class Same>
bool said_on_command_line(const std::vector<Setting>& all, Same same)
{
  return std::any_of(all.begin(), all.end(),
                     [&](const Setting& one) { return by_command_line(one.where) && same(one); });
}

} // namespace

std::vector<std::string> Profile::texts() const
{
  std::vector<std::string> all {};
  if (cell) all.emplace_back(*cell ? "cell.use = \"budget\"" : "cell.use = \"never\"");
  if (cell_day) all.push_back("budget.cell_day = " + limit_text(*cell_day));
  if (cell_month) all.push_back("budget.cell_month = " + limit_text(*cell_month));
  for (const ModuleSetting& one : modules)
    if (!one.for_knobs) all.push_back("modules." + one.name + (one.enabled ? " on" : " off"));
  for (const KnobSetting& one : knobs)
    all.push_back("modules." + one.module + "." + one.knob + " = " + shown_text(one.text));
  return all;
}

bool Config::limits_spending() const
{
  return budget.cell_day || budget.cell_month
         || std::any_of(profiles.begin(), profiles.end(),
                        [](const Profile& one)
                        { return one.cell_day.value_or(std::nullopt) || one.cell_month.value_or(std::nullopt); });
}

const Profile* profile_of_network(const std::vector<Profile>& all, std::string_view ssid)
{
  const auto found = std::find_if(all.begin(), all.end(),
                                  [&](const Profile& one)
                                  { return std::find(one.ssids.begin(), one.ssids.end(), ssid) != one.ssids.end(); });
  return found == all.end() ? nullptr : &*found;
}

const Profile* find_profile(const std::vector<Profile>& all, std::string_view name)
{
  const auto found = std::find_if(all.begin(), all.end(), [&](const Profile& one) { return one.name == name; });
  return found == all.end() ? nullptr : &*found;
}

bool is_profile_name(std::string_view name)
{
  constexpr std::string_view letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
  return !name.empty() && name.size() <= 32 && name.find_first_not_of(letters) == std::string_view::npos;
}

bool put_in_profile(Profile& profile, std::string_view key, const Value& value, std::string_view& needed)
{
  if (key == "ssid")
  {
    // As exclude.ssid, which may be empty.
    needed = "a list of at most 256 names of Wi-Fi networks, 1 to 32 bytes each, such as [\"Office\"] is needed";
    Config scratch {};
    if (!find_setting("exclude.ssid")->put(scratch, value) || scratch.exclude.empty()) return false;
    for (const ExclusionSetting& one : scratch.exclude)
      profile.ssids.push_back(one.what.what);
    return true;
  }
  if (key == "cell.use")
  {
    needed = "\"never\" or \"budget\" is needed";
    const auto word = as_text(value);
    if (word != "never" && word != "budget") return false;
    profile.cell = word == "budget";
    return true;
  }
  if (key != "budget.cell_day" && key != "budget.cell_month") return false;
  const Setting& setting = *find_setting(key);
  needed = setting.needed;
  Config scratch {};
  if (!setting.put(scratch, value)) return false;
  if (key == "budget.cell_day")
    profile.cell_day = scratch.budget.cell_day;
  else
    profile.cell_month = scratch.budget.cell_month;
  return true;
}

Config with_profile(Config config, const Profile* profile)
{
  if (profile == nullptr) return config;
  if (profile->cell) config.cell.use = *profile->cell;
  if (profile->cell_day && !by_command_line(config.budget.cell_day_where)) config.budget.cell_day = *profile->cell_day;
  if (profile->cell_month && !by_command_line(config.budget.cell_month_where))
    config.budget.cell_month = *profile->cell_month;
  for (const ModuleSetting& one : profile->modules)
    if (!one.for_knobs
        && !said_on_command_line(config.modules, [&](const ModuleSetting& other)
                                 { return other.name == one.name && !other.for_knobs; }))
      config.put_switch(one.name, one.enabled, one.where);
  for (const KnobSetting& one : profile->knobs)
    if (!said_on_command_line(config.knobs, [&](const KnobSetting& other)
                              { return other.module == one.module && other.knob == one.knob; }))
      config.put_knob(one.module, one.knob, one.text, one.where);
  return config;
}

} // namespace tandem::daemon
