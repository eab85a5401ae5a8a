#include "tools/tandem/settings.h"

#include "tools/tandem/json_values.h"
#include "tools/tandem/output.h"
#include "tools/tandem/show.h"

#include <CLI/CLI.hpp>

#include <array>
#include <chrono>
#include <ctime>
#include <memory>
#include <thread>
#include <utility>

namespace tandem::cli
{

using nlohmann::json;

namespace
{

constexpr const char* knob_example = "offload.window_mss";

const json& find_module(const json& modules, const std::string& name)
{
  std::string known;
  for (const json& module : modules)
  {
    if (module.value("name", "") == name) return module;
    known += (known.empty() ? "" : ", ") + module.value("name", "?");
  }
  throw Failure { "no module \"" + name + "\" is loaded; " + (known.empty() ? "none is" : "loaded are: " + known),
                  exit_bad_input };
}

// The rules of a module that was switched on are loaded by another process: its answer is waited for, but not long.
json once_loaded(const Client& client, const std::string& name)
{
  constexpr auto pause = std::chrono::milliseconds { 50 };
  for (int looks = 40;; --looks)
  {
    const json modules = client.get_json("/v1/modules");
    const json& module = find_module(modules, name);
    const bool awaited = !not_in_force(module).empty() && module.value("in_force_why", "").empty();
    if (!awaited || looks == 0) return module;
    std::this_thread::sleep_for(pause);
  }
}

int switch_module(const Client& client, const std::string& name, bool on, bool save, bool as_json)
{
  need_name(name, "module");
  json wanted { { "enabled", on } };
  if (save) wanted["save"] = true; // left out otherwise: an older daemon does not know it
  client.put("/v1/modules/" + name, wanted);
  json told { { "module", name }, { "enabled", on }, { "saved", save } };
  std::string text = name + (on ? " is on" : " is off") + (save ? ", saved" : "");
  if (on)
  {
    const json module = once_loaded(client, name);
    const std::string missing = not_in_force(module);
    told.update({ { "in_force", missing.empty() }, { "in_force_why", missing } });
    if (!missing.empty()) text += ", not yet in force: " + missing;
    // On, and yet nothing is done.
    const std::string off = words_of(client.get_json("/v1/status"), "hands_off");
    told["hands_off"] = off;
    if (!off.empty()) text += "; hands are off all flows now: " + off;
  }
  print(as_json ? pretty(told) : text + '\n');
  return 0;
}

int module_command(const Client& client, const std::string& name, const std::string& state, bool save, bool as_json)
{
  if (save && state.empty()) throw Failure { "--save: on or off is needed", exit_bad_input };
  if (!state.empty()) return switch_module(client, name, state == "on", save, as_json);
  if (!name.empty()) need_name(name, "module");
  const json modules = client.get_json("/v1/modules");
  const json& shown = name.empty() ? modules : find_module(modules, name);
  print(as_json        ? pretty(shown)
        : name.empty() ? show_modules(shown, style_of_stdout())
                       : show_module(shown, style_of_stdout()));
  return 0;
}

int set_command(const Client& client, const std::string& where, const std::string& value, bool save, bool as_json)
{
  const std::size_t dot = where.find('.');
  if (dot == std::string::npos)
    throw Failure { "\"" + printable(where) + "\": MODULE.KNOB is needed, e.g. tandem set " + knob_example + " 20",
                    exit_bad_input };
  const std::string module = where.substr(0, dot);
  const std::string knob = where.substr(dot + 1);
  need_name(module, "module");
  need_name(knob, "knob");
  json wanted { { "value", value } };
  if (save) wanted["save"] = true;
  client.put("/v1/modules/" + module + "/knobs/" + knob, wanted);
  print(as_json ? pretty({ { "module", module }, { "knob", knob }, { "value", value }, { "saved", save } })
                : module + "." + knob + " = " + printable(value) + (save ? ", saved\n" : "\n"));
  return 0;
}

// "on (tandem.toml:7)" of {value, from}; "-" where nobody knows the setting.
std::string value_words(const json& value)
{
  const std::string text = words_of(value, "value");
  return text.empty() ? "-" : text + " (" + words_of(value, "from") + ")";
}

// To the minute, in this machine's time zone.
std::string moment(double at_s)
{
  const auto at = static_cast<std::time_t>(at_s);
  std::tm local {};
  std::array<char, 32> text {};
  if (localtime_r(&at, &local) == nullptr || std::strftime(text.data(), text.size(), "%F %H:%M", &local) == 0)
    return "-";
  return text.data();
}

int forget_command(const Client& client, const std::string& name, bool as_json)
{
  const json answer =
      client.post("/v1/saved/forget", name == "all" ? json { { "all", true } } : json { { "name", name } });
  if (as_json)
  {
    print(pretty(answer));
    return 0;
  }
  std::string text {};
  for (const json& one : list(answer, "forgotten"))
    text += words_of(one, "name") + " is forgotten, in force now: " + value_words(part(one, "in_force")) + '\n';
  print(text.empty() ? "nothing was saved\n" : text);
  return 0;
}

} // namespace

void need_name(const std::string& name, const char* what)
{
  if (name.empty() || name.size() > 64
      || name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") != std::string::npos)
    throw Failure { std::string { what } + " \"" + printable(name) + "\": letters a-z, digits and _ are needed",
                    exit_bad_input };
}

std::string show_saved(const json& saved, const Style& style)
{
  std::string out {};
  if (const std::string problem = words_of(saved, "problem"); !problem.empty())
    out += style(Tone::warning, problem) + '\n';
  Table kept { { "SAVED", "VALUE", "SINCE", "IN FORCE", "WITHOUT IT" } };
  for (const json& one : list(saved, "saved"))
  {
    const json& in_force = part(one, "in_force");
    const std::string ignored = words_of(one, "ignored");
    Table::Cell state { "yes", Tone::good };
    if (!ignored.empty())
      state = { "no: " + ignored, Tone::warning };
    else if (words_of(in_force, "from") != "saved")
      state = { "no: " + value_words(in_force), Tone::warning };
    kept.add({ words_of(one, "name"), words_of(one, "value"), moment(number(one, "saved_s")), std::move(state),
               value_words(part(one, "without")) });
  }
  out += kept.empty() ? "nothing is saved\n" : kept.text(style);
  Table run { { "CHANGED FOR THIS RUN", "VALUE", "WITHOUT IT" } };
  for (const json& one : list(saved, "run"))
    run.add({ words_of(one, "name"), words_of(part(one, "in_force"), "value"), value_words(part(one, "without")) });
  if (!run.empty()) out += '\n' + run.text(style);
  return out;
}

void attach_settings(CLI::App& app, std::function<int(const Client&)>& chosen, bool& as_json)
{
  struct Given
  {
    std::string module {}, state {}, knob {}, value {}, forgotten {};
    CLI::Option* forget = nullptr;
    bool save = false;
  };
  const auto given = std::make_shared<Given>();
  const auto command = [&](const char* name, const char* help, std::function<int(const Client&)> work)
  {
    CLI::App* sub = app.add_subcommand(name, help);
    sub->callback([&chosen, work = std::move(work)] { chosen = work; });
    sub->add_flag("--json", as_json, "print JSON");
    return sub;
  };

  CLI::App* sub = command("module", "list modules, show one, switch one on or off",
                          [given, &as_json](const Client& c)
                          { return module_command(c, given->module, given->state, given->save, as_json); });
  sub->add_option("NAME", given->module, "module");
  sub->add_option("STATE", given->state, "on or off")->check(CLI::IsMember { { "on", "off" } });
  sub->add_flag("--save", given->save, "over restarts, too");

  for (const bool on : { true, false })
  {
    sub =
        command(on ? "enable" : "disable",
                on ? "switch a module on, over restarts, too" : "switch a module off, over restarts, too",
                [given, on, &as_json](const Client& c) { return switch_module(c, given->module, on, true, as_json); });
    sub->add_option("MODULE", given->module, "module")->required();
  }

  sub = command("set", "change a module's knob while traffic runs",
                [given, &as_json](const Client& c)
                { return set_command(c, given->knob, given->value, given->save, as_json); });
  sub->add_option("MODULE.KNOB", given->knob, std::string { "e.g. " } + knob_example)->required();
  sub->add_option("VALUE", given->value, "with its unit, e.g. 250ms")->required();
  sub->add_flag("--save", given->save, "over restarts, too");

  sub = command("saved", "switches and knobs that are saved, what is in force and why",
                [given, &as_json](const Client& c)
                {
                  if (given->forget->count() > 0) return forget_command(c, given->forgotten, as_json);
                  const json saved = c.get_json("/v1/saved");
                  print(as_json ? pretty(saved) : show_saved(saved, style_of_stdout()));
                  return 0;
                });
  given->forget = sub->add_option("--forget", given->forgotten,
                                  "forget what is saved of MODULE (its switch) or MODULE.KNOB, or all")
                      ->type_name("NAME");
}

} // namespace tandem::cli
