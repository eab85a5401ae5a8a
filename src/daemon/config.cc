#include "src/daemon/config.h"

#include <algorithm>
#include <utility>

namespace tandem::daemon
{
namespace
{

std::string joined(const std::vector<Complaint>& complaints)
{
  std::string out;
  for (const Complaint& complaint : complaints)
    out += (out.empty() ? "" : "\n") + complaint.text();
  return out;
}

} // namespace

std::string Source::text() const
{
  return line > 0 ? file + ":" + std::to_string(line) : file;
}

ConfigError::ConfigError(std::vector<Complaint> all) : std::runtime_error { joined(all) }, complaints { std::move(all) }
{
}

bool Config::Daemon::exempts(const FlowKey& flow) const
{
  const auto listed = [&](std::uint16_t port)
  { return std::find(exempt_ports.begin(), exempt_ports.end(), port) != exempt_ports.end(); };
  return listed(flow.remote_port) || listed(flow.local_port)
         || std::any_of(exempt_networks.begin(), exempt_networks.end(),
                        [&](const Network& network) { return network.contains(flow.remote); });
}

bool Config::module_enabled(std::string_view name) const
{
  return std::any_of(modules.begin(), modules.end(),
                     [&](const ModuleSetting& module) { return module.name == name && module.enabled; });
}

void Config::put_switch(const std::string& module, bool on, const Source& where)
{
  const auto found = std::find_if(modules.begin(), modules.end(), [&](const auto& one) { return one.name == module; });
  const ModuleSetting setting { .name = module, .enabled = on, .where = where };
  if (found == modules.end())
    modules.push_back(setting);
  else
    *found = setting;
}

void Config::put_knob(const std::string& module, const std::string& knob, const std::string& text, const Source& where)
{
  if (std::none_of(modules.begin(), modules.end(), [&](const auto& one) { return one.name == module; }))
    modules.push_back({ .name = module, .enabled = false, .where = where, .for_knobs = true });
  std::erase_if(knobs, [&](const KnobSetting& one) { return one.module == module && one.knob == knob; });
  knobs.push_back({ module, knob, text, where });
}

} // namespace tandem::daemon
