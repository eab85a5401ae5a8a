#include "src/daemon/config.h"
#include "src/daemon/config_value.h"
#include "src/daemon/profile.h"
#include "src/daemon/settings.h"

// Without NDEBUG the library asserts where it also has an error to report ("[.a"): a file must never abort the daemon.
#define TOML_ASSERT(expression) static_assert(true)
#include <toml++/toml.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tandem::daemon
{
namespace
{

constexpr std::array<std::string_view, 14> sections { "links",    "cell",    "daemon",    "exclude", "recorder",
                                                      "detector", "metrics", "fetch",     "mptcp",   "budget",
                                                      "evidence", "modules", "placement", "profile" };

Value converted(const toml::node& node)
{
  if (const auto* text = node.as_string()) return { text->get() };
  if (const auto* integer = node.as_integer()) return { integer->get() };
  if (const auto* real = node.as_floating_point()) return { real->get() };
  if (const auto* boolean = node.as_boolean()) return { boolean->get() };
  if (const auto* array = node.as_array())
  {
    std::vector<Value> list;
    list.reserve(array->size());
    for (const toml::node& element : *array)
      list.push_back(converted(element));
    return { std::move(list) };
  }
  return {};
}

// The line of the first character beyond ASCII outside strings and comments, or behind a backslash; 0 when there is
// none. Never valid TOML, and toml++ 3.3 has undefined behaviour for U+00A1 to U+0499 where it looks for white space
// (is_non_ascii_horizontal_whitespace).
std::uint32_t misplaced_character(std::string_view text)
{
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3); // byte order mark
  std::uint32_t line = 1;
  char quote = 0;       // of the string we are in
  bool tripled = false; // by three quotes
  bool comment = false;
  for (std::size_t i = 0; i < text.size(); ++i)
  {
    const char c = text[i];
    const auto three = [&] { return i + 2 < text.size() && text[i + 1] == c && text[i + 2] == c; };
    if (c == '\n')
    {
      ++line;
      comment = false;
      if (!tripled) quote = 0;
    }
    else if (comment)
      continue;
    else if (quote == 0)
    {
      if (static_cast<unsigned char>(c) >= 0x80) return line;
      comment = c == '#';
      if (c != '"' && c != '\'') continue;
      quote = c;
      tripled = three();
      if (tripled) i += 2;
    }
    else if (c == '\\' && quote == '"')
    {
      std::size_t next = i + 1;
      if (tripled) next = std::min(text.find_first_not_of(" \t\r\n", next), text.size()); // white space it swallows
      if (next < text.size() && static_cast<unsigned char>(text[next]) >= 0x80) return line;
      if (i + 1 < text.size() && text[i + 1] != '\n') ++i;
    }
    else if (c == quote && (!tripled || three()))
    {
      if (tripled) i += 2;
      quote = 0;
      // Up to two further quotes are still part of the string.
      for (int more = 0; tripled && more < 2 && i + 1 < text.size() && text[i + 1] == c; ++more)
        ++i;
      tripled = false;
    }
  }
  return 0;
}

class Reader
{
public:
  Reader(const std::string& file, const KnobCheck& check) : check_ { check } { result.config.file = file; }

  ConfigResult result;

  void read(std::string_view text)
  {
    if (const auto line = misplaced_character(text))
    {
      complain(line, "not valid TOML: a character beyond ASCII outside quotes or behind a backslash");
      return;
    }
    toml::table root;
    try
    {
      root = toml::parse(text, std::string_view { result.config.file });
    }
    catch (const toml::parse_error& error)
    {
      // A file that is not TOML has no settings to look at: the one complaint that can come alone.
      complain(error.source().begin.line, "not valid TOML: " + in_one_line(error.description(), 300));
      return;
    }
    for (const auto& [name, node] : root)
    {
      const auto line = name.source().begin.line;
      const std::string section { name.str() };
      if (std::find(sections.begin(), sections.end(), section) == sections.end())
        complain(line, shortened(section) + ": no such section; " + suggestion(section, sections));
      else if (const auto* table = node.as_table(); !table)
        complain(line, section + " = " + shown(converted(node)) + ": a section [" + section + "] is needed");
      else if (section == "modules")
        read_modules(*table, { .modules = result.config.modules, .knobs = result.config.knobs });
      else if (section == "profile")
        read_profiles(*table);
      else
        read_section(section, *table);
    }
    check_together();
    for (Complaint& complaint : check_modules(result.config, check_, &result.config.warnings))
      result.complaints.push_back(std::move(complaint));
    const auto earlier = [](const Complaint& a, const Complaint& b) { return a.where.line < b.where.line; };
    std::stable_sort(result.complaints.begin(), result.complaints.end(), earlier);
    std::stable_sort(result.config.warnings.begin(), result.config.warnings.end(), earlier);
  }

private:
  const KnobCheck& check_;

  Source at(std::uint32_t line) const { return { result.config.file, static_cast<int>(line) }; }
  void complain(std::uint32_t line, std::string what) { result.complaints.push_back({ at(line), std::move(what) }); }

  void read_section(const std::string& section, const toml::table& table)
  {
    for (const auto& [name, node] : table)
    {
      const auto line = name.source().begin.line;
      const std::string key = section + "." + std::string { name.str() };
      if (const RetiredSetting* retired = find_retired_setting(key))
      {
        result.config.warnings.push_back(warning(*retired, at(line)));
        continue;
      }
      const Setting* setting = find_setting(key);
      if (!setting)
      {
        complain(line, shortened(key) + ": no such setting; " + suggestion(name.str(), known_settings(section + ".")));
        continue;
      }
      const Value value = converted(node);
      if (!setting->put(result.config, value))
        complain(line, key + " = " + shown(value) + ": " + std::string { setting->needed });
      else
        remember_where(result.config, key, at(line));
    }
  }

  // Of a configuration, or of a profile: there a table alone says nothing about the switch.
  struct ModulesInto
  {
    std::vector<ModuleSetting>& modules;
    std::vector<KnobSetting>& knobs;
    std::string section {}; // in front of "modules." in messages
    bool of_profile = false;
  };

  void read_modules(const toml::table& table, const ModulesInto& into)
  {
    for (const auto& [name, node] : table)
    {
      const auto line = name.source().begin.line;
      const std::string module { name.str() };
      const std::string key = into.section + "modules." + shortened(module);
      if (!is_module_name(module))
      {
        complain(line, key + ": a module's name has 1 to 32 letters a-z, digits or _");
        continue;
      }
      const auto* knobs = node.as_table();
      if (!knobs)
      {
        complain(line, key + " = " + shown(converted(node)) + ": a table is needed, e.g. [" + into.section + "modules."
                           + module + "] and below it enabled = true");
        continue;
      }
      ModuleSetting setting { .name = module, .where = at(line), .for_knobs = into.of_profile };
      for (const auto& [knob, value] : *knobs)
        read_knob(setting, into, std::string { knob.str() }, value, knob.source().begin.line);
      into.modules.push_back(std::move(setting));
    }
  }

  void read_knob(ModuleSetting& module, const ModulesInto& into, const std::string& knob, const toml::node& node,
                 std::uint32_t line)
  {
    const Value value = converted(node);
    const std::string key = into.section + "modules." + module.name + "." + shortened(knob);
    if (knob == "enabled")
    {
      if (const auto* on = std::get_if<bool>(&value.what))
        module.enabled = *on, module.for_knobs = false;
      else
        complain(line, key + " = " + shown(value) + ": true or false is needed");
      return;
    }
    if (!is_module_name(knob))
    {
      complain(line, key + ": a knob's name has 1 to 32 letters a-z, digits or _");
      return;
    }
    if (value.what.index() == 0 || std::holds_alternative<std::vector<Value>>(value.what))
    {
      complain(line, key + " = " + shown(value) + ": a number, a text, true or false is needed");
      return;
    }
    const auto* text = std::get_if<std::string>(&value.what);
    into.knobs.push_back({ module.name, knob, text ? *text : shown(value), at(line) });
  }

  void read_profiles(const toml::table& table)
  {
    for (const auto& [name, node] : table)
    {
      const auto line = name.source().begin.line;
      Profile profile { .name = std::string { name.str() }, .where = at(line) };
      const std::string key = "profile." + shortened(profile.name);
      if (const auto* said = node.as_table(); !is_profile_name(profile.name))
        complain(line, key + ": a profile's name has 1 to 32 letters, digits, _ or -");
      else if (!said)
        complain(line, key + " = " + shown(converted(node)) + ": a table is needed, e.g. [" + key
                           + "] and below it ssid = [\"Office\"]");
      else
      {
        const std::size_t before = result.complaints.size();
        for (const auto& [what, value] : *said)
          read_profile(profile, key + ".", std::string { what.str() }, value, what.source().begin.line);
        const bool fine = result.complaints.size() == before;
        if (fine && profile.ssids.empty())
          complain(line, key + ": ssid = [\"NAME\"], the Wi-Fi networks in which it holds, is needed");
        else if (fine && profile.texts().empty())
          complain(line, key + ": sets nothing; " + std::string { profile_settings } + " is needed");
        result.config.profiles.push_back(std::move(profile));
      }
    }
    one_profile_each();
  }

  void read_profile(Profile& profile, const std::string& section, const std::string& key, const toml::node& node,
                    std::uint32_t line)
  {
    const auto* table = node.as_table();
    if (key == "modules" && table)
      read_modules(*table, { profile.modules, profile.knobs, section, true });
    else if ((key == "cell" || key == "budget") && table)
      for (const auto& [name, value] : *table)
      {
        const std::string dotted = key + "." + std::string { name.str() };
        read_profile_value(profile, section, dotted, converted(value), name.source().begin.line);
      }
    else
      read_profile_value(profile, section, key, converted(node), line);
  }

  void read_profile_value(Profile& profile, const std::string& section, const std::string& key, const Value& value,
                          std::uint32_t line)
  {
    std::string_view needed {};
    if (key == "ssid") profile.ssid_where = at(line);
    if (put_in_profile(profile, key, value, needed)) return;
    if (needed.empty())
      complain(line, section + shortened(key) + ": no such setting of a profile; " + std::string { profile_settings }
                         + " may be set, and ssid");
    else
      complain(line, section + key + " = " + shown(value) + ": " + std::string { needed });
  }

  // Of two profiles with one network the later one is at fault.
  void one_profile_each()
  {
    auto& all = result.config.profiles;
    std::stable_sort(all.begin(), all.end(),
                     [](const Profile& a, const Profile& b) { return a.where.line < b.where.line; });
    for (std::size_t i = 0; i < all.size(); ++i)
      for (const std::string& ssid : all[i].ssids)
        for (std::size_t other = 0; other < i; ++other)
          if (const auto& theirs = all[other].ssids; std::find(theirs.begin(), theirs.end(), ssid) != theirs.end())
            result.complaints.push_back({ all[i].ssid_where, "profile." + all[i].name + ".ssid: " + in_quotes(ssid)
                                                                 + " is in profile." + all[other].name + " ("
                                                                 + all[other].ssid_where.text()
                                                                 + ") already; a network has one profile at most" });
  }

  // Rules between settings are reported where the one that is to change stands, or the later of both.
  void check_together()
  {
    for (Complaint& complaint : conflicts(result.config))
      complain(static_cast<std::uint32_t>(std::max(0, complaint.where.line)), std::move(complaint.what));
  }
};

} // namespace

ConfigResult parse_config(std::string_view text, const std::string& file, const KnobCheck& check)
{
  Reader reader { file, check };
  reader.read(text);
  return std::move(reader.result);
}

} // namespace tandem::daemon
