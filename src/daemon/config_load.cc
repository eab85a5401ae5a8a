#include "src/daemon/config.h"
#include "src/daemon/config_value.h"
#include "src/daemon/placement.h"
#include "src/daemon/settings.h"
#include "src/kernel/rules/policy_route.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <system_error>
#include <utility>

namespace tandem::daemon
{
namespace
{

constexpr std::size_t largest_file = 1u << 20;

std::string read_file(const std::filesystem::path& path)
{
  const auto refuse = [&](const std::string& why) -> std::string {
    throw ConfigError { { { { path.string(), 0 }, why } } };
  };

  std::error_code fault;
  const auto status = std::filesystem::status(path, fault);
  if (status.type() == std::filesystem::file_type::none) return refuse("cannot be read: " + fault.message());
  if (!std::filesystem::exists(status)) return refuse("no such file");
  if (std::filesystem::is_directory(status)) return refuse("is a directory; a TOML file is needed");
  std::ifstream in { path, std::ios::binary };
  if (!in) return refuse(std::string { "cannot be read: " } + std::strerror(errno));
  std::string text(largest_file + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (in.bad()) return refuse(std::string { "cannot be read: " } + std::strerror(errno));
  text.resize(static_cast<std::size_t>(in.gcount()));
  if (text.size() > largest_file) return refuse("is larger than 1 MiB; is this the right file?");
  return text;
}

// KEY=VALUE of a module's table.
std::optional<Complaint> override_module(Config& config, std::string_view key, std::string_view value)
{
  const Source where { std::string { command_line }, 0 };
  const auto complaint = [&](const std::string& what) { return Complaint { where, what }; };
  const std::string_view rest = key.substr(8);
  const std::size_t dot = rest.find('.');
  const std::string module { rest.substr(0, dot) };
  const std::string knob { dot == std::string_view::npos ? "" : rest.substr(dot + 1) };
  if (!is_module_name(module) || !is_module_name(knob))
    return complaint(shortened(key) + ": modules.NAME.enabled or modules.NAME.KNOB is needed");
  if (knob == "enabled")
  {
    if (value != "true" && value != "false")
      return complaint(std::string { key } + " = " + in_quotes(value) + ": true or false is needed");
    config.put_switch(module, value == "true", where);
    return {};
  }
  config.put_knob(module, knob, std::string { value }, where);
  return {};
}

// `section`: in front of "modules." in messages.
void check_modules_of(const std::vector<ModuleSetting>& modules, const std::vector<KnobSetting>& knobs,
                      const std::string& section, const KnobCheck& check, std::vector<Complaint>& complaints,
                      std::vector<Complaint>* warnings)
{
  for (const ModuleSetting& module : modules)
  {
    if (const auto fault = check({ module.name, "", "", module.where }))
    {
      complaints.push_back({ module.where, section + "modules." + module.name + ": " + fault->text });
      continue; // its knobs are as unknown as it is
    }
    for (const KnobSetting& setting : knobs)
      if (setting.module == module.name)
        if (const auto remark = check(setting))
        {
          Complaint one { setting.where, section + "modules." + setting.module + "." + setting.knob + " = "
                                             + shown_text(setting.text) + ": " + remark->text };
          if (!remark->harmless)
            complaints.push_back(std::move(one));
          else if (warnings)
            warnings->push_back(std::move(one));
        }
  }
}

// What the tunnels to a relay cannot be.
template <class Complain>
void check_relay(const Config& config, Complain complain)
{
  const Config::Links& links = config.links;
  if (links.relay.wifi.empty()) return;
  const auto more = links.more_wifi.value_or(std::vector<std::string> {});
  for (const std::string& name : { links.relay.wifi, links.relay.cell })
  {
    if (name.empty()) continue;
    const bool further = std::find(more.begin(), more.end(), name) != more.end();
    if (name == links.wifi || name == links.cell || further)
      complain(links.relay.where,
               further              ? links.more_wifi_where
               : name == links.cell ? links.cell_where
                                    : links.wifi_where,
               "links.relay: " + in_quotes(name) + " has another role already; the tunnel's interface is needed");
  }
  if ((Config::Links::Relay::mark & config.daemon.mark_mask) != 0)
    complain(links.relay.where, links.relay.where,
             "links.relay: a daemon.mark_mask without bits of 0x54 is needed, the mark of the tunnel by cellular");
  // Placed connections have those behind it.
  const std::uint32_t first = config.daemon.route_table,
                      last = first + (config.placement.enabled ? placement_value(Link::cell) : 0);
  if (first <= kernel::RoutePlan::lower_table && kernel::RoutePlan::lower_table <= last)
    complain(links.relay.where, links.relay.where,
             "links.relay: another daemon.route_table than " + std::to_string(first)
                 + " is needed: that tunnel's own packets have " + std::to_string(kernel::RoutePlan::lower_table));
}

} // namespace

ConfigResult read_config(const std::filesystem::path& path)
{
  try
  {
    return parse_config(read_file(path), path.string());
  }
  catch (ConfigError& error)
  {
    return { .complaints = std::move(error.complaints) };
  }
}

Config load_config(const std::filesystem::path& path, const KnobCheck& check)
{
  ConfigResult result = parse_config(read_file(path), path.string(), check);
  if (!result.complaints.empty()) throw ConfigError { std::move(result.complaints) };
  return std::move(result.config);
}

std::vector<Complaint> conflicts(const Config& config)
{
  std::vector<Complaint> complaints;
  const Config::Links& links = config.links;
  const auto complain = [&](const Source& one, const Source& other, std::string what)
  {
    // What the command line says is on top of the file, and is at fault.
    const bool in_file = one.line > 0 && (other.line > 0 || other.file.empty());
    const Source later = one.line > other.line ? one : other;
    complaints.push_back({ in_file ? later : Source { std::string { command_line }, 0 }, std::move(what) });
  };

  if (links.wifi == links.cell && links.wifi != "auto")
    complain(links.cell_where, links.wifi_where,
             "links.cell = " + in_quotes(links.cell) + ": another interface than links.wifi is needed");
  if (links.more_wifi)
    for (const std::string& name : *links.more_wifi)
    {
      if (name == links.wifi)
        complain(links.more_wifi_where, links.wifi_where,
                 "links.more_wifi: " + in_quotes(name) + " is links.wifi already; other interfaces are needed");
      if (name == links.cell)
        complain(links.more_wifi_where, links.cell_where,
                 "links.more_wifi: " + in_quotes(name) + " is links.cell already; other interfaces are needed");
    }
  check_relay(config, complain);
  if (config.placement.enabled && (config.placement.mark_mask & config.daemon.mark_mask) != 0)
    complain(config.placement.enabled_where, config.placement.enabled_where,
             "placement.enabled: a daemon.mark_mask without bits of 0x0f000000 is needed, for placement uses these");
  return complaints;
}

std::vector<Complaint> check_modules(const Config& config, const KnobCheck& check, std::vector<Complaint>* warnings)
{
  std::vector<Complaint> complaints;
  if (!check) return complaints;
  check_modules_of(config.modules, config.knobs, "", check, complaints, warnings);
  for (const Profile& one : config.profiles)
    check_modules_of(one.modules, one.knobs, "profile." + one.name + ".", check, complaints, warnings);
  return complaints;
}

std::optional<Complaint> override_setting(Config& config, std::string_view key, std::string_view value)
{
  const Source where { std::string { command_line }, 0 };
  const auto complaint = [&](const std::string& what) { return Complaint { where, what }; };

  if (key.starts_with("modules.")) return override_module(config, key, value);
  if (const RetiredSetting* retired = find_retired_setting(key))
  {
    config.warnings.push_back(warning(*retired, where));
    return {};
  }
  const Setting* setting = find_setting(key);
  if (!setting) return complaint(shortened(key) + ": no such setting; " + suggestion(key, known_settings("")));
  Config changed = config;
  if (!setting->put(changed, { std::string { value }, true }))
    return complaint(std::string { key } + " = " + in_quotes(value) + ": " + std::string { setting->needed });
  remember_where(changed, key, where);
  config = std::move(changed);
  return {};
}

} // namespace tandem::daemon
