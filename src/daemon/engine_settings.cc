// Switches and knobs of modules: those of this run, and those that are saved.
#include "src/daemon/config_value.h"
#include "src/daemon/engine.h"
#include "src/daemon/packet_loop.h"
#include "src/daemon/status.h"

#include <ctime>
#include <utility>
#include <vector>

namespace tandem::daemon
{

using nlohmann::json;

namespace
{

json value_json(const SettingLayers::Value& value)
{
  return { { "value", value.text }, { "from", value.where.text() } };
}

std::string_view switch_word(bool on)
{
  return on ? switched_on : switched_off;
}

} // namespace

// Which profile holds is the packet thread's to know.
void Engine::ask_profile()
{
  layers_.hold(loop_->ask([this] { return loop_->profile(); }));
}

void Engine::pass_settings()
{
  loop_->ask([this] { loop_->follow(layers_); });
}

// What is on is on; whether it is saved is another question, and has an answer of its own.
void Engine::keep(const SettingName& name, const std::string& value, bool save)
{
  if (!save)
  {
    layers_.set(name, value);
    pass_settings();
    return;
  }
  SettingLayers next = layers_;
  next.save(name, value, std::time(nullptr));
  if (!file_.save(next.saved()))
  {
    layers_.set(name, value);
    pass_settings();
    throw control::Refused { control::Refused::Kind::conflict,
                             name.text() + " = " + value
                                 + " holds until the daemon ends, and is not saved: " + file_.problem() };
  }
  layers_ = std::move(next);
  pass_settings();
}

void Engine::enable(const std::string& module, bool on, bool save)
{
  const std::lock_guard guard { settings_mutex_ };
  ask_profile();
  loop_->ask([&] { loop_->switch_module(module, on); });
  keep({ module }, std::string { switch_word(on) }, save);
}

void Engine::set(const std::string& module, const std::string& knob, const std::string& value, bool save)
{
  const std::lock_guard guard { settings_mutex_ };
  ask_profile();
  loop_->ask([&] { loop_->set_knob(module, knob, value); });
  keep({ module, knob }, value, save);
}

json Engine::saved()
{
  const std::lock_guard guard { settings_mutex_ };
  ask_profile();
  json saved = json::array(), run = json::array();
  for (const SettingLayers::Saved& one : layers_.tell_saved())
    saved.push_back({ { "name", one.name.text() },
                      { "value", one.what.value },
                      { "saved_s", one.what.at_s },
                      { "ignored", one.ignored },
                      { "in_force", value_json(one.in_force) },
                      { "without", value_json(one.without) } });
  for (const SettingLayers::Set& one : layers_.tell_set())
    run.push_back({ { "name", one.name.text() },
                    { "in_force", value_json(one.in_force) },
                    { "without", value_json(one.without) } });
  add_saved_aps(saved, run);
  return { { "file", file_.path().string() },
           { "problem", file_.problem() },
           { "saved", std::move(saved) },
           { "run", std::move(run) } };
}

void Engine::take(const std::vector<SettingName>& names, const SettingLayers& from, const SettingLayers& to)
{
  loop_->ask(
      [&]
      {
        const auto take_one = [&](const SettingName& name)
        {
          const std::string text = to.value(name).text;
          if (text == from.value(name).text) return;
          if (name.knob.empty())
            loop_->switch_module(name.module, text == switched_on);
          else
            loop_->set_knob(name.module, name.knob, text);
        };
        // Knobs that fit together before and afterwards need not do so in every order.
        std::vector<SettingName> left = names;
        while (!left.empty())
        {
          std::vector<SettingName> refused {};
          for (const SettingName& name : left)
            try
            {
              take_one(name);
            }
            catch (const control::Refused&)
            {
              refused.push_back(name);
              if (refused.size() == left.size()) throw;
            }
          left = std::move(refused);
        }
      });
}

// What is forgotten is no longer in force either: what is below it is.
json Engine::forget(const std::vector<SettingName>& names)
{
  ask_profile();
  SettingLayers next = layers_;
  for (const SettingName& name : names)
    static_cast<void>(next.forget(name));
  json told = json::array();
  for (const SettingName& name : names)
    told.push_back({ { "name", name.text() }, { "in_force", value_json(next.value(name)) } });
  take(names, layers_, next);
  if (!names.empty() && !file_.save(next.saved()))
  {
    take(names, next, layers_);
    throw control::Refused { control::Refused::Kind::conflict, "nothing is forgotten: " + file_.problem() };
  }
  layers_ = std::move(next);
  pass_settings();
  return told;
}

json Engine::forget_saved(const std::string& name)
{
  const std::lock_guard guard { settings_mutex_ };
  for (const auto& [each, what] : layers_.saved())
    if (each.text() == name) return forget({ each });
  if (saved_aps_.keep != 0 && name == aps_setting) return json::array({ forget_aps() });
  throw control::Refused { control::Refused::Kind::bad_request,
                           in_quotes(name) + " is not saved; `tandem saved` lists what is" };
}

json Engine::forget_all_saved()
{
  const std::lock_guard guard { settings_mutex_ };
  std::vector<SettingName> names {};
  for (const auto& [each, what] : layers_.saved())
    names.push_back(each);
  json told = forget(names);
  if (saved_aps_.keep != 0) told.push_back(forget_aps());
  return told;
}

std::vector<SettingLayers::Remark> Engine::remarks()
{
  const std::lock_guard guard { settings_mutex_ };
  std::vector<SettingLayers::Remark> all = layers_.remarks();
  for (const std::string& problem : { exclusions_file_.problem(), aps_file_.problem() })
    if (!problem.empty()) all.push_back({ {}, problem });
  if (saved_aps_.keep != 0 && !mptcp_setup_)
    all.push_back({ {},
                    std::string { aps_setting } + " = " + std::to_string(saved_aps_.keep)
                        + ", which is saved, is ignored: " + std::string { no_mptcp } });
  return all;
}

json Engine::modules()
{
  json all = loop_->ask([this] { return all_modules_json(loop_->sources()); });
  const std::lock_guard guard { settings_mutex_ };
  ask_profile();
  for (json& module : all)
  {
    const std::string name = module["name"];
    module["from"] = layers_.value({ name }).where.text();
    for (json& knob : module["knobs"])
      knob["from"] = layers_.value({ name, knob["name"] }).where.text();
  }
  return all;
}

} // namespace tandem::daemon
