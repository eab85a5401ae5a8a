#include "src/daemon/setting_layers.h"

#include "src/daemon/config_value.h"

#include <algorithm>
#include <set>
#include <utility>

namespace tandem::daemon
{

namespace
{

const Source from_nowhere { "built-in", 0 }, from_saved { "saved", 0 }, from_run { "this run", 0 };

bool by_command_line(const Source& where)
{
  return where.file == command_line;
}

void put(Config& config, const SettingName& name, const std::string& value, const Source& where)
{
  if (name.knob.empty())
    config.put_switch(name.module, value == switched_on, where);
  else
    config.put_knob(name.module, name.knob, value, where);
}

} // namespace

bool SettingLayers::Value::operator==(const Value& other) const
{
  return text == other.text && where.text() == other.where.text();
}

SettingLayers::SettingLayers(Config given, SavedSettings saved, KnownSettings known)
    : given_ { std::move(given) }, below_ { given_ }, saved_ { std::move(saved) }, known_ { std::move(known) }
{
}

void SettingLayers::rest_on(Config given)
{
  given_ = std::move(given);
  hold(profile_);
}

void SettingLayers::hold(const std::string& profile)
{
  const Profile* found = find_profile(given_.profiles, profile);
  profile_ = found == nullptr ? std::string {} : found->name;
  below_ = with_profile(given_, found);
}

std::string SettingLayers::refused(const SettingName& name, const std::string& value) const
{
  if (!known_.check) return {};
  const auto remark = known_.check({ name.module, name.knob, value, from_saved });
  return remark ? remark->text : std::string {};
}

std::string SettingLayers::canonical(const SettingName& name, const std::string& value) const
{
  return known_.canonical && !name.knob.empty() ? known_.canonical(name, value) : value;
}

SettingLayers::Value SettingLayers::built_in(const SettingName& name) const
{
  return { name.knob.empty() ? std::string { switched_off } : canonical(name, {}), from_nowhere };
}

SettingLayers::Value SettingLayers::below(const SettingName& name) const
{
  if (name.knob.empty())
  {
    for (const ModuleSetting& one : below_.modules)
      if (one.name == name.module && !one.for_knobs)
        return { std::string { one.enabled ? switched_on : switched_off }, one.where };
    return built_in(name);
  }
  for (const KnobSetting& one : below_.knobs)
    if (one.module == name.module && one.knob == name.knob) return { canonical(name, one.text), one.where };
  return built_in(name);
}

SettingLayers::Value SettingLayers::value(const SettingName& name, bool with_saved, bool with_run) const
{
  if (with_run)
    if (const auto found = run_.find(name); found != run_.end()) return { canonical(name, found->second), from_run };
  Value under = below(name);
  if (!with_saved || by_command_line(under.where)) return under;
  const auto found = saved_.find(name);
  if (found == saved_.end() || !refused(name, found->second.value).empty()) return under;
  return { canonical(name, found->second.value), from_saved };
}

SettingLayers::Value SettingLayers::value(const SettingName& name) const
{
  return value(name, true, true);
}

Config SettingLayers::merged() const
{
  Config config = below_;
  for (const auto& [name, one] : saved_)
    if (!by_command_line(below(name).where) && refused(name, one.value).empty())
      put(config, name, one.value, from_saved);
  for (const auto& [name, text] : run_)
    put(config, name, text, from_run);
  return config;
}

std::optional<SettingLayers::Remark> SettingLayers::remark(const SettingName& name, const SavedSetting& saved) const
{
  const std::string said = name.text() + " = " + in_quotes(saved.value) + ", which is saved, ";
  const Value under = below(name);
  if (const std::string why = refused(name, saved.value); !why.empty())
    return Remark { name.module,
                    said + "is ignored: " + why + "; `tandem saved --forget " + name.text() + "` forgets it" };
  if (by_command_line(under.where)) return {}; // whoever starts it so knows
  if (under.where.line == 0 || under.text == canonical(name, saved.value)) return {};
  return Remark { name.module, said + "is in force, not the " + in_quotes(under.text) + " of " + under.where.text()
                                   + "; `tandem saved --forget " + name.text() + "` changes that" };
}

// Also of what a profile says in vain, wherever this host is.
std::vector<SettingLayers::Remark> SettingLayers::remarks() const
{
  std::vector<Remark> all {};
  std::set<std::string> told {};
  const auto add = [&](std::optional<Remark> one)
  {
    if (one && told.insert(one->text).second) all.push_back(std::move(*one));
  };
  SettingLayers elsewhere = *this;
  for (const auto& [name, one] : saved_)
  {
    elsewhere.hold({});
    add(elsewhere.remark(name, one));
    for (const Profile& profile : given_.profiles)
    {
      elsewhere.hold(profile.name);
      add(elsewhere.remark(name, one));
    }
  }
  return all;
}

void SettingLayers::set(const SettingName& name, const std::string& text)
{
  run_.erase(name);
  if (value(name).text != canonical(name, text)) run_[name] = text;
}

void SettingLayers::save(const SettingName& name, const std::string& text, std::int64_t at_s)
{
  saved_[name] = { text, at_s };
  set(name, text); // above the command line, which is of this run alone
}

std::optional<SavedSetting> SettingLayers::forget(const SettingName& name)
{
  const auto found = saved_.find(name);
  if (found == saved_.end()) return {};
  SavedSetting was = std::move(found->second);
  saved_.erase(found);
  return was;
}

std::vector<SettingLayers::Saved> SettingLayers::tell_saved() const
{
  std::vector<Saved> all {};
  for (const auto& [name, one] : saved_)
    all.push_back({ .name = name,
                    .what = one,
                    .ignored = refused(name, one.value),
                    .in_force = value(name),
                    .without = value(name, false, true) });
  return all;
}

std::vector<SettingLayers::Set> SettingLayers::tell_set() const
{
  std::vector<Set> all {};
  for (const auto& [name, text] : run_)
    all.push_back({ .name = name, .in_force = value(name), .without = value(name, true, false) });
  return all;
}

} // namespace tandem::daemon
