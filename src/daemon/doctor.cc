#include "src/daemon/doctor.h"

#include "src/daemon/fetch_loader.h"
#include "src/daemon/lock.h"
#include "src/daemon/network_text.h"
#include "src/daemon/placement_driver.h"
#include "src/kernel/clock.h"
#include "src/kernel/command.h"
#include "src/kernel/fd.h"
#include "src/kernel/mptcp/mptcp_pm.h"
#include "src/kernel/pacing/interface_shaping.h"
#include "src/kernel/pacing/socket_pacing.h"
#include "src/kernel/rules/ce_rules.h"
#include "src/kernel/rules/placement_rules.h"
#include "src/kernel/rules/rules.h"
#include "src/links/find_interfaces.h"
#include "src/links/monitor.h"

#include <linux/capability.h>
#include <nlohmann/json.hpp>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <sstream>

namespace tandem::daemon
{

using namespace kernel;

namespace
{

namespace fs = std::filesystem;

std::string read_word(const std::string& path)
{
  std::string word;
  std::ifstream { path } >> word;
  return word;
}

std::string hex(std::uint32_t n)
{
  std::ostringstream text;
  text << "0x" << std::hex << n;
  return text.str();
}

bool has_capability(int number)
{
  std::ifstream file { "/proc/self/status" };
  for (std::string line; std::getline(file, line);)
    if (line.rfind("CapEff:", 0) == 0) return std::stoull(line.substr(7), nullptr, 16) >> number & 1;
  return false;
}

std::set<std::string> running_programs()
{
  std::set<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator { "/proc", error })
    if (std::isdigit(static_cast<unsigned char>(entry.path().filename().string().front())))
      names.insert(read_word(entry.path() / "comm"));
  // The packaged service sees no processes of others, but the cgroups of their services.
  for (const char* slice : { "/sys/fs/cgroup/system.slice", "/sys/fs/cgroup/systemd/system.slice" })
    for (const auto& entry : fs::directory_iterator { slice, error })
      if (entry.path().extension() == ".service") names.insert(entry.path().stem());
  return names;
}

constexpr std::array<std::string_view, 4> own_tables { "table inet tandem {", "table inet tandem_steer {",
                                                       "table inet tandem_place {", "table inet tandem_placed {" };

// "routes lead into wg0 (wireguard): 10.0.0.0/8, 10.99.0.0/24 and 5 more; flows there are left alone"
std::string aside_text(const std::vector<links::Routing::Aside>& all)
{
  constexpr std::size_t most = 3;
  std::string text {}, into {};
  for (std::size_t i = 0; i < std::min(all.size(), most); ++i)
  {
    text += i == 0 ? "" : ", ";
    if (all[i].tunnel != into) text += all[i].tunnel + ": ";
    into = all[i].tunnel;
    text += prefix_text(all[i].to);
  }
  if (all.size() > most) text += " and " + std::to_string(all.size() - most) + " more";
  return text.empty() ? "" : "routes lead into " + text + "; flows there are left alone";
}

// Lines of every rule set on this machine that are not Tandem's own.
struct ForeignRules
{
  std::vector<std::string> lines;
  bool own = false; // Tandem's are there as well
};

ForeignRules read_rules()
{
  ForeignRules found;
  auto take = [&](const std::string& text)
  {
    bool in_own_table = false;
    bool in_own_chain = false; // of iptables-nft: a rule's line does not name it
    bool kept = false;         // for living connections, after an orderly end, too
    std::istringstream lines { text };
    for (std::string line; std::getline(lines, line);)
    {
      if (line.starts_with("table "))
      {
        in_own_table = std::ranges::any_of(own_tables, [&](std::string_view own) { return line.starts_with(own); });
        kept = line.starts_with(own_tables.back());
      }
      line.erase(0, std::min(line.find_first_not_of(" \t"), line.size()));
      if (line.starts_with("chain ") || line == "}") in_own_chain = line.starts_with("chain TANDEM-");
      const bool own = in_own_table || in_own_chain || line.find("TANDEM-") != std::string::npos;
      found.own |= own && !kept;
      if (!own) found.lines.push_back(line);
    }
  };
  // nft shows the chains of iptables-nft as well, but its text of their matches is not complete: both are asked.
  take(run({ "nft", "list", "ruleset" }).output);
  for (const char* tool : { "iptables-nft-save", "ip6tables-nft-save" })
    take(run({ tool }).output);
  if (!read_word("/proc/net/ip_tables_names").empty()) take(run({ "iptables-legacy-save" }).output);
  if (!read_word("/proc/net/ip6_tables_names").empty()) take(run({ "ip6tables-legacy-save" }).output);
  return found;
}

// The line, and which of our bits it uses; 0 when none.
std::uint32_t mark_bits_used(const std::string& line)
{
  // Tandem marks TCP alone. wg-quick keeps its tunnel's mark for UDP.
  for (const char* udp : { "meta l4proto udp ", "-p udp " })
    if (line.find(udp) != std::string::npos && line.find("! -p udp ") == std::string::npos) return 0;
  std::uint32_t bits = 0;
  for (const char* option : { "--set-xmark ", "--mark ", "--set-mark ", "--nfmask ", "--ctmask " })
    for (std::size_t at = 0; (at = line.find(option, at)) != std::string::npos; ++at)
    {
      std::size_t start = at + std::string_view { option }.size();
      std::size_t slash = line.find('/', start), space = line.find(' ', start);
      std::size_t number = slash != std::string::npos && slash < space ? slash + 1 : start;
      // Without a mask all bits are meant.
      const bool whole = number == start && std::string_view { option }.find("mask") == std::string_view::npos;
      bits |= whole ? 0xffff'ffffu : static_cast<std::uint32_t>(std::strtoul(line.c_str() + number, nullptr, 0));
    }
  // nft copies whole marks: a saved by-cell bit would come back on every packet of the flow.
  for (const char* copy : { "ct mark set meta mark", "ct mark set mark", "mark set ct mark" })
    if (line.find(copy) != std::string::npos && line.find('&') == std::string::npos) bits = 0xffff'ffff;
  return bits;
}

// `shared`: bits of ours that others use.
std::string marks_remedy(std::uint32_t shared, const DoctorInput& in)
{
  std::string text = "if that is a VPN or a container manager, ";
  if (shared & in.mark_mask) text += "set `daemon.mark_mask`";
  if (shared & in.placement_mask)
    text += std::string { shared & in.mark_mask ? "; " : "" } + "give it others than placement's "
            + hex(in.placement_mask) + ", or set `placement.enabled = false`";
  return text;
}

// FwMark of a tunnel of WireGuard; 0: it has none. wg says it to root alone, who may know the keys.
std::optional<std::uint32_t> own_mark(const std::string& tunnel)
{
  const CommandResult said = run({ "wg", "show", tunnel, "fwmark" }, {}, std::chrono::seconds { 5 });
  if (!said.ok()) return {};
  if (said.output.starts_with("off")) return 0;
  char* end = nullptr;
  const unsigned long mark = std::strtoul(said.output.c_str(), &end, 0);
  if (end == said.output.c_str() || mark > UINT32_MAX) return {};
  return static_cast<std::uint32_t>(mark);
}

// "auto" is for the checks to find out.
std::string named(const std::string& interface)
{
  return interface == "auto" || interface == "none" ? "" : interface;
}

class Examination
{
public:
  explicit Examination(const DoctorInput& input) : in_ { input } {}

  std::vector<Check> run_all()
  {
    for (auto part : { &Examination::rights, &Examination::queueing, &Examination::interfaces, &Examination::conflicts,
                       &Examination::routing, &Examination::tcp, &Examination::steering, &Examination::managers,
                       &Examination::modules })
    {
      try
      {
        (this->*part)();
      }
      catch (const std::exception& e)
      {
        add("examination", Health::warn, std::string { "not finished: " } + e.what(), "report this");
      }
    }
    return std::move(checks_);
  }

private:
  void add(std::string name, Health health, std::string found, std::string remedy = {})
  {
    checks_.push_back({ std::move(name), health, std::move(found), std::move(remedy) });
  }

  void rights()
  {
    const bool admin = has_capability(CAP_NET_ADMIN), raw = has_capability(CAP_NET_RAW);
    privileged_ = admin && raw;
    add("permissions", privileged_ ? Health::ok : Health::fail,
        privileged_ ? "CAP_NET_ADMIN and CAP_NET_RAW"
                    : std::string { "missing:" } + (admin ? "" : " CAP_NET_ADMIN") + (raw ? "" : " CAP_NET_RAW"),
        privileged_ ? "" : "run it as root");
    Fd raw_socket { socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, 255) };
    add("raw sockets", raw_socket ? Health::ok : Health::fail, raw_socket ? "can be opened" : "refused",
        raw_socket ? "" : "run it as root");
    Fd packet_socket { socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC, 0) };
    add("packet sockets", packet_socket ? Health::ok : Health::fail, packet_socket ? "can be opened" : "refused",
        packet_socket ? "" : "run it as root; the kernel needs CONFIG_PACKET");
  }

  void queueing()
  {
    if (!privileged_)
    {
      add("packet queue", Health::fail, "cannot be examined without permissions", "run it as root");
      return;
    }
    const std::string nft = probe_nftables();
    add("nft queue expression", nft.empty() ? Health::ok : Health::absent, nft.empty() ? "present" : nft,
        nft.empty() ? "" : "none needed when iptables NFQUEUE works; else load the kernel module nft_queue");
    bool iptables_works = false;
    std::string reasons;
    for (const std::string variant : { "nft", "legacy" })
    {
      std::string reason = probe_iptables(variant);
      if (reason.empty())
      {
        iptables_works = true;
        reasons = "works with iptables-" + variant;
        break;
      }
      reasons += (reasons.empty() ? "" : "; ") + ("iptables-" + variant) + ": " + reason;
    }
    const Health without = nft.empty() ? Health::absent : Health::fail;
    add("iptables NFQUEUE", iptables_works ? Health::ok : without, reasons,
        iptables_works || nft.empty() ? "" : "install iptables and load the kernel module xt_NFQUEUE");

    std::ifstream queues { "/proc/self/net/netfilter/nfnetlink_queue" };
    bool taken = false;
    for (std::string line; std::getline(queues, line);)
      taken |= std::atoi(line.c_str()) == in_.queue && !line.empty();
    const bool by_tandem = keeper_runs();
    add("queue number " + std::to_string(in_.queue), taken && !by_tandem ? Health::fail : Health::ok,
        !taken      ? "free"
        : by_tandem ? "in use by the running Tandem"
                    : "in use by another program",
        taken && !by_tandem ? "stop that program, or set another queue number" : "");
  }

  // In this network namespace.
  bool keeper_runs() const
  {
    try
    {
      return look_at_lock(namespace_lock_file(in_.run_directory)).held;
    }
    catch (const std::exception&)
    {
      return false; // whoever may not read the lock cannot see rules either
    }
  }

  void interfaces()
  {
    auto role = [&](const char* what, const std::string& given, const links::Found& found, Health without)
    {
      const std::string name = given.empty() ? found.interface : given;
      if (name.empty())
        add(std::string { what } + " interface", without, "none",
            (without == Health::absent ? "optional: " : "") + found.why);
      return name;
    };
    wifi_ = role("wifi", in_.wifi, links::find_wifi(), Health::fail);
    // The second way is optional: without it, and until it is of use, modules do with Wi-Fi what they can.
    if (in_.no_cell)
      add("cell interface", Health::ok, "none is to be used (links.cell)", "");
    else
      cell_ = role("cell", in_.cell, links::find_cell(), Health::absent);
    links::Monitor monitor { wifi_, cell_, now() };
    for (Link link : { Link::wifi, Link::cell })
    {
      const links::LinkInfo& info = monitor[link];
      if (info.interface.empty()) continue;
      const std::string role_name { name(link) }, what = role_name + " interface";
      if (info.ifindex == 0)
        add(what, link == Link::wifi ? Health::fail : Health::warn, info.interface + " does not exist",
            "connect it, or name another: links." + role_name + " in the configuration, or tandem up --" + role_name
                + " INTERFACE");
      else if (!info.up)
        add(what, Health::warn, info.interface + " is down", "connect it; Tandem follows by itself");
      else if (info.addresses.empty())
        add(what, Health::warn, info.interface + " has no address",
            "wait for DHCP, or connect it; Tandem follows by itself");
      else
        add(what, Health::ok,
            info.interface + ": up, " + std::to_string(info.addresses.size()) + " address"
                + (info.addresses.size() > 1 ? "es" : "") + ", MTU " + std::to_string(info.mtu));
    }
    const links::LinkInfo cell = monitor[Link::cell]; // the modem, whatever is above it
    if (!in_.relay_wifi.empty()) relay(monitor);
    tunnel(monitor);
    if (cell.ifindex == 0) return;
    const bool route = cell.default_v4 || cell.default_v6;
    add("second default route", route || cell.point_to_point ? Health::ok : Health::warn,
        route                 ? "by " + cell.interface
        : cell.point_to_point ? cell.interface + " is point-to-point: none needed"
                              : "none by " + cell.interface,
        route || cell.point_to_point
            ? ""
            : "give " + cell.interface + " a default route with a higher metric than the Wi-Fi one");
  }

  // Which way a tunnel's own packets take is told by its mark. What cannot be asked is taken for right.
  bool relay_marks_fit(const std::string& wifi, const std::string& cell)
  {
    constexpr std::uint32_t by_modem = Config::Links::Relay::mark;
    const std::string given = hex(by_modem);
    const auto warn = [&](const std::string& found, const std::string& advice)
    {
      add("relay", Health::warn, found, advice);
      return false;
    };
    if (const auto mark = cell.empty() ? by_modem : own_mark(cell); mark && *mark != by_modem)
      return warn(cell + " has " + (*mark == 0 ? "no firewall mark" : "the firewall mark " + hex(*mark))
                      + " (FwMark), not " + given + ": its own packets do not find the modem",
                  "FwMark = " + given + " in its file (docs/relay.md); until then: wg set " + cell + " fwmark "
                      + given);
    const auto mark = own_mark(wifi);
    if (mark == by_modem)
      return warn(wifi + " has the firewall mark " + given
                      + " (FwMark), which is that of the tunnel by cellular: its own packets leave by the modem",
                  "take FwMark out of its file, for wg-quick to choose one, and start it anew");
    if (const std::uint32_t shared = mark.value_or(0) & (in_.mark_mask | in_.placement_mask); shared != 0)
      return warn(wifi + " has the firewall mark " + hex(*mark) + " (FwMark), of which " + hex(shared)
                      + " is Tandem's: its own packets may leave by the modem",
                  "give it a FwMark without these bits");
    return true;
  }

  // Where the tunnel by Wi-Fi is there, the tunnels have the roles from here on.
  void relay(links::Monitor& monitor)
  {
    const auto say = [&](const std::string& found, const std::string& advice)
    { add("relay", advice.empty() ? Health::ok : Health::warn, found, advice); };
    const auto all = monitor.table().present();
    if (std::none_of(all.begin(), all.end(), [&](const auto& one) { return one.name == in_.relay_wifi; }))
      return say(in_.relay_wifi + " (links.relay) does not exist: flows go by Wi-Fi directly",
                 "start it, most often: systemctl start wg-quick@" + in_.relay_wifi);
    monitor.assign(in_.relay_wifi, in_.relay_cell, {}, now(), { .wifi = wifi_, .cell = cell_ });
    const links::LinkInfo &wifi = monitor[Link::wifi], &cell = monitor[Link::cell];
    const auto leads_into_it = [&](const Address& own)
    { return monitor.routing().outlook(own.v6, wifi.addresses, {}).tunnel.starts_with(wifi.interface + " "); };
    // The kernel looks at no source of IPv6.
    const bool strict = !cell_.empty() && filters_reverse_path(cell_);
    if (std::none_of(wifi.addresses.begin(), wifi.addresses.end(), leads_into_it))
      say(wifi.interface + " (links.relay) does not have the default route: flows that go past it are left alone",
          "let its peer have AllowedIPs = 0.0.0.0/0, ::/0 (docs/relay.md)");
    else if (!in_.relay_cell.empty() && cell.ifindex == 0)
      say(cell.interface + " (links.relay) does not exist: nothing leaves by the cellular link",
          "start it, most often: systemctl start wg-quick@" + cell.interface);
    else if (const std::string& by = monitor.table().other_default(); !by.empty())
      say("the tunnel leaves by " + by + ", not by " + wifi_ + ": every flow is left alone",
          "none needed while that is wanted; else give " + by + " a default route with a higher metric");
    else if (cell.ifindex != 0 && strict)
      say("answers of the relay to " + cell.interface + " are dropped where they arrive over IPv4 (rp_filter 1 of "
              + cell_ + "): nothing leaves by the cellular link",
          "sysctl net.ipv4.conf." + cell_ + ".rp_filter=2");
    else if (relay_marks_fit(wifi.interface, cell.interface))
      say("by " + wifi.interface + (in_.relay_cell.empty() ? "" : " and " + cell.interface), "");
  }

  void tunnel(const links::Monitor& monitor)
  {
    // As the daemon sees it: an interface whose role nobody gave it by name, and that may be a VPN's, is none.
    std::vector<std::string> roles { monitor[Link::wifi].interface };
    if (!in_.cell.empty() || cell_.rfind("ppp", 0) != 0) roles.push_back(monitor[Link::cell].interface);
    const std::string why = links::hands_off(monitor.routing(), monitor[Link::wifi].addresses, roles);
    const std::string partly = aside_text(monitor.routing().aside(monitor[Link::wifi].addresses, roles));
    const std::string none = "none has the default route" + (partly.empty() ? "" : "; " + partly);
    add("tunnel", why.empty() ? Health::ok : Health::warn, why.empty() ? none : why,
        why.empty() ? ""
                    : "none needed: Tandem keeps its hands off every flow until that ends (docs/beside-others.md)");
  }

  void conflicts()
  {
    if (!privileged_) return;
    const ForeignRules rules = read_rules();
    const std::string number = std::to_string(in_.queue);
    std::string queue_user, mark_users;
    const std::uint32_t ours = in_.mark_mask | in_.placement_mask;
    std::uint32_t shared = 0;
    for (const std::string& line : rules.lines)
    {
      std::istringstream words { line };
      std::vector<std::string> all { std::istream_iterator<std::string> { words }, {} };
      for (std::size_t i = 0; i + 1 < all.size(); ++i)
        if ((all[i] == "--queue-num" || all[i] == "to" || all[i] == "num") && all[i + 1] == number
            && line.find("ueue") != std::string::npos)
          queue_user = line;
      if (std::uint32_t common = mark_bits_used(line) & ours; common != 0)
      {
        shared |= common;
        mark_users += (mark_users.empty() ? "" : "; ") + hex(common) + " in \"" + line + "\"";
      }
    }
    add("other rules on queue " + number, queue_user.empty() ? Health::ok : Health::fail,
        queue_user.empty() ? "none" : queue_user,
        queue_user.empty() ? "" : "remove that rule, or set another queue number");

    auto routing = nlohmann::json::parse(run({ "ip", "-j", "rule" }).output, nullptr, false);
    std::string clash;
    if (routing.is_array())
      for (const auto& rule : routing)
      {
        const bool own = rule.value("protocol", "") == "84";
        const std::uint32_t priority = rule.value("priority", 0u);
        if (own) continue;
        if (priority == in_.route.priority || rule.value("table", "") == std::to_string(in_.route.table))
          clash = "ip rule " + std::to_string(priority) + " is not Tandem's";
        if (!rule.contains("fwmark")) continue;
        // wg-quick's "not fwmark 0xca6c": what has Tandem's bits has not that mark, with them or without.
        if (rule.contains("not") && !rule.contains("fwmask")) continue;
        const auto mask =
            static_cast<std::uint32_t>(std::strtoul(rule.value("fwmask", "0xffffffff").c_str(), nullptr, 0));
        if (mask & ours)
        {
          shared |= mask & ours;
          mark_users += (mark_users.empty() ? "" : "; ") + hex(mask & ours) + " in ip rule " + std::to_string(priority);
        }
      }
    add("mark bits " + hex(ours), mark_users.empty() ? Health::ok : Health::warn,
        mark_users.empty() ? "unused by others" : mark_users, mark_users.empty() ? "" : marks_remedy(shared, in_));
    add("routing table " + std::to_string(in_.route.table), clash.empty() ? Health::ok : Health::warn,
        clash.empty() ? "free for Tandem" : clash,
        clash.empty() ? ""
                      : "set `daemon.route_table`; a foreign ip rule of priority " + std::to_string(in_.route.priority)
                            + " has to get another one");

    const bool runs = keeper_runs();
    add("leftover rules", rules.own && !runs ? Health::warn : Health::ok,
        runs        ? "Tandem is running"
        : rules.own ? "rules of a Tandem that was killed"
                    : "none",
        rules.own && !runs ? "harmless: packets pass; the next start of tandemd removes them" : "");
  }

  void routing()
  {
    auto setting = [](const std::string& name) { return read_word("/proc/sys/net/ipv4/conf/" + name); };
    const std::string all = setting("all/rp_filter"), own = wifi_.empty() ? "" : setting(wifi_ + "/rp_filter");
    const bool strict = all == "1" || own == "1";
    const bool by_mark =
        setting("all/src_valid_mark") == "1" || (!wifi_.empty() && setting(wifi_ + "/src_valid_mark") == "1");
    // Acknowledgements only leave by cell; what arrives on Wi-Fi is looked up without the mark unless src_valid_mark.
    add("reverse-path filter", strict && by_mark ? Health::warn : Health::ok,
        strict ? by_mark ? "strict, by mark (src_valid_mark)" : "strict: does not matter, only ACKs leave by cell"
               : "not strict",
        strict && by_mark ? "sysctl net.ipv4.conf.all.src_valid_mark=0, unless your VPN needs it" : "");
  }

  void tcp()
  {
    const bool timestamps = read_word("/proc/sys/net/ipv4/tcp_timestamps") != "0";
    add("tcp_timestamps", timestamps ? Health::ok : Health::warn, timestamps ? "on" : "off",
        timestamps
            ? ""
            : "sysctl -w net.ipv4.tcp_timestamps=1: without them no path can be validated, and flows are bypassed");
    const bool sack = read_word("/proc/sys/net/ipv4/tcp_sack") != "0";
    add("tcp_sack", sack ? Health::ok : Health::warn, sack ? "on" : "off",
        sack ? "" : "sysctl -w net.ipv4.tcp_sack=1: loss recovery is poor without");
    add("congestion control", Health::ok,
        read_word("/proc/sys/net/ipv4/tcp_congestion_control") + ": the server's matters, not this host's");
  }

  // For the use of several links at a time.
  void steering()
  {
    // `why`: why this machine cannot do it; empty: it can.
    const auto optional = [this](const char* name, const std::string& why, const char* can, const char* use)
    { add(name, why.empty() ? Health::ok : Health::absent, why.empty() ? can : why, why.empty() ? "" : use); };
    if (privileged_) // libnftables says on standard error, too, what it lacks
    {
      optional("placement", probe_placement(), "the kernel can do it",
               "only for new connections on several links (docs/placement.md)");
      optional("CE marks by rule", probe_ce(), "work",
               "only for the module ecn on servers with coupled congestion control");
    }
    // The daemon has loaded its own before it gave up what that needs, and could not load another one.
    const PacingProgram tried = in_.pacing ? PacingProgram {} : load_pacing_program();
    const Fd map { tried.map }, link { tried.link };
    const PacingProgram& pacing = in_.pacing ? *in_.pacing : tried;
    const bool by_bpf = pacing.link >= 0;
    const std::string unshaped = by_bpf || !privileged_ ? "" : probe_shaping();
    add("pacing of uploads", unshaped.empty() ? Health::ok : Health::absent,
        by_bpf             ? "by BPF, on the socket"
        : unshaped.empty() ? "by HTB, at the interface; not by BPF: " + pacing.why
                           : "not by BPF: " + pacing.why + "; not at the interface: " + unshaped,
        by_bpf ? "" : "only for `rate.uploads` (docs/decisions/0032)");
    if (const std::string reason = mptcp_unavailable(); !reason.empty())
      return add("MPTCP", Health::absent, reason, "optional: downloads over several links at once");
    MptcpPathManager manager {};
    const auto endpoints = manager.endpoints();
    const std::string further = std::to_string(manager.limits().subflows) + " further subflows a connection";
    std::string list;
    for (const MptcpEndpoint& one : endpoints)
      list += (list.empty() ? "" : ", ") + one.address + (one.interface.empty() ? "" : " on " + one.interface)
              + (one.backup() ? " (backup)" : "");
    if (endpoints.empty())
      add("MPTCP", Health::ok, "on, managed by the kernel; no endpoints, so each connection has one path",
          "optional: `tandem up --mptcp` makes them for its run");
    else
      add("MPTCP", Health::ok, "on, managed by the kernel; endpoints " + list + "; up to " + further,
          "made by others than Tandem, such as NetworkManager (connection.mptcp-flags), they stay as they are unless "
          "mptcp.foreign = true");
  }

  void managers()
  {
    const auto programs = running_programs();
    // comm is cut at 15 characters.
    struct Manager
    {
      const char* name;
      const char* comm;
      const char* remark;
    };
    for (const Manager& m :
         { Manager { "NetworkManager", "NetworkManager",
                     "it may replace routes, which Tandem follows, and make MPTCP endpoints, which Tandem leaves" },
           Manager { "ModemManager", "ModemManager", "good: it keeps the modem up and tells its signal" },
           Manager { "mptcpd", "mptcpd",
                     "it may manage MPTCP paths: Tandem leaves its endpoints, and does nothing where net.mptcp.pm_type "
                     "is 1" } })
    {
      const bool there = programs.count(m.comm) != 0;
      const bool conflict = there && std::string { m.name } == "mptcpd";
      add(m.name,
          !there     ? Health::absent
          : conflict ? Health::warn
                     : Health::ok,
          there ? "running" : "not running", there ? m.remark : "");
    }
  }

  void modules()
  {
    if (in_.module_directory.empty()) return;
    std::error_code error;
    fs::path path = fs::canonical(in_.module_directory, error);
    if (error)
    {
      add("module directory", Health::fail, in_.module_directory + " does not exist",
          "install Tandem, or set the module directory");
      return;
    }
    for (;; path = path.parent_path())
    {
      struct stat info
      {
      };
      const bool sticky_shared = stat(path.c_str(), &info) == 0 && (info.st_mode & S_ISVTX);
      if (info.st_uid != 0 || ((info.st_mode & (S_IWGRP | S_IWOTH)) != 0 && !sticky_shared))
      {
        add("module directory", Health::fail, path.string() + " can be written by others than root",
            "chown root:root and chmod go-w " + path.string());
        return;
      }
      if (path == path.root_path()) break;
    }
    add("module directory", Health::ok, in_.module_directory + ": only root can write");
    fetch_service();
  }

  void fetch_service()
  {
    const fs::path file = fetch_library(in_.module_directory);
    std::error_code error;
    const std::string problem = fetch_problem(in_.module_directory);
    if (problem.empty())
      add("fetch service", Health::ok, file.string() + ": loaded when a strategy asks for it");
    else
      add("fetch service", fs::exists(file, error) ? Health::warn : Health::absent, problem,
          "without it nothing is fetched a second time (mirror: range, replay)");
  }

  const DoctorInput& in_;
  std::vector<Check> checks_ {};
  std::string wifi_, cell_;
  bool privileged_ = false;
};

} // namespace

DoctorInput doctor_input(const Config& config)
{
  const auto& given = config.daemon;
  DoctorInput input { .wifi = named(config.links.wifi),
                      .cell = named(config.links.cell),
                      .no_cell = config.links.cell == "none",
                      .relay_wifi = config.links.relay.wifi,
                      .relay_cell = config.links.relay.cell,
                      .queue = given.queue,
                      .mark_mask = given.mark_mask,
                      .placement_mask = config.placement.enabled ? config.placement.mark_mask : 0,
                      .run_directory = given.socket.parent_path().string() };
  input.route.table = given.route_table;
  input.route.priority = given.rule_priority;
  return input;
}

std::vector<Check> examine(const DoctorInput& input)
{
  return Examination { input }.run_all();
}

} // namespace tandem::daemon
