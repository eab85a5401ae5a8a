// A daemon without packets, for tests of the server and of the command line.
#pragma once

#include "src/control/backend.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <string>
#include <vector>

namespace tandem::control
{

class FakeBackend : public Backend
{
public:
  std::atomic<bool> busy { false };
  std::atomic<bool> stopping { false };
  std::atomic<bool> rules_fail { false }; // the keeper could not load them
  std::atomic<bool> disk_full { false };
  std::atomic<bool> nothing_saved { false };
  std::atomic<bool> hands_off { false };
  std::atomic<int> flow_count { 1 }; // as the status tells it

  // What was asked, e.g. "enable offload on".
  std::vector<std::string> calls()
  {
    const std::lock_guard lock { mutex_ };
    return calls_;
  }

  nlohmann::json status() override
  {
    answer_or_refuse();
    return {
      { "version", "0.1.0" },
      { "pid", 4711 },
      { "uptime_s", 75.25 },
      { "rules",
        { { "in_force", !rules_fail },
          { "in_force_why", rules_fail ? "nft: no such chain" : "" },
          { "retry_s", rules_fail ? 4.2 : 0 } } },
      { "backend", { { "name", "iptables" }, { "why", "no queue expression in this kernel" } } },
      { "links",
        { { "wifi", { { "interface", "wlan0" }, { "present", true }, { "up", true }, { "bytes_out", 0 } } },
          { "cell", { { "interface", "wwan0" }, { "present", false }, { "up", false }, { "bytes_out", 12345 } } } } },
      { "datapath", { { "queued", 1000 }, { "passed", 900 }, { "edited", 100 }, { "queue_drops", 0 } } },
      { "faults", { { "checksum", 2 } } },
      { "keeper", { { "state", "armed" } } },
      { "hands_off", hands_off ? "wg0 has the default route" : "" },
      { "flows", { { "count", flow_count.load() }, { "capacity", 4096 }, { "refused", 0 } } },
      { "modules", modules() }
    };
  }

  nlohmann::json networks() override
  {
    answer_or_refuse();
    const nlohmann::json gain { { "comparisons", 42 }, { "gain", -0.12 },         { "low", -0.2 },
                                { "high", -0.03 },     { "standing", "resting" }, { "rests_s", 3600 } };
    const nlohmann::json path { { "servers", "203.0.113.0/24" }, { "failures", 2 }, { "rests_s", 100 } };
    return nlohmann::json::array({ { { "kind", "wifi" },
                                     { "name", "home" },
                                     { "ssid", "home" },
                                     { "gateway", "02:00:00:00:00:01" },
                                     { "here", true },
                                     { "used_s", 5 },
                                     { "places",
                                       { { { "cell", "wwan0" },
                                           { "servers", "all" },
                                           { "used_s", 5 },
                                           { "modules", { { "offload", gain } } } } } } },
                                   { { "kind", "cellular" },
                                     { "name", "wwan0" },
                                     { "here", true },
                                     { "used_s", 5 },
                                     { "paths", nlohmann::json::array({ path }) } } });
  }
  std::size_t forget_network(const std::string& name) override
  {
    record("forget " + name);
    if (name != "home" && name != "wwan0")
      throw Refused { Refused::Kind::bad_request, "no network \"" + name + "\" is known" };
    return 1;
  }
  std::size_t forget_networks() override
  {
    record("forget all");
    return 1;
  }

  nlohmann::json budget() override
  {
    answer_or_refuse();
    const nlohmann::json period { { "by", { { "offload", 2'000'000 } } },
                                  { "used_bytes", 2'000'000 },
                                  { "limit_bytes", 10'000'000 },
                                  { "left_bytes", 8'000'000 } };
    return {
      { "today", period }, { "month", period }, { "since_start", period }, { "left_bytes", 8'000'000 }, { "kept", true }
    };
  }

  nlohmann::json aps() override { return { { "keep", 0 }, { "access_points", nlohmann::json::array() } }; }
  void keep_aps(std::uint64_t most, bool several_channels, bool save) override
  {
    record("keep " + std::to_string(most) + (several_channels ? " on several channels" : "")
           + (save ? ", saving" : ""));
    if (most == 1) throw Refused { Refused::Kind::bad_request, "keep: from 2 to 8 access points" };
  }
  void scan_aps() override { record("scan"); }
  void roam(const std::string& ap) override
  {
    record("roam " + ap);
    if (ap != "02:00:00:00:00:01") throw Refused { Refused::Kind::conflict, "no access point " + ap + " is in range" };
  }

  nlohmann::json traps() override
  {
    answer_or_refuse();
    return nlohmann::json::array(
        { { { "id", 1 },
            { "when", "flow.gap > 500 ms" },
            { "save", true },
            { "fired", 2 },
            { "saw", "612 ms of 192.0.2.2:40000 - 198.51.100.7:443" },
            { "ago_s", 12.0 },
            { "file", "/var/lib/tandem/traps/trap-20260101-120000-1.pcapng" } },
          { { "id", 2 }, { "when", "link.signal < -75 dBm" }, { "save", false }, { "fired", 0 } } });
  }
  std::uint64_t add_trap(const std::string& when, bool save) override
  {
    record("trap " + when + (save ? " save" : ""));
    if (when != "flow.gap > 500ms") throw Refused { Refused::Kind::bad_request, when + ": character 1: wrong" };
    return 3;
  }
  void remove_trap(std::uint64_t id) override
  {
    record("remove trap " + std::to_string(id));
    if (id != 1) throw Refused { Refused::Kind::bad_request, "no trap " + std::to_string(id) };
  }

  nlohmann::json modules() override
  {
    answer_or_refuse();
    return nlohmann::json::array(
        { { { "name", "offload" },
            { "summary", "Sends pure ACKs by the cellular link." },
            { "enabled", true },
            { "in_force", !rules_fail },
            { "in_force_why", rules_fail ? "nft: no such chain" : "" },
            { "faults", 0 },
            { "flows", 1 },
            { "decisions", { { "offload: by cell", 100 }, { "offload: window below threshold", 7 } } },
            { "knobs",
              { { { "name", "window_threshold" },
                  { "type", "integer" },
                  { "unit", "MSS" },
                  { "minimum", 1 },
                  { "maximum", 1000 },
                  { "default", 20 },
                  { "value", 30 },
                  { "help", "Windows below this stay on Wi-Fi." } } } } },
          { { "name", "freeze" },
            { "summary", "Rides out blackouts." },
            { "enabled", false },
            { "faults", 0 },
            { "flows", 0 },
            { "decisions", nlohmann::json::object() },
            { "knobs", nlohmann::json::array() } } });
  }

  nlohmann::json links() override { return { { "wifi", { { "aps", nlohmann::json::array() } } } }; }
  nlohmann::json flows() override
  {
    answer_or_refuse();
    const nlohmann::json one { { "id", 17 },
                               { "local", "192.0.2.2:40000" },
                               { "remote", "198.51.100.7:443" },
                               { "link", "wifi" },
                               { "age_s", 12.5 },
                               { "rtt_ms", 48.25 },
                               { "rtt_min_ms", 40.0 },
                               { "rate_mbps", 21.75 },
                               { "window_bytes", 131072 },
                               { "delivered_bytes", 34567890 },
                               { "bypass", "none" },
                               { "modules", { { "offload", { { "path", "cell" }, { "proved", 41 } } } } } };
    auto all = nlohmann::json::array();
    for (int i = 0; i < std::min(flow_count.load(), 1000); ++i)
      all.push_back(one);
    return all;
  }

  std::string manual(const std::string& module) override
  {
    known(module);
    return "# " + module + "\n\nThe manual.\n";
  }

  void enable(const std::string& module, bool on, bool save) override
  {
    known(module);
    record("enable " + module + (on ? " on" : " off") + (save ? " save" : ""));
    if (save) writable();
  }

  nlohmann::json saved() override
  {
    answer_or_refuse();
    const auto value = [](const char* text, const char* from) {
      return nlohmann::json { { "value", text }, { "from", from } };
    };
    nlohmann::json all { { "file", "/var/lib/tandem/saved/settings" },
                         { "problem", "" },
                         { "saved", nlohmann::json::array() },
                         { "run", nlohmann::json::array() } };
    if (nothing_saved) return all;
    all["saved"].push_back({ { "name", "mirror" },
                             { "value", "off" },
                             { "saved_s", 1'700'000'000 },
                             { "ignored", "" },
                             { "in_force", value("off", "saved") },
                             { "without", value("on", "/etc/tandem/tandem.toml:7") } });
    all["saved"].push_back({ { "name", "offload.gone" },
                             { "value", "5" },
                             { "saved_s", 1'700'000'000 },
                             { "ignored", "no such knob" },
                             { "in_force", value("", "built-in") },
                             { "without", value("", "built-in") } });
    all["run"].push_back({ { "name", "offload.window_threshold" },
                           { "in_force", value("30", "this run") },
                           { "without", value("20", "built-in") } });
    return all;
  }
  nlohmann::json forget_saved(const std::string& name) override
  {
    record("forget saved " + name);
    if (name != "mirror") throw Refused { Refused::Kind::bad_request, "\"" + name + "\" is not saved" };
    return nlohmann::json::array(
        { { { "name", "mirror" }, { "in_force", { { "value", "on" }, { "from", "/etc/tandem/tandem.toml:7" } } } } });
  }
  nlohmann::json forget_all_saved() override
  {
    record("forget all saved");
    return nlohmann::json::array();
  }

  nlohmann::json exclusions() override
  {
    answer_or_refuse();
    nlohmann::json all = nlohmann::json::array();
    if (!nothing_saved)
      all = {
        { { "kind", "to" }, { "what", "203.0.113.0/24" }, { "from", "saved" }, { "flows", 3 }, { "problem", "" } },
        { { "kind", "user" },
          { "what", "backup" },
          { "from", "/etc/tandem/tandem.toml:7" },
          { "flows", 0 },
          { "problem", "no such user" } }
      };
    return { { "file", "/var/lib/tandem/saved/exclusions" }, { "problem", "" }, { "exclusions", std::move(all) } };
  }
  nlohmann::json add_exclusion(const std::string& kind, const std::string& what) override
  {
    record("exclude " + kind + " " + what);
    if (what == "nonsense/99")
      throw Refused { Refused::Kind::bad_request, kind + " \"" + what + "\": a network is needed" };
    writable();
    return { { "kind", kind }, { "what", what } };
  }
  nlohmann::json remove_exclusion(const std::string& kind, const std::string& what) override
  {
    record("include " + kind + " " + what);
    if (what != "203.0.113.0/24") throw Refused { Refused::Kind::bad_request, kind + " " + what + " is not excluded" };
    return { { "kind", kind }, { "what", what } };
  }

  void set(const std::string& module, const std::string& knob, const std::string& value, bool save) override
  {
    known(module);
    if (knob != "window_threshold") throw Refused { Refused::Kind::bad_request, "module offload has no knob " + knob };
    if (value != "20" && value != "30")
      throw Refused { Refused::Kind::bad_request,
                      "offload.window_threshold = " + value + ": a whole number from 1 to 1000 MSS is needed" };
    record("set " + module + "." + knob + " " + value + (save ? " save" : ""));
    if (save) writable();
  }

  void announce(const std::string& what, double for_s) override
  {
    if (what != "risk" && what != "down" && what != "up")
      throw Refused { Refused::Kind::bad_request, "what = \"" + what + "\": risk, down or up is needed" };
    record("announce " + what + " for " + std::to_string(for_s));
  }
  std::string recording(const Part& wanted) override
  {
    answer_or_refuse();
    if (wanted.last > Duration {}) return "the last " + std::to_string(seconds(wanted.last));
    if (wanted.after) return "after " + std::to_string(*wanted.after);
    std::string bytes = "\x0a\x0d\x0d\x0a";
    return bytes + std::string(4u << 20, '\0');
  }

  nlohmann::json metrics() override
  {
    return nlohmann::json::array(
        { { { "name", "tandem_flows" }, { "help", "Flows known" }, { "type", "gauge" }, { "value", 1 } } });
  }

private:
  std::mutex mutex_;
  std::vector<std::string> calls_;

  void record(const std::string& call)
  {
    const std::lock_guard lock { mutex_ };
    calls_.push_back(call);
  }
  void answer_or_refuse() const
  {
    if (busy) throw Refused { Refused::Kind::busy, "the packet thread did not answer within 1000 ms" };
    if (stopping) throw Refused { Refused::Kind::conflict, "the interface is gone" };
  }
  void writable() const
  {
    if (disk_full)
      throw Refused { Refused::Kind::conflict, "it holds until the daemon ends, and is not saved: no space left" };
  }
  static void known(const std::string& module)
  {
    if (module != "offload" && module != "freeze")
      throw Refused { Refused::Kind::bad_request, "no module named " + module + "; loaded: freeze, offload" };
  }
};

} // namespace tandem::control
