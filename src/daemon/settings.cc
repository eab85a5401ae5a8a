#include "src/daemon/settings.h"

#include "src/control/literal.h"
#include "src/control/nearest.h"
#include "src/daemon/config_value.h"
#include "src/daemon/placement_settings.h"

#include <tandem/link.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <initializer_list>
#include <string_view>
#include <utility>

namespace tandem::daemon
{
namespace
{

constexpr std::size_t most_fetch_ports = 16; // kernel::Tap::most_ports
constexpr std::size_t longest_list = 256;

// A list of at most so many interface names, each once.
std::optional<std::vector<std::string>> as_interfaces(const Value& value, std::size_t most)
{
  const auto list = as_list(value);
  if (!list || list->size() > most) return {};
  std::vector<std::string> names;
  for (const Value& one : *list)
  {
    const auto name = as_text(one);
    if (!name || !is_interface_name(*name) || *name == "auto" || *name == "none") return {};
    if (std::find(names.begin(), names.end(), *name) != names.end()) return {};
    names.push_back(*name);
  }
  return names;
}

bool put_more_wifi(Config& config, const Value& value)
{
  const auto word = as_text(value);
  if (word == "auto" || word == "none")
  {
    config.links.more_wifi.reset();
    if (word == "none") config.links.more_wifi.emplace();
    return true;
  }
  auto names = as_interfaces(value, most_wifi - 1);
  if (names) config.links.more_wifi = std::move(*names);
  return names.has_value();
}

// One of some words, each with what it stands for.
template <class To>
bool put_word(To& to, const Value& value, std::initializer_list<std::pair<std::string_view, To>> all)
{
  const auto word = as_text(value);
  const auto found = std::find_if(all.begin(), all.end(), [&](const auto& one) { return word == one.first; });
  if (found == all.end()) return false;
  to = found->second;
  return true;
}

// Bytes, or an empty text for no limit.
bool put_limit(std::optional<std::uint64_t>& to, const Value& value)
{
  if (as_text(value) == "")
  {
    to.reset();
    return true;
  }
  const auto bytes = as_bytes(value);
  if (bytes) to = *bytes;
  return bytes.has_value();
}

constexpr std::string_view ports_needed = "a list of at most 256 ports from 1 to 65535 such as [22, 5060] is needed";

bool put_ports(std::vector<std::uint16_t>& to, const Value& value)
{
  const auto ports = as_ports(value, longest_list);
  if (ports) to = *ports;
  return ports.has_value();
}

bool put_relay(Config& config, const Value& value)
{
  auto names = as_interfaces(value, 2);
  if (!names) return false;
  names->resize(2);
  config.links.relay.wifi = (*names)[0];
  config.links.relay.cell = (*names)[1];
  return true;
}

// What of one kind was said before is replaced.
template <Exclusion::Kind kind>
bool put_exclusions(Config& config, const Value& value)
{
  const auto list = as_list(value);
  if (!list || list->size() > most_exclusions) return false;
  std::vector<ExclusionSetting> fresh;
  for (const Value& one : *list)
  {
    const auto* number = std::get_if<std::int64_t>(&one.what);
    const auto text = number && kind == Exclusion::Kind::user ? std::to_string(*number) : as_text(one);
    auto exclusion = text ? parse_exclusion(kind, *text) : std::nullopt;
    if (!exclusion) return false;
    fresh.push_back({ std::move(*exclusion) });
  }
  std::erase_if(config.exclude, [](const ExclusionSetting& one) { return one.what.kind == kind; });
  config.exclude.insert(config.exclude.end(), fresh.begin(), fresh.end());
  return true;
}

constexpr std::array all {
  Setting { "links.wifi",
            [](Config& c, const Value& v)
            {
              const auto name = as_text(v);
              if (!name || !is_interface_name(*name) || *name == "none") return false;
              c.links.wifi = *name;
              return true;
            },
            "an interface name of 1 to 15 characters, or \"auto\", is needed" },
  Setting { "links.cell",
            [](Config& c, const Value& v)
            {
              const auto name = as_text(v);
              if (!name || !is_interface_name(*name)) return false;
              c.links.cell = *name;
              return true;
            },
            "an interface name of 1 to 15 characters, \"auto\" or \"none\" is needed" },
  Setting { "links.more_wifi", put_more_wifi,
            "\"auto\", \"none\", or a list of at most 7 interface names, each once, such as [\"wlan1\", \"wlan2\"] is "
            "needed" },
  Setting {
      "links.relay", put_relay,
      "a list of the tunnel by Wi-Fi and the one by the cellular link, such as [\"tandem-wifi\", \"tandem-cell\"], of "
      "the first alone, or of none is needed" },
  Setting { "links.radio",
            [](Config& c, const Value& v)
            {
              const auto names = as_sources(v);
              if (names) c.links.radio = *names;
              return names.has_value();
            },
            "\"auto\", \"none\", or names with commas between them are needed: \"nl80211\", \"monitor\", "
            "\"monitor:INTERFACE\", \"lab:PATH\", \"replay:PATH\" (absolute paths of at most 100 characters)" },
  Setting { "links.modem",
            [](Config& c, const Value& v) {
              return put_word(c.links.modem, v, { { "auto", true }, { "none", false } });
            },
            "\"auto\" or \"none\" is needed" },
  Setting { "links.validation",
            [](Config& c, const Value& v) {
              return put_word(c.links.validation, v, { { "auto", true }, { "none", false } });
            },
            "\"auto\" or \"none\" is needed", true },
  Setting { "links.record",
            [](Config& c, const Value& v)
            {
              const auto text = as_text(v);
              if (!text || (!text->empty() && !text->starts_with('/'))) return false;
              c.links.record = *text;
              return true;
            },
            "an absolute path, or an empty text, is needed" },
  Setting { "links.private_peers",
            [](Config& c, const Value& v)
            {
              return put_word(c.links.private_peers, v,
                              { { "never", PrivatePeers::never }, { "as_others", PrivatePeers::as_others } });
            },
            "\"never\" or \"as_others\" is needed" },
  Setting { "detector.watch",
            [](Config& c, const Value& v)
            {
              return put_word(c.detector.watch, v,
                              { { "needed", BlackoutWatch::needed },
                                { "always", BlackoutWatch::always },
                                { "never", BlackoutWatch::never } });
            },
            "\"needed\", \"always\" or \"never\" is needed" },
  Setting { "detector.critical_signal",
            [](Config& c, const Value& v)
            {
              const auto dbm = as_real(v);
              if (!dbm || !(*dbm >= -110 && *dbm <= -30)) return false;
              c.detector.risk.critical_dbm = *dbm;
              return true;
            },
            "a signal in dBm from -110 to -30 is needed", true },
  Setting { "detector.horizon",
            [](Config& c, const Value& v) {
              return put_duration(c.detector.risk.horizon, v, std::chrono::milliseconds { 100 },
                                  std::chrono::seconds { 5 });
            },
            "a duration from \"100ms\" to \"5s\" is needed", true },
  Setting { "daemon.socket",
            // sun_path has 108 bytes, the last one a zero; the lock file's name is as long.
            [](Config& c, const Value& v)
            { return put_path(c.daemon.socket, v, 100) && c.daemon.socket.has_filename(); },
            "an absolute path of a file, at most 100 characters, is needed" },
  Setting { "daemon.socket_group",
            [](Config& c, const Value& v)
            {
              const auto name = as_text(v);
              if (!name || name->size() > 32 || name->find_first_of(" \t\n:") != std::string::npos) return false;
              c.daemon.socket_group = *name;
              return true;
            },
            "a group name, or \"\" for root only, is needed" },
  Setting { "daemon.module_dir", [](Config& c, const Value& v) { return put_path(c.daemon.module_dir, v); },
            "an absolute path of a directory is needed" },
  Setting { "recorder.everything", [](Config& c, const Value& v) { return put_flag(c.recorder.everything, v); },
            "true or false is needed", true },
  Setting { "daemon.queue", [](Config& c, const Value& v) { return put_integer(c.daemon.queue, v, 0, 65535); },
            "an NFQUEUE number from 0 to 65535 is needed" },
  Setting {
      "daemon.pacing",
      [](Config& c, const Value& v) {
        return put_word(c.daemon.pacing, v, { { "auto", Pacing::automatic }, { "interface", Pacing::interface } });
      },
      "\"auto\" or \"interface\" is needed", true },
  Setting { "daemon.queue_length",
            [](Config& c, const Value& v) { return put_integer(c.daemon.queue_length, v, 16, 65536); },
            "a number of packets from 16 to 65536 is needed", true },
  Setting { "daemon.mark_mask",
            [](Config& c, const Value& v)
            {
              std::uint32_t mask = 0;
              if (!put_integer(mask, v, 1, 0xffffffff) || std::popcount(mask) != 3) return false;
              c.daemon.mark_mask = mask;
              return true;
            },
            "three bits of the 32-bit firewall mark, such as 0x70000000, are needed" },
  Setting { "daemon.route_table",
            [](Config& c, const Value& v)
            {
              std::uint32_t table = 0;
              if (!put_integer(table, v, 1, 0xfffffffe) || (table >= 253 && table <= 255)) return false;
              c.daemon.route_table = table;
              return true;
            },
            "a routing table number from 1 to 4294967294, other than 253 to 255 (default, main, local), is needed" },
  Setting { "daemon.backend",
            [](Config& c, const Value& v)
            {
              return put_word(c.daemon.backend, v,
                              { { "auto", RuleBackend::automatic },
                                { "nft", RuleBackend::nft },
                                { "iptables", RuleBackend::iptables } });
            },
            "\"auto\", \"nft\" or \"iptables\" is needed" },
  Setting { "daemon.max_flows",
            [](Config& c, const Value& v) { return put_integer(c.daemon.max_flows, v, 16, 1 << 20); },
            "a number of flows from 16 to 1048576 is needed", true },
  Setting { "daemon.flow_idle",
            [](Config& c, const Value& v)
            { return put_duration(c.daemon.flow_idle, v, std::chrono::seconds { 1 }, std::chrono::hours { 24 }); },
            "a duration from \"1s\" to \"24h\" is needed", true },
  Setting { "daemon.observe_sample",
            [](Config& c, const Value& v) { return put_integer(c.daemon.observe_sample, v, 1, 65535); },
            "a whole number from 1 (every packet) to 65535 is needed", true },
  Setting { "daemon.exempt_networks",
            [](Config& c, const Value& v)
            {
              const auto list = as_list(v);
              if (!list || list->size() > longest_list) return false;
              std::vector<Network> networks;
              for (const Value& element : *list)
              {
                const auto text = as_text(element);
                const auto network = text ? as_network(*text) : std::nullopt;
                if (!network) return false;
                networks.push_back(*network);
              }
              c.daemon.exempt_networks = std::move(networks);
              return true;
            },
            "a list of at most 256 networks such as [\"10.0.0.0/8\", \"2001:db8::/32\"] is needed" },
  Setting { "daemon.exempt_ports", [](Config& c, const Value& v) { return put_ports(c.daemon.exempt_ports, v); },
            ports_needed },
  Setting { "daemon.saved_directory", [](Config& c, const Value& v) { return put_path(c.daemon.saved_directory, v); },
            "an absolute path of a directory is needed", true },
  Setting { "exclude.to", put_exclusions<Exclusion::Kind::to>,
            "a list of at most 256 networks, addresses and host names such as [\"203.0.113.0/24\", "
            "\"updates.example.org\"] is needed" },
  Setting { "exclude.user", put_exclusions<Exclusion::Kind::user>,
            "a list of at most 256 users, by name or number, such as [\"backup\", 1001] is needed" },
  Setting { "exclude.service", put_exclusions<Exclusion::Kind::service>,
            "a list of at most 256 systemd units, scopes or slices such as [\"backup.service\"] is needed" },
  Setting { "exclude.ssid", put_exclusions<Exclusion::Kind::ssid>,
            "a list of at most 256 names of Wi-Fi networks, 1 to 32 bytes each, such as [\"Office\"] is needed" },
  Setting { "recorder.seconds", [](Config& c, const Value& v) { return put_integer(c.recorder.seconds, v, 0, 3600); },
            "a whole number of seconds from 0 (off) to 3600 is needed" },
  Setting { "recorder.bytes",
            [](Config& c, const Value& v)
            {
              const auto bytes = as_bytes(v);
              if (!bytes || *bytes < (1u << 16) || *bytes > (1u << 30)) return false;
              c.recorder.bytes = *bytes;
              return true;
            },
            "a size with its unit from \"64KiB\" to \"1GiB\" is needed", true },
  Setting { "recorder.directory", [](Config& c, const Value& v) { return put_path(c.recorder.directory, v); },
            "an absolute path of a directory is needed" },
  Setting {
      "metrics.listen",
      [](Config& c, const Value& v)
      {
        const auto text = as_text(v);
        if (!text) return false;
        if (text->empty())
        {
          c.metrics.listen.reset();
          return true;
        }
        auto listen = as_loopback(*text);
        if (!listen) return false;
        c.metrics.listen = std::move(listen);
        return true;
      },
      "a loopback address with a port such as \"127.0.0.1:9101\" or \"[::1]:9101\", or \"\" for none, is needed" },
  Setting { "fetch.ports",
            [](Config& c, const Value& v)
            {
              const auto ports = as_ports(v, most_fetch_ports);
              if (ports) c.fetch.ports = *ports;
              return ports.has_value();
            },
            "a list of at most 16 ports from 1 to 65535 such as [80, 8080] is needed" },
  Setting { "fetch.credentials", [](Config& c, const Value& v) { return put_flag(c.fetch.credentials, v); },
            "true or false is needed" },
  Setting { "mptcp.setup", [](Config& c, const Value& v) { return put_flag(c.mptcp.setup, v); },
            "true or false is needed" },
  Setting { "mptcp.foreign", [](Config& c, const Value& v) { return put_flag(c.mptcp.foreign, v); },
            "true or false is needed" },
  Setting { "links.supplicant",
            [](Config& c, const Value& v)
            {
              std::filesystem::path path {};
              if (as_text(v) == "auto")
                c.links.supplicant = "auto";
              else if (put_path(path, v))
                c.links.supplicant = path.string();
              else
                return false;
              return true;
            },
            "an absolute path of a socket, or \"auto\", is needed", true },
  Setting { "cell.metered",
            [](Config& c, const Value& v)
            {
              return put_word(
                  c.cell.metered, v,
                  { { "budget", Metered::budget }, { "never", Metered::never }, { "ignore", Metered::ignore } });
            },
            "\"budget\", \"never\" or \"ignore\" is needed" },
  Setting { "cell.roaming",
            [](Config& c, const Value& v) {
              return put_word(c.cell.roaming, v, { { "never", Roaming::never }, { "budget", Roaming::budget } });
            },
            "\"never\" or \"budget\" is needed" },
  Setting { "budget.cell_bytes", [](Config& c, const Value& v) { return put_limit(c.budget.cell_bytes, v); },
            "a size with its unit such as \"500MB\", or \"\" for no limit, is needed" },
  Setting { "budget.cell_day", [](Config& c, const Value& v) { return put_limit(c.budget.cell_day, v); },
            "a size with its unit such as \"10MB\", or \"\" for no limit, is needed" },
  Setting { "budget.cell_month", [](Config& c, const Value& v) { return put_limit(c.budget.cell_month, v); },
            "a size with its unit such as \"50MB\", or \"\" for no limit, is needed" },
  Setting { "budget.directory", [](Config& c, const Value& v) { return put_path(c.budget.directory, v); },
            "an absolute path of a directory is needed", true },
  Setting { "evidence.share",
            [](Config& c, const Value& v)
            {
              const auto share = as_real(v);
              if (!share || !(*share >= 0 && *share <= 0.5)) return false;
              c.evidence.share = *share;
              return true;
            },
            "a share from 0 (no comparisons) to 0.5 is needed" },
  Setting { "evidence.directory", [](Config& c, const Value& v) { return put_path(c.evidence.directory, v); },
            "an absolute path of a directory is needed", true },
  Setting { "evidence.stretch",
            [](Config& c, const Value& v) {
              return put_duration(c.evidence.stretch, v, std::chrono::milliseconds { 400 },
                                  std::chrono::seconds { 60 });
            },
            "a duration from \"400ms\" to \"60s\" is needed", true },
  Setting { "evidence.seed",
            [](Config& c, const Value& v)
            { return put_integer(c.evidence.seed, v, 0, std::numeric_limits<std::int64_t>::max()); },
            "a whole number is needed, 0 for another one at each start", true },
  Setting { "evidence.paths", [](Config& c, const Value& v) { return put_flag(c.evidence.paths, v); },
            "true or false is needed", true },
  Setting { "placement.enabled", [](Config& c, const Value& v) { return put_flag(c.placement.enabled, v); },
            "true or false is needed" },
  Setting {
      "placement.links", [](Config& c, const Value& v) { return put_links(c.placement, v); },
      "\"auto\" (every Wi-Fi link), a list of links, each once, such as [\"wifi\", \"wifi2\", \"cell\"], or one of "
      "their shares, none below 0, which sum to 1, such as [\"wifi=0.6\", \"wifi2=0.4\"], is needed" },
  Setting { "placement.spread",
            [](Config& c, const Value& v)
            {
              Config::Placement& p = c.placement;
              const bool everything = as_text(v) == "all";
              if (!everything && !put_peers(p.spread_to, p.spread_ports, v)) return false;
              p.by_site = !everything;
              return true;
            },
            "\"all\", or a list of at most 256 networks and ports such as [\"198.51.100.0/24\", 80], is needed" },
  Setting { "placement.exclude",
            [](Config& c, const Value& v) { return put_peers(c.placement.exclude_to, c.placement.exclude_ports, v); },
            "a list of at most 256 networks and ports such as [\"198.51.100.0/24\", 22] is needed" },
  Setting { "placement.short_ports", [](Config& c, const Value& v) { return put_ports(c.placement.short_ports, v); },
            ports_needed },
};

constexpr std::array<RetiredSetting, 16> gone { {
    { "daemon.rule_priority", "is a constant now: 8484" },
    { "recorder.snap", "is a constant now: 256 bytes" },
    { "detector.busy_packets", "is a constant now: 20" },
    { "detector.silence", "is a constant now: 60 ms" },
    { "detector.silence_longest", "is a constant now: 200 ms" },
    { "detector.verdict_after", "is a constant now: 100 ms" },
    { "detector.verdict_probes", "is a constant now: 3" },
    { "detector.radio_silence", "is a constant now: 20 ms" },
    { "detector.radio_verdict", "is a constant now: 45 ms" },
    { "fetch.max_pieces", "is a constant now: 16" },
    { "fetch.piece_bytes", "is a constant now: 256 KiB; budget.cell_bytes limits what goes by cellular" },
    { "fetch.total_bytes", "is a constant now: 4 MiB; budget.cell_bytes limits what goes by cellular" },
    { "fetch.replay_guard", "is a constant now: 256 ms" },
    { "fetch.replay_early_guard", "is a constant now: true" },
    { "fetch.replay_sweep_rate", "is a constant now: 200 Mbit/s" },
    { "fetch.replay_sweep_window", "is a constant now: 4 MiB" },
} };

} // namespace

std::span<const Setting> settings()
{
  return all;
}

const Setting* find_setting(std::string_view key)
{
  const auto found = std::find_if(all.begin(), all.end(), [&](const Setting& s) { return s.key == key; });
  return found == all.end() ? nullptr : &*found;
}

const RetiredSetting* find_retired_setting(std::string_view key)
{
  const auto found = std::find_if(gone.begin(), gone.end(), [&](const RetiredSetting& s) { return s.key == key; });
  return found == gone.end() ? nullptr : &*found;
}

Complaint warning(const RetiredSetting& setting, Source where)
{
  return { std::move(where), std::string { setting.key } + " " + std::string { setting.now } + "; leave it out" };
}

void remember_where(Config& config, std::string_view key, const Source& where)
{
  if (key == "links.wifi") config.links.wifi_where = where;
  if (key == "links.cell") config.links.cell_where = where;
  if (key == "links.more_wifi") config.links.more_wifi_where = where;
  if (key == "links.relay") config.links.relay.where = where;
  if (key == "budget.cell_day") config.budget.cell_day_where = where;
  if (key == "budget.cell_month") config.budget.cell_month_where = where;
  if (key == "placement.enabled") config.placement.enabled_where = where;
  for (ExclusionSetting& one : config.exclude)
    if (one.where.file.empty()) one.where = where;
}

std::vector<std::string_view> known_settings(std::string_view section)
{
  std::vector<std::string_view> known;
  for (const Setting& each : all)
    if (each.key.starts_with(section) && !each.for_tests) known.push_back(each.key.substr(section.size()));
  return known;
}

// "did you mean X?" when one is near, else all there are.
std::string suggestion(std::string_view name, std::span<const std::string_view> known)
{
  if (const std::string_view nearest = closest(name, known); !nearest.empty())
    return "did you mean " + std::string { nearest } + "?";
  std::string names = "known here: ";
  for (std::size_t i = 0; i < known.size(); ++i)
    names += (i == 0 ? "" : ", ") + std::string { known[i] };
  return names;
}

} // namespace tandem::daemon
