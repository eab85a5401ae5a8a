// From where each switch and knob of a module has its value. From below: built in, the configuration file, the profile
// that holds, saved, the daemon's command line, this run. Pure.
#pragma once

#include "src/daemon/config.h"
#include "src/daemon/saved_settings.h"

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tandem::daemon
{

// What loaded modules say of a setting. Supplied by whoever has them loaded.
struct KnownSettings
{
  KnobCheck check; // may be empty: everything is fine
  // The value as it is shown, so that "0.25s" equals "250ms"; of an empty text the built-in one. May be empty.
  std::function<std::string(const SettingName&, const std::string& value)> canonical;
};

class SettingLayers
{
public:
  // `given`: the configuration file with the command line on top, as it was read.
  SettingLayers(Config given, SavedSettings saved, KnownSettings known = {});

  void ask(KnownSettings known) { known_ = std::move(known); }

  // The same after a reload. The profile holds on, if there is one of its name.
  void rest_on(Config given);

  // The profile of this name holds from now on; empty: none does.
  void hold(const std::string& profile);
  const std::string& profile() const { return profile_; }
  const std::vector<Profile>& profiles() const { return given_.profiles; }

  // The configuration with all layers in it. What was saved and is refused by the modules is left out.
  Config merged() const;
  struct Remark
  {
    std::string module;
    std::string text;
  };
  // For the log: what was saved and is ignored, and what the file says in vain because something else is saved.
  std::vector<Remark> remarks() const;

  struct Value
  {
    std::string text; // "on", "20"
    Source where {};  // "tandem.toml:7", "saved", "command line", "this run", "built-in"
    bool operator==(const Value&) const;
  };
  Value value(const SettingName& name) const;

  // Until the daemon ends. What is said below already is no change.
  void set(const SettingName& name, const std::string& value);
  // Over restarts, too; it takes the place of what was set for this run.
  void save(const SettingName& name, const std::string& value, std::int64_t at_s);
  // Returns what was saved of it. Nothing: nothing was.
  std::optional<SavedSetting> forget(const SettingName& name);

  const SavedSettings& saved() const { return saved_; }

  struct Saved
  {
    SettingName name;
    SavedSetting what;
    std::string ignored {}; // why it is not in force: what a module says of it; empty: it is, or something is above it
    Value in_force {};      // what is, whoever says so
    Value without {};       // what would be, were it forgotten
  };
  std::vector<Saved> tell_saved() const;

  struct Set
  {
    SettingName name;
    Value in_force {};
    Value without {};
  };
  std::vector<Set> tell_set() const; // for this run

private:
  // Why the modules do not take it; empty: they do.
  std::string refused(const SettingName& name, const std::string& value) const;
  // Of the configuration alone.
  Value below(const SettingName& name) const;
  Value built_in(const SettingName& name) const;
  // `with_saved`, `with_run`: whether these layers count.
  Value value(const SettingName& name, bool with_saved, bool with_run) const;
  std::string canonical(const SettingName& name, const std::string& value) const;

  std::optional<Remark> remark(const SettingName& name, const SavedSetting& saved) const;

  Config given_;
  std::string profile_ {};
  Config below_; // given_, with the profile
  SavedSettings saved_;
  std::map<SettingName, std::string> run_ {};
  KnownSettings known_;
};

} // namespace tandem::daemon
