// The daemon's configuration (TOML), read and checked as a whole before anything is touched. Pure: no kernel, no clock.
#pragma once

#include "src/daemon/exclusion.h"
#include "src/links/blackout.h"
#include "src/links/network.h"
#include "src/links/risk.h"

#include <tandem/link.h>
#include <tandem/segment.h>
#include <tandem/units.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tandem::daemon
{

// The file of what was given there.
constexpr std::string_view command_line = "command line";

// Where a value was written, so that an error can point there even when it is found later.
struct Source
{
  std::string file; // `command_line` for an override, empty for a default
  int line = 0;     // from 1; 0 when there is none

  std::string text() const; // "tandem.toml:12" or "command line"
};

// One thing that is wrong with a configuration.
struct Complaint
{
  Source where {};
  std::string what; // `links.wifi = "": an interface name of 1 to 15 characters is needed`

  std::string text() const { return where.text() + ": " + what; } // FILE:LINE: KEY = VALUE: WHAT IS ALLOWED
};

// A configuration that cannot be used: every complaint, one a line. Exit code 2.
class ConfigError : public std::runtime_error
{
public:
  explicit ConfigError(std::vector<Complaint> all);
  std::vector<Complaint> complaints;
};

// [modules.NAME] KNOB = VALUE, not yet checked against the module's knobs. `text` is what parse_knob
// (control/literal.h) takes.
struct KnobSetting
{
  std::string module;
  std::string knob;
  std::string text;
  Source where {};
};

// [modules.NAME] itself. A module without a table is loaded but off.
struct ModuleSetting
{
  std::string name;
  bool enabled = true; // a table without `enabled` means on
  Source where {};
  bool for_knobs = false; // nobody said on or off: it is here because one of its knobs is
};

using links::Network;

// [profile.NAME]: what holds while the Wi-Fi link is in one of these networks, see with_profile().
struct Profile
{
  std::string name;
  std::vector<std::string> ssids {}; // in no other profile
  std::optional<bool> cell {};       // cell.use: whether anything of Tandem's goes by the cellular link
  // As of Config::Budget; nothing: the profile says nothing of it.
  std::optional<std::optional<std::uint64_t>> cell_day {}, cell_month {};
  std::vector<ModuleSetting> modules {}; // `for_knobs` where it only sets knobs
  std::vector<KnobSetting> knobs {};
  Source where {}, ssid_where {};

  std::vector<std::string> texts() const; // what it sets, for a user: `cell.use = "never"`, "modules.mirror off"
};

// One value of [exclude].
struct ExclusionSetting
{
  Exclusion what;
  Source where {};
};

// Whether the cellular link may be used for peers that only the Wi-Fi link's network knows.
enum class PrivatePeers : std::uint8_t
{
  never,
  as_others, // as all others: of the lab, where every address is private
};

enum class RuleBackend : std::uint8_t
{
  automatic,
  nft,
  iptables,
};

// What Tandem puts on a cellular link that NetworkManager calls metered.
enum class Metered : std::uint8_t
{
  budget, // what [budget] allows
  never,  // nothing
  ignore, // as `budget`, and NetworkManager is not asked
};

// The same while the modem roams.
enum class Roaming : std::uint8_t
{
  never,
  budget, // what [budget] allows
};

// By what the pace of uploads is bounded.
enum class Pacing : std::uint8_t
{
  automatic, // by BPF where that works, else at the interface
  interface,
};

// When Wi-Fi is watched for blackouts.
enum class BlackoutWatch : std::uint8_t
{
  needed, // while a module wants to know
  always,
  never,
};

// A loopback TCP address for Prometheus.
struct Listen
{
  std::string host; // "127.0.0.1" or "::1"
  std::uint16_t port = 0;
};

struct Config
{
  std::string file; // as given; empty when there is none

  struct Links
  {
    std::string wifi = "auto"; // interface name, or "auto"
    std::string cell = "auto"; // interface name, "auto", or "none"
    // Further Wi-Fi interfaces; nothing: those that are there ("auto").
    std::optional<std::vector<std::string>> more_wifi {};
    std::vector<std::string> radio { "auto" }; // sources of driver statistics, see is_source_name(); empty: none
    bool modem = true;                         // ask ModemManager, when it is there
    std::string supplicant = "auto";           // path of wpa_supplicant's global control socket, or "auto"
    bool validation = true;                    // ask NetworkManager for captive portals, when it is there
    std::string record;                        // file that gets every report; empty: none
    PrivatePeers private_peers = PrivatePeers::never;
    // Tunnels to a relay of the user's own, by which both links have one and the same address towards servers.
    struct Relay
    {
      std::string wifi {}; // interface of the tunnel that leaves by Wi-Fi; empty: there is no relay
      std::string cell {}; // of the one that leaves by the cellular link; empty: none
      // The firewall mark of the latter's own packets (WireGuard's FwMark), which is how they find the cellular link.
      static constexpr std::uint32_t mark = 0x54;
      Source where {};
    } relay;
    Source wifi_where {}; // for errors found when the interface is looked up
    Source cell_where {};
    Source more_wifi_where {};
  } links;

  // What Tandem may do to the kernel's MPTCP.
  struct Mptcp
  {
    bool setup = false;   // make endpoints on the links and raise limits; taken back at the end
    bool foreign = false; // change the backup flag of endpoints that others made; put back at the end
  } mptcp;

  struct Daemon
  {
    std::filesystem::path socket = "/run/tandem/control.sock";
    std::string socket_group;         // may use the control socket; empty: root only
    std::filesystem::path module_dir; // empty: ../lib/tandem beside the program, see layout.h
    std::uint16_t queue = 84;         // NFQUEUE number
    Pacing pacing = Pacing::automatic;
    std::uint32_t queue_length = 1024; // packets waiting for a verdict before the kernel lets them through
    // The three bits of the firewall mark that Tandem uses, from the lowest: leaves by the cellular link, made by
    // Tandem, need not be queued any more (src/kernel/marks.h). All other bits are left to others.
    std::uint32_t mark_mask = 0x70000000;
    std::uint32_t route_table = 8484;
    static constexpr std::uint32_t rule_priority = 8484; // before the main table's 32766
    RuleBackend backend = RuleBackend::automatic;
    std::uint32_t max_flows = 4096;
    Duration flow_idle = std::chrono::seconds { 120 };
    std::uint32_t observe_sample = 16;       // one of so many packets is copied for passive measurement
    std::vector<Network> exempt_networks;    // remote addresses that are never touched
    std::vector<std::uint16_t> exempt_ports; // remote ports that are never touched

    // Whether the flow is one that is never touched, as the rules have it: they look at both ports.
    bool exempts(const FlowKey& flow) const;

    std::filesystem::path saved_directory = "/var/lib/tandem/saved"; // where settings are that a user had saved
  } daemon;

  struct Recorder
  {
    std::uint32_t seconds = 30;                // kept; 0 turns the recorder off
    std::uint64_t bytes = 8u << 20;            // of memory at most
    bool everything = false;                   // queue all TCP of the Wi-Fi addresses, also what no module needs
    static constexpr std::uint32_t snap = 256; // bytes kept of each packet
    std::filesystem::path directory = "/var/lib/tandem"; // where SIGUSR1 writes
  } recorder;

  struct Detector
  {
    BlackoutWatch watch = BlackoutWatch::needed;
    links::DetectorSettings blackout {};
    links::RiskSettings risk {};
  } detector;

  struct Metrics
  {
    std::optional<Listen> listen; // next to /metrics on the Unix socket
  } metrics;

  struct Budget
  {
    std::optional<std::uint64_t>
        cell_bytes; // sent by the cellular link on Tandem's decision since start; none: no limit
    // Likewise in a day and in a month of this machine's time zone; kept over restarts. None: no limit.
    std::optional<std::uint64_t> cell_day = 10'000'000;
    std::optional<std::uint64_t> cell_month = 50'000'000;
    Source cell_day_where {}, cell_month_where {};              // what the command line says no profile changes
    std::filesystem::path directory = "/var/lib/tandem/budget"; // where what was spent is kept
  } budget;

  // What the cellular link costs, as NetworkManager and ModemManager know it.
  struct Cell
  {
    Metered metered = Metered::budget;
    Roaming roaming = Roaming::never;
    bool use = true; // a profile may forbid the link altogether
    // Whether what it costs can forbid the link.
    bool gates() const { return metered == Metered::never || roaming == Roaming::never; }
  } cell;

  // What modules gain is measured while they run (src/evidence).
  struct Evidence
  {
    double share = 0.05; // of flows, and of the time within long ones, that goes to comparisons; 0: none, nothing rests
    std::filesystem::path directory = "/var/lib/tandem/evidence"; // where it is remembered
    Duration stretch {};    // of a comparison; zero: as long as its round trips need
    std::uint64_t seed = 0; // of the lot; zero: another one each time
    bool paths = true;      // by the cellular link, that failed or are known, are remembered, compared or not
    bool remembers() const { return share > 0 || paths; }
  } evidence;

  // How bytes of plaintext downloads are fetched a second time, for modules that do so.
  struct Fetching
  {
    std::vector<std::uint16_t> ports = { 80 }; // of plaintext HTTP servers; empty: nothing is looked into
    // Requests with cookies, or with an authorization that may be said twice, are made again, too.
    bool credentials = false;
    static constexpr std::uint32_t max_pieces = 16;          // under way at a time
    static constexpr std::uint64_t piece_bytes = 256u << 10; // of one piece at most, with what is compared
    static constexpr std::uint64_t total_bytes = 4u << 20;   // of all pieces, under way or waiting to be handed over
  } fetch;

  // New TCP connections are given to the links in turns; taken over by a reload.
  struct Placement
  {
    bool enabled = false;
    // Which get some; nothing: every Wi-Fi link ("auto"), or those with a share.
    std::optional<std::vector<Link>> links {};
    // Parts of one; empty: by what each link has been seen to carry.
    std::vector<std::pair<Link, double>> shares {};
    bool by_site = true;               // connections to one site keep to one link, but for the next two
    std::vector<Network> spread_to {}; // of which each connection goes by itself
    std::vector<std::uint16_t> spread_ports = { 80 };
    std::vector<Network> exclude_to {};
    std::vector<std::uint16_t> exclude_ports {};
    std::vector<std::uint16_t> short_ports = { 853 }; // where the round trip is shortest
    // Bits of the firewall mark and of the connection mark: a number for each link. Beside those of Tailscale
    // (0xff0000) and of daemon.mark_mask.
    static constexpr std::uint32_t mark_mask = 0x0f000000;
    Source enabled_where {};
  } placement;

  std::vector<ExclusionSetting> exclude; // [exclude]: what is left alone, taken over by a reload

  std::vector<ModuleSetting> modules;
  std::vector<KnobSetting> knobs;
  std::vector<Profile> profiles; // [profile.NAME], taken over by a reload
  // What has no effect any more: settings and knobs of earlier releases. No reason to refuse a configuration.
  std::vector<Complaint> warnings;

  bool module_enabled(std::string_view name) const;
  // Whether a day or a month has a limit, in some profile at least.
  bool limits_spending() const;
  // Whatever was said of it before. A knob does not switch its module on.
  void put_switch(const std::string& module, bool on, const Source& where);
  void put_knob(const std::string& module, const std::string& knob, const std::string& text, const Source& where);
};

// The configuration while the profile holds; null: none does. What the command line says is above it.
Config with_profile(Config config, const Profile* profile);
// Null: none.
const Profile* profile_of_network(const std::vector<Profile>& all, std::string_view ssid);
const Profile* find_profile(const std::vector<Profile>& all, std::string_view name);

// What is wrong with a setting: "an integer from 1 to 100 is needed".
struct KnobRemark
{
  KnobRemark(std::string what) : text { std::move(what) } {}
  KnobRemark(const char* what) : text { what } {}
  KnobRemark(std::string what, bool without_harm) : text { std::move(what) }, harmless { without_harm } {}

  std::string text;
  bool harmless = false; // the knob of an earlier release: a warning, and without effect
};

// Says what is wrong with a setting, or nothing. Supplied by whoever has the modules loaded. It is also asked about
// ModuleSettings: `knob` is empty then.
using KnobCheck = std::function<std::optional<KnobRemark>(const KnobSetting&)>;

struct ConfigResult
{
  Config config {};                  // meaningful only without complaints
  std::vector<Complaint> complaints; // in the order of lines
};

// Reads the text of a configuration; `file` is only for messages. Never throws on bad text. `check` may be empty.
ConfigResult parse_config(std::string_view text, const std::string& file, const KnobCheck& check = {});

// The same from a file; that it cannot be read is a complaint.
ConfigResult read_config(const std::filesystem::path& path);
// Throws ConfigError with every complaint, also when the file cannot be read.
Config load_config(const std::filesystem::path& path, const KnobCheck& check = {});

// Asks `check` about every module and knob of a configuration read earlier. What is harmless goes to `warnings`.
std::vector<Complaint> check_modules(const Config& config, const KnobCheck& check,
                                     std::vector<Complaint>* warnings = nullptr);

// Settings from the command line go through the same checks as the file. `key` is dotted ("links.wifi"); returns the
// complaint, if any, and leaves the configuration as it was then. Lists are written with commas. Rules between settings
// are left to conflicts().
std::optional<Complaint> override_setting(Config& config, std::string_view key, std::string_view value);

// What is wrong between settings, each fine by itself: one interface for two links.
// parse_config does this for a file; call it after the last override_setting.
std::vector<Complaint> conflicts(const Config& config);

} // namespace tandem::daemon
