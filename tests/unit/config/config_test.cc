#include "src/control/literal.h"
#include "src/daemon/config.h"
#include "src/daemon/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>

namespace tandem::daemon
{
namespace
{

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::vector<std::string> complaints(std::string_view text, const KnobCheck& check = {})
{
  std::vector<std::string> all;
  for (const Complaint& complaint : parse_config(text, "t.toml", check).complaints)
    all.push_back(complaint.text());
  return all;
}

TEST(Config, further_wifi_interfaces)
{
  const auto of = [](const std::string& value)
  {
    const auto [config, wrong] = parse_config("[links]\nmore_wifi = " + value, "t.toml");
    EXPECT_THAT(wrong, IsEmpty()) << value;
    return config.links.more_wifi;
  };
  EXPECT_FALSE(of("\"auto\""));
  EXPECT_THAT(of("\"none\"").value(), IsEmpty());
  EXPECT_THAT(of("[]").value(), IsEmpty());
  EXPECT_THAT(of("[\"wlan1\", \"wlan2\"]").value(), ElementsAre("wlan1", "wlan2"));
  EXPECT_THAT(of("[\"1\", \"2\", \"3\", \"4\", \"5\", \"6\", \"7\"]").value(), testing::SizeIs(7));
}

TEST(Config, further_wifi_interfaces_on_the_command_line)
{
  Config config = parse_config("[links]\nwifi = \"wlan0\"\ncell = \"none\"", "t.toml").config;
  EXPECT_EQ(override_setting(config, "links.more_wifi", "wlan1,wlan2"), std::nullopt);
  EXPECT_THAT(config.links.more_wifi.value(), ElementsAre("wlan1", "wlan2"));
  EXPECT_THAT(conflicts(config), IsEmpty());
  EXPECT_EQ(override_setting(config, "links.more_wifi", "wlan1,wlan0"), std::nullopt);
  ASSERT_EQ(conflicts(config).size(), 1u);
  EXPECT_EQ(conflicts(config)[0].text(),
            R"(command line: links.more_wifi: "wlan0" is links.wifi already; other interfaces are needed)");
  EXPECT_TRUE(override_setting(config, "links.more_wifi", "a,b,c,d,e,f,g,h"));
  EXPECT_THAT(config.links.more_wifi.value(), ElementsAre("wlan1", "wlan0")) << "a refused value changes nothing";
  EXPECT_EQ(override_setting(config, "links.more_wifi", "auto"), std::nullopt);
  EXPECT_FALSE(config.links.more_wifi);
}

TEST(Config, an_empty_file_means_the_defaults)
{
  const auto [config, wrong] = parse_config("", "t.toml");
  EXPECT_THAT(wrong, IsEmpty());
  EXPECT_EQ(config.links.wifi, "auto");
  EXPECT_EQ(config.links.cell, "auto");
  EXPECT_FALSE(config.links.more_wifi) << "auto";
  EXPECT_EQ(config.links.private_peers, PrivatePeers::never);
  EXPECT_FALSE(config.mptcp.setup);
  EXPECT_FALSE(config.mptcp.foreign);
  EXPECT_EQ(config.daemon.socket, "/run/tandem/control.sock");
  EXPECT_EQ(config.daemon.mark_mask, 0x70000000u);
  EXPECT_EQ(config.recorder.bytes, 8u << 20);
  EXPECT_FALSE(config.metrics.listen);
  EXPECT_FALSE(config.budget.cell_bytes);
  EXPECT_EQ(config.budget.cell_day, 10'000'000u);
  EXPECT_EQ(config.budget.cell_month, 50'000'000u);
  EXPECT_EQ(config.cell.metered, Metered::budget);
  EXPECT_EQ(config.cell.roaming, Roaming::never);
  EXPECT_FALSE(config.module_enabled("offload"));
}

constexpr std::string_view everything = R"(
[links]
wifi = "wlp3s0"
cell = "wwan0"
radio = "lab:/run/air/frames.sock"
validation = "none"
private_peers = "as_others"

[daemon]
socket = "/run/t/c.sock"
socket_group = "netdev"
module_dir = "/opt/tandem/lib"
queue = 7
queue_length = 2048
mark_mask = 0x1600
route_table = 99
backend = "iptables"
max_flows = 100
flow_idle = "90s"
observe_sample = 1
exempt_networks = ["10.1.2.3/8", "2001:db8::1", "0.0.0.0/0"]
exempt_ports = [22, 5060]

[exclude]
to = ["203.0.113.9/24", "updates.example.org"]
user = ["backup", 1001]
service = ["quiet.slice"]
ssid = ["Office"]

[recorder]
seconds = 5
bytes = "1MiB"
directory = "/tmp/rec"

[detector]
watch = "always"
critical_signal = -82.5
horizon = "500ms"

[fetch]
ports = [80, 8080]
credentials = true

[metrics]
listen = "[::1]:9101"

[budget]
cell_bytes = "20MB"
cell_day = ""
cell_month = "1GB"
directory = "/tmp/spent"
[cell]
metered = "never"
roaming = "budget"
[evidence]
share = 0.25
directory = "/tmp/learnt"
stretch = "500ms"
seed = 7
paths = false

[modules.offload]
enabled = true
window_threshold = 20
share = 0.5
validation_timeout = "250ms"
strict = false

[modules.freeze]
enabled = false
)";

TEST(Config, every_setting_is_read)
{
  const auto [c, wrong] = parse_config(everything, "t.toml");
  ASSERT_THAT(wrong, IsEmpty());
  EXPECT_EQ(c.links.wifi, "wlp3s0");
  EXPECT_EQ(c.links.wifi_where.text(), "t.toml:3");
  EXPECT_EQ(c.links.cell, "wwan0");
  EXPECT_EQ(c.links.cell_where.line, 4);
  EXPECT_FALSE(c.links.validation);
  EXPECT_EQ(c.links.private_peers, PrivatePeers::as_others);
  EXPECT_EQ(c.daemon.socket, "/run/t/c.sock");
  EXPECT_EQ(c.daemon.socket_group, "netdev");
  EXPECT_EQ(c.daemon.module_dir, "/opt/tandem/lib");
  EXPECT_EQ(c.daemon.queue, 7);
  EXPECT_EQ(c.daemon.queue_length, 2048u);
  EXPECT_EQ(c.daemon.mark_mask, 0x1600u);
  EXPECT_EQ(c.daemon.route_table, 99u);
  EXPECT_EQ(c.daemon.backend, RuleBackend::iptables);
  EXPECT_EQ(c.daemon.max_flows, 100u);
  EXPECT_EQ(c.daemon.flow_idle, 90s);
  EXPECT_EQ(c.daemon.observe_sample, 1u);
  EXPECT_THAT(c.daemon.exempt_ports, ElementsAre(22, 5060));
  std::vector<std::string> excluded {};
  for (const ExclusionSetting& one : c.exclude)
    excluded.push_back(one.what.text() + " " + one.where.text());
  EXPECT_THAT(excluded, testing::UnorderedElementsAre("to 203.0.113.0/24 t.toml:25", "to updates.example.org t.toml:25",
                                                      "user backup t.toml:26", "user 1001 t.toml:26",
                                                      "service quiet.slice t.toml:27", "ssid Office t.toml:28"));
  ASSERT_EQ(c.daemon.exempt_networks.size(), 3u);
  EXPECT_EQ(c.daemon.exempt_networks[0].address.bytes[0], 10);
  EXPECT_EQ(c.daemon.exempt_networks[0].address.bytes[1], 0) << "bits behind the prefix are zero";
  EXPECT_EQ(c.daemon.exempt_networks[0].prefix, 8u);
  EXPECT_TRUE(c.daemon.exempt_networks[1].address.v6);
  EXPECT_EQ(c.daemon.exempt_networks[1].prefix, 128u);
  EXPECT_EQ(c.daemon.exempt_networks[2].prefix, 0u);
  EXPECT_EQ(c.recorder.seconds, 5u);
  EXPECT_EQ(c.recorder.bytes, 1u << 20);
  EXPECT_EQ(c.recorder.directory, "/tmp/rec");
  EXPECT_EQ(c.links.radio, std::vector<std::string> { "lab:/run/air/frames.sock" });
  EXPECT_EQ(c.detector.watch, BlackoutWatch::always);
  EXPECT_EQ(c.detector.risk.critical_dbm, -82.5);
  EXPECT_EQ(c.detector.risk.horizon, 500ms);
  EXPECT_THAT(c.fetch.ports, ElementsAre(80, 8080));
  EXPECT_TRUE(c.fetch.credentials);
  ASSERT_TRUE(c.metrics.listen);
  EXPECT_EQ(c.metrics.listen->host, "::1");
  EXPECT_EQ(c.metrics.listen->port, 9101);
  EXPECT_EQ(c.budget.cell_bytes, 20'000'000u);
  EXPECT_FALSE(c.budget.cell_day);
  EXPECT_EQ(c.budget.cell_month, 1'000'000'000u);
  EXPECT_EQ(c.budget.directory, "/tmp/spent");
  EXPECT_EQ(c.cell.metered, Metered::never);
  EXPECT_EQ(c.cell.roaming, Roaming::budget);
  EXPECT_EQ(c.evidence.share, 0.25);
  EXPECT_EQ(c.evidence.directory, "/tmp/learnt");
  EXPECT_EQ(c.evidence.stretch, 500ms);
  EXPECT_EQ(c.evidence.seed, 7u);
  EXPECT_FALSE(c.evidence.paths);
  EXPECT_TRUE(c.module_enabled("offload"));
  EXPECT_FALSE(c.module_enabled("freeze"));
  ASSERT_EQ(c.knobs.size(), 4u);
  for (const KnobSetting& knob : c.knobs)
  {
    EXPECT_EQ(knob.module, "offload");
    EXPECT_EQ(knob.text, knob.knob == "window_threshold" ? "20"
                         : knob.knob == "share"          ? "0.5"
                         : knob.knob == "strict"         ? "false"
                                                         : "250ms")
        << knob.knob;
    EXPECT_GT(knob.where.line, 30);
  }
}

Address address_of(std::initializer_list<int> bytes, bool v6 = false)
{
  Address address { .v6 = v6 };
  std::size_t at = 0;
  for (const int byte : bytes)
    address.bytes[at++] = static_cast<std::uint8_t>(byte);
  return address;
}

TEST(Exempt, flows_are_told_by_the_remote_address_and_by_either_port)
{
  const ConfigResult result = parse_config("[daemon]\nexempt_networks = [\"10.1.0.0/12\", \"2001:db8::/33\"]\n"
                                           "exempt_ports = [22]\n",
                                           "t.toml");
  ASSERT_TRUE(result.complaints.empty());
  const Config::Daemon& daemon = result.config.daemon;
  const auto exempt = [&](Address remote, std::uint16_t remote_port = 80, std::uint16_t local_port = 40000)
  {
    return daemon.exempts({ .local = address_of({ 10, 1, 0, 1 }),
                            .remote = remote,
                            .local_port = local_port,
                            .remote_port = remote_port });
  };
  EXPECT_TRUE(exempt(address_of({ 10, 15, 255, 255 })));
  EXPECT_FALSE(exempt(address_of({ 10, 16, 0, 0 }))) << "one bit beyond the prefix";
  EXPECT_FALSE(exempt(address_of({ 10, 15, 255, 255 }, true))) << "the same bytes, the other IP version";
  EXPECT_TRUE(exempt(address_of({ 0x20, 0x01, 0x0d, 0xb8, 0x7f }, true)));
  EXPECT_FALSE(exempt(address_of({ 0x20, 0x01, 0x0d, 0xb8, 0x80 }, true)));
  EXPECT_TRUE(exempt(address_of({ 192, 0, 2, 1 }), 22));
  EXPECT_TRUE(exempt(address_of({ 192, 0, 2, 1 }), 80, 22)) << "the rules look at both ports";
  EXPECT_FALSE(exempt(address_of({ 192, 0, 2, 1 })));
  EXPECT_FALSE(Config {}.daemon.exempts({}));
  const ConfigResult all = parse_config("[daemon]\nexempt_networks = [\"0.0.0.0/0\"]\n", "t.toml");
  EXPECT_TRUE(all.config.daemon.exempts({ .remote = address_of({ 192, 0, 2, 1 }) }));
  EXPECT_FALSE(all.config.daemon.exempts({ .remote = address_of({ 0x20, 1 }, true) }));
}

// Each line below is wrong in its own way; each must be named with its line, value and what is allowed.
struct Wrong
{
  std::string text;
  std::string said;
};

void PrintTo(const Wrong& wrong, std::ostream* out)
{
  *out << wrong.text;
}

class WrongConfig : public testing::TestWithParam<Wrong>
{
};

TEST_P(WrongConfig, is_named_with_line_value_and_what_is_allowed)
{
  EXPECT_THAT(complaints(GetParam().text), ElementsAre(GetParam().said));
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, WrongConfig,
    testing::Values(
        Wrong { "[links]\nwifi = \"\"",
                R"(t.toml:2: links.wifi = "": an interface name of 1 to 15 characters, or "auto", is needed)" },
        Wrong {
            "[links]\n\nwifi = \"wlan0123456789ab\"",
            R"(t.toml:3: links.wifi = "wlan0123456789ab": an interface name of 1 to 15 characters, or "auto", is needed)" },
        Wrong { "[links]\nwifi = \"wl an\"",
                R"(t.toml:2: links.wifi = "wl an": an interface name of 1 to 15 characters, or "auto", is needed)" },
        Wrong { "[links]\nwifi = \"none\"",
                R"(t.toml:2: links.wifi = "none": an interface name of 1 to 15 characters, or "auto", is needed)" },
        Wrong { "[links]\nwifi = \"\\u001b[31m\"",
                R"(t.toml:2: links.wifi = "\x1b[31m": an interface name of 1 to 15 characters, or "auto", is needed)" },
        Wrong { "[links]\ncell = 3",
                R"(t.toml:2: links.cell = 3: an interface name of 1 to 15 characters, "auto" or "none" is needed)" },
        Wrong { "[links]\nwifi = \"a\"\ncell = \"a\"",
                R"(t.toml:3: links.cell = "a": another interface than links.wifi is needed)" },
        Wrong {
            "[links]\nrelay = [\"a\", \"auto\"]",
            R"(t.toml:2: links.relay = ["a", "auto"]: a list of the tunnel by Wi-Fi and the one by the cellular link, such as ["tandem-wifi", "tandem-cell"], of the first alone, or of none is needed)" },
        Wrong {
            "[links]\nrelay = [\"a\", \"a\"]",
            R"(t.toml:2: links.relay = ["a", "a"]: a list of the tunnel by Wi-Fi and the one by the cellular link, such as ["tandem-wifi", "tandem-cell"], of the first alone, or of none is needed)" },
        Wrong { "[links]\ncell = \"b\"\nrelay = [\"a\", \"b\"]",
                R"(t.toml:3: links.relay: "b" has another role already; the tunnel's interface is needed)" },
        Wrong { "[links]\nrelay = [\"b\"]\nmore_wifi = [\"b\"]",
                R"(t.toml:3: links.relay: "b" has another role already; the tunnel's interface is needed)" },
        Wrong { "[links]\nrelay = [\"a\"]\n[daemon]\nmark_mask = 0x70",
                "t.toml:2: links.relay: a daemon.mark_mask without bits of 0x54 is needed, the mark of the tunnel by "
                "cellular" },
        Wrong { "[links]\nrelay = [\"a\"]\n[daemon]\nroute_table = 8483",
                "t.toml:2: links.relay: another daemon.route_table than 8483 is needed: that tunnel's own packets have "
                "8483" },
        Wrong { "[links]\nrelay = [\"a\"]\n[daemon]\nroute_table = 8474\n[placement]\nenabled = true",
                "t.toml:2: links.relay: another daemon.route_table than 8474 is needed: that tunnel's own packets have "
                "8483" },
        Wrong { "[links]\nwifi = \"a\"\nmore_wifi = [\"b\", \"a\"]",
                R"(t.toml:3: links.more_wifi: "a" is links.wifi already; other interfaces are needed)" },
        Wrong { "[links]\nmore_wifi = [\"b\"]\ncell = \"b\"",
                R"(t.toml:3: links.more_wifi: "b" is links.cell already; other interfaces are needed)" },
        Wrong {
            "[links]\nmore_wifi = [\"b\", \"b\"]",
            R"(t.toml:2: links.more_wifi = ["b", "b"]: "auto", "none", or a list of at most 7 interface names, each once, such as ["wlan1", "wlan2"] is needed)" },
        Wrong {
            "[links]\nmore_wifi = [\"1\", \"2\", \"3\", \"4\", \"5\", \"6\", \"7\", \"8\"]",
            R"(t.toml:2: links.more_wifi = ["1", "2", "3", "4", "5", "6", "7", "8"]: "auto", "none", or a list of at most 7 interface names, each once, such as ["wlan1", "wlan2"] is needed)" },
        Wrong {
            "[links]\nmore_wifi = [\"auto\"]",
            R"(t.toml:2: links.more_wifi = ["auto"]: "auto", "none", or a list of at most 7 interface names, each once, such as ["wlan1", "wlan2"] is needed)" },
        Wrong { "[links]\nprivate_peers = true",
                R"(t.toml:2: links.private_peers = true: "never" or "as_others" is needed)" },
        Wrong { "[cell]\nmetered = true", R"(t.toml:2: cell.metered = true: "budget", "never" or "ignore" is needed)" },
        Wrong { "[cell]\nroaming = \"ignore\"", R"(t.toml:2: cell.roaming = "ignore": "never" or "budget" is needed)" },
        Wrong {
            "[budget]\ncell_month = -5",
            R"(t.toml:2: budget.cell_month = -5: a size with its unit such as "50MB", or "" for no limit, is needed)" },
        Wrong { "[mptcp]\nsetup = 1", "t.toml:2: mptcp.setup = 1: true or false is needed" },
        Wrong { "[mptcp]\nset_up = true", "t.toml:2: mptcp.set_up: no such setting; did you mean setup?" },
        Wrong { "[links]\nwfi = \"wlan0\"", "t.toml:2: links.wfi: no such setting; did you mean wifi?" },
        Wrong { "[links]\nbluetooth = \"x\"", "t.toml:2: links.bluetooth: no such setting; known here: wifi, cell, "
                                              "more_wifi, relay, radio, modem, record, "
                                              "private_peers" },
        Wrong { "[deamon]\nqueue = 1", "t.toml:1: deamon: no such section; did you mean daemon?" },
        Wrong {
            "wifi = \"wlan0\"",
            "t.toml:1: wifi: no such section; known here: links, cell, daemon, exclude, recorder, detector, metrics, "
            "fetch, mptcp, budget, evidence, modules, placement, profile" },
        Wrong { "links = \"wlan0\"", "t.toml:1: links = \"wlan0\": a section [links] is needed" },
        Wrong { "[daemon]\nqueue = 65536",
                "t.toml:2: daemon.queue = 65536: an NFQUEUE number from 0 to 65535 is needed" },
        Wrong { "[daemon]\nqueue = -1", "t.toml:2: daemon.queue = -1: an NFQUEUE number from 0 to 65535 is needed" },
        Wrong { "[daemon]\nqueue = \"7\"",
                "t.toml:2: daemon.queue = \"7\": an NFQUEUE number from 0 to 65535 is needed" },
        Wrong { "[daemon]\nqueue = 1.5", "t.toml:2: daemon.queue = 1.5: an NFQUEUE number from 0 to 65535 is needed" },
        Wrong { "[daemon]\npacing = \"bpf\"",
                "t.toml:2: daemon.pacing = \"bpf\": \"auto\" or \"interface\" is needed" },
        Wrong { "[daemon]\nqueue_length = 8",
                "t.toml:2: daemon.queue_length = 8: a number of packets from 16 to 65536 is needed" },
        Wrong {
            "[daemon]\nsocket = \"control.sock\"",
            R"(t.toml:2: daemon.socket = "control.sock": an absolute path of a file, at most 100 characters, is needed)" },
        Wrong {
            "[daemon]\nsocket = \"/run/a\\u0000b\"",
            R"(t.toml:2: daemon.socket = "/run/a\x00b": an absolute path of a file, at most 100 characters, is needed)" },
        Wrong { "[daemon]\nmodule_dir = true",
                "t.toml:2: daemon.module_dir = true: an absolute path of a directory is needed" },
        Wrong { "[daemon]\nsocket_group = \"a b\"",
                R"(t.toml:2: daemon.socket_group = "a b": a group name, or "" for root only, is needed)" },
        Wrong { "[daemon]\nbackend = \"ebtables\"",
                R"(t.toml:2: daemon.backend = "ebtables": "auto", "nft" or "iptables" is needed)" },
        Wrong {
            "[daemon]\nmark_mask = 0xff000000",
            "t.toml:2: daemon.mark_mask = 4278190080: three bits of the 32-bit firewall mark, such as 0x70000000, are "
            "needed" },
        Wrong { "[daemon]\nmark_mask = 0x700000000",
                "t.toml:2: daemon.mark_mask = 30064771072: three bits of the 32-bit firewall mark, such as 0x70000000, "
                "are needed" },
        Wrong {
            "[daemon]\nroute_table = 254",
            "t.toml:2: daemon.route_table = 254: a routing table number from 1 to 4294967294, other than 253 to 255 "
            "(default, main, local), is needed" },
        Wrong { "[daemon]\nmax_flows = 9223372036854775807",
                "t.toml:2: daemon.max_flows = 9223372036854775807: a number of flows from 16 to 1048576 is needed" },
        Wrong { "[daemon]\nflow_idle = 120",
                R"(t.toml:2: daemon.flow_idle = 120: a duration from "1s" to "24h" is needed)" },
        Wrong { "[daemon]\nflow_idle = \"soon\"",
                R"(t.toml:2: daemon.flow_idle = "soon": a duration from "1s" to "24h" is needed)" },
        Wrong { "[daemon]\nobserve_sample = 0",
                "t.toml:2: daemon.observe_sample = 0: a whole number from 1 (every packet) to 65535 is needed" },
        Wrong {
            "[daemon]\nexempt_networks = [\"10.0.0.0/33\"]",
            R"(t.toml:2: daemon.exempt_networks = ["10.0.0.0/33"]: a list of at most 256 networks such as ["10.0.0.0/8", "2001:db8::/32"] is needed)" },
        Wrong {
            "[daemon]\nexempt_ports = [22, 0]",
            "t.toml:2: daemon.exempt_ports = [22, 0]: a list of at most 256 ports from 1 to 65535 such as [22, 5060] "
            "is needed" },
        Wrong { "[daemon]\nexempt_ports = 22",
                "t.toml:2: daemon.exempt_ports = 22: a list of at most 256 ports from 1 to 65535 such as [22, 5060] is "
                "needed" },
        Wrong { "[exclude]\nto = [\"203.0.113.0/33\"]",
                "t.toml:2: exclude.to = [\"203.0.113.0/33\"]: a list of at most 256 networks, addresses and host names "
                "such as [\"203.0.113.0/24\", \"updates.example.org\"] is needed" },
        Wrong { "[exclude]\nuser = [-1]", "t.toml:2: exclude.user = [-1]: a list of at most 256 users, by name or "
                                          "number, such as [\"backup\", 1001] is needed" },
        Wrong { "[exclude]\nservice = \"a/b\"",
                "t.toml:2: exclude.service = \"a/b\": a list of at most 256 systemd units, scopes or slices such as "
                "[\"backup.service\"] is needed" },
        Wrong { "[exclude]\nssid = [\"\"]", "t.toml:2: exclude.ssid = [\"\"]: a list of at most 256 names of Wi-Fi "
                                            "networks, 1 to 32 bytes each, such as [\"Office\"] is needed" },
        Wrong { "[fetch]\nports = [80, 0]",
                "t.toml:2: fetch.ports = [80, 0]: a list of at most 16 ports from 1 to 65535 such as [80, 8080] is "
                "needed" },
        Wrong { "[recorder]\nseconds = 1979-05-27", "t.toml:2: recorder.seconds = (a table or date): a whole number of "
                                                    "seconds from 0 (off) to 3600 is needed" },
        Wrong { "[recorder]\nbytes = \"8MIB\"",
                R"(t.toml:2: recorder.bytes = "8MIB": a size with its unit from "64KiB" to "1GiB" is needed)" },
        Wrong { "[recorder]\nbytes = \"2GiB\"",
                R"(t.toml:2: recorder.bytes = "2GiB": a size with its unit from "64KiB" to "1GiB" is needed)" },
        Wrong { "[recorder]\ndirectory = \"rec\"",
                R"(t.toml:2: recorder.directory = "rec": an absolute path of a directory is needed)" },
        Wrong {
            "[metrics]\nlisten = \"0.0.0.0:9101\"",
            R"(t.toml:2: metrics.listen = "0.0.0.0:9101": a loopback address with a port such as "127.0.0.1:9101" or "[::1]:9101", or "" for none, is needed)" },
        Wrong {
            "[metrics]\nlisten = \"127.0.0.1\"",
            R"(t.toml:2: metrics.listen = "127.0.0.1": a loopback address with a port such as "127.0.0.1:9101" or "[::1]:9101", or "" for none, is needed)" },
        Wrong {
            "[links]\nradio = \"lab:frames\"",
            R"(t.toml:2: links.radio = "lab:frames": "auto", "none", or names with commas between them are needed: "nl80211", "monitor", "monitor:INTERFACE", "lab:PATH", "replay:PATH" (absolute paths of at most 100 characters))" },
        Wrong { "[detector]\nwatch = true",
                R"(t.toml:2: detector.watch = true: "needed", "always" or "never" is needed)" },
        Wrong { "[detector]\ncritical_signal = 85",
                "t.toml:2: detector.critical_signal = 85: a signal in dBm from -110 to -30 is needed" },
        Wrong { "[detector]\nhorizon = \"10s\"",
                R"(t.toml:2: detector.horizon = "10s": a duration from "100ms" to "5s" is needed)" },
        Wrong {
            "[budget]\ncell_bytes = -5",
            R"(t.toml:2: budget.cell_bytes = -5: a size with its unit such as "500MB", or "" for no limit, is needed)" },
        Wrong { "[modules]\noffload = true",
                "t.toml:2: modules.offload = true: a table is needed, e.g. [modules.offload] "
                "and below it enabled = true" },
        Wrong { "[modules.\"../evil\"]",
                "t.toml:1: modules.../evil: a module's name has 1 to 32 letters a-z, digits or _" },
        Wrong { "[modules.offload]\nenabled = \"yes\"",
                R"(t.toml:2: modules.offload.enabled = "yes": true or false is needed)" },
        Wrong { "[modules.offload]\nlist = [1]",
                "t.toml:2: modules.offload.list = [1]: a number, a text, true or false is needed" },
        Wrong { "[modules.offload]\n\"a b\" = 1",
                "t.toml:2: modules.offload.a b: a knob's name has 1 to 32 letters a-z, digits or _" }));

TEST(Config, a_size_needs_its_unit_unless_it_is_nothing)
{
  EXPECT_THAT(complaints("[budget]\ncell_day = 10\ncell_month = \"50\"\n"),
              ElementsAre(R"(t.toml:2: budget.cell_day = 10: a size with its unit such as "10MB", or "" for no limit, )"
                          "is needed",
                          R"(t.toml:3: budget.cell_month = "50": a size with its unit such as "50MB", or "" for no )"
                          "limit, is needed"));
  Config config {};
  EXPECT_TRUE(override_setting(config, "budget.cell_day", "10"));
  EXPECT_FALSE(override_setting(config, "budget.cell_day", "0"));
  EXPECT_EQ(config.budget.cell_day, 0u);
  EXPECT_EQ(parse_config("[budget]\ncell_month = 0\n", "t.toml").config.budget.cell_month, 0u);
}

TEST(Config, lists_every_mistake_in_the_order_of_the_lines)
{
  EXPECT_THAT(complaints("[recorder]\nseconds = -1\n[links]\nwifi = \"\"\nquux = 1\n[daemon]\nqueue = -1\n"),
              ElementsAre(HasSubstr("t.toml:2: recorder.seconds"), HasSubstr("t.toml:4: links.wifi"),
                          HasSubstr("t.toml:5: links.quux"), HasSubstr("t.toml:7: daemon.queue")));
}

TEST(Config, text_that_is_not_toml_is_named_with_its_line)
{
  EXPECT_THAT(complaints("[links]\nwifi = wlan0\n"), ElementsAre(testing::StartsWith("t.toml:2: not valid TOML: ")));
  EXPECT_THAT(complaints("[links]\nwifi = \"a\"\nwifi = \"b\"\n"),
              ElementsAre(testing::StartsWith("t.toml:3: not valid TOML: ")));
  EXPECT_THAT(complaints("[links]\nwifi = i\x1b[31m\n"), ElementsAre(testing::Not(HasSubstr("\x1b"))));
  EXPECT_THAT(complaints("[.Bii .5"), ElementsAre(testing::StartsWith("t.toml:1: not valid TOML: ")));
  EXPECT_THAT(complaints(std::string { "\xff\xfe\0", 3 }), ElementsAre(HasSubstr("not valid TOML")));
}

TEST(Config, characters_beyond_ascii_belong_into_quotes_and_comments)
{
  const auto at = [](int line)
  { return ElementsAre(testing::StartsWith("t.toml:" + std::to_string(line) + ": not valid TOML: ")); };
  EXPECT_THAT(complaints("[links]\nwifi = \xc3\xa4\n"), at(2));
  EXPECT_THAT(complaints("[links]\nwifi = \"a\" \xcc\x9a\n"), at(2));
  EXPECT_THAT(complaints("[links]\nwifi = x\"\xc3\xa4\n"), at(2));
  EXPECT_THAT(complaints("x = \"\"\"a\"\"\"\"\"\n\xc3\xa4 = 1"), at(2));
  EXPECT_THAT(complaints("x = \"\\\xc3\xa4\"\n"), at(1));
  EXPECT_THAT(complaints("x = \"\"\"\\\n  \xc3\xa4\"\"\""),
              ElementsAre(testing::StartsWith("t.toml:1: x: no such section")))
      << "a line that goes on is TOML";
  EXPECT_THAT(complaints("\xef\xbb\xbf# \xc3\xa4 \"\n[recorder] # it's\ndirectory = \"/\xc3\xa4\\\"\" # \xc3\xa4\n"
                         "[daemon]\nsocket_group = '\xc3\xa4\\'\n[modules.m]\nk = \"\\t\xc3\xa4\"\n"),
              IsEmpty());
}

TEST(Config, a_very_long_name_or_value_is_cut_short_in_the_message)
{
  const auto said =
      complaints("[links]\nwifi = \"" + std::string(5000, 'x') + "\"\n" + std::string(5000, 'y') + " = 1");
  ASSERT_EQ(said.size(), 2u);
  EXPECT_LT(said[0].size(), 250u);
  EXPECT_LT(said[1].size(), 250u);
}

// Stands for the daemon, which has the modules loaded.
std::optional<KnobRemark> only_offload(const KnobSetting& setting)
{
  constexpr Knob threshold { .name = "window_threshold",
                             .type = KnobType::integer,
                             .unit = "MSS",
                             .minimum = 1,
                             .maximum = 1000,
                             .initial = 20,
                             .help = "" };
  if (setting.module != "offload") return "no such module";
  if (setting.knob.empty()) return {};
  if (setting.knob == "stretch") return KnobRemark { "stretch is a constant now: 16; leave it out", true };
  if (setting.knob != threshold.name) return "no such knob";
  const auto value = parse_knob(threshold, setting.text);
  if (const auto* fault = std::get_if<std::string>(&value)) return KnobRemark { *fault };
  return {};
}

TEST(Config, knobs_are_checked_with_file_and_line)
{
  EXPECT_THAT(
      complaints("[modules.offload]\nwindow_threshold = 0\nwindow = 2\n[modules.rocket]\nfuel = 1\n", only_offload),
      ElementsAre("t.toml:2: modules.offload.window_threshold = 0: a whole number from 1 to 1000 MSS is needed",
                  "t.toml:3: modules.offload.window = 2: no such knob", "t.toml:4: modules.rocket: no such module"));
  EXPECT_THAT(complaints("[modules.offload]\nwindow_threshold = \"many\"\n", only_offload),
              ElementsAre(HasSubstr(R"(window_threshold = "many": )")));
  EXPECT_THAT(complaints("[modules.offload]\nwindow_threshold = 30\n", only_offload), IsEmpty());
}

// Nobody is stranded by an upgrade: a file that was good is still used.
TEST(Retired, a_setting_that_was_is_a_warning_and_the_rest_is_read)
{
  const auto [config, wrong] = parse_config("[detector]\nsilence = \"80ms\"\nwatch = \"always\"\n"
                                            "[daemon]\nrule_priority = 100\nqueue = 5\n",
                                            "t.toml");
  EXPECT_THAT(wrong, IsEmpty());
  EXPECT_EQ(config.detector.watch, BlackoutWatch::always);
  EXPECT_EQ(config.detector.blackout.silence, 60ms) << "without effect";
  EXPECT_EQ(config.daemon.queue, 5);
  ASSERT_EQ(config.warnings.size(), 2u);
  EXPECT_EQ(config.warnings[0].text(), "t.toml:2: detector.silence is a constant now: 60 ms; leave it out");
  EXPECT_EQ(config.warnings[1].text(), "t.toml:5: daemon.rule_priority is a constant now: 8484; leave it out");
}

TEST(Retired, so_it_is_on_the_command_line)
{
  Config config;
  EXPECT_EQ(override_setting(config, "fetch.replay_guard", "1s"), std::nullopt);
  ASSERT_EQ(config.warnings.size(), 1u);
  EXPECT_EQ(config.warnings[0].text(), "command line: fetch.replay_guard is a constant now: 256 ms; leave it out");
  EXPECT_TRUE(override_setting(config, "fetch.replay_gard", "1s")) << "a slip of the fingers is still a mistake";
}

TEST(Retired, a_knob_that_was_is_a_warning_when_it_does_no_harm)
{
  const auto [config, wrong] =
      parse_config("[modules.offload]\nstretch = 8\nwindow_threshold = 30\n", "t.toml", only_offload);
  EXPECT_THAT(wrong, IsEmpty());
  ASSERT_EQ(config.warnings.size(), 1u);
  EXPECT_EQ(config.warnings[0].text(),
            "t.toml:2: modules.offload.stretch = 8: stretch is a constant now: 16; leave it out");
}

std::string text_of(const std::string& file)
{
  std::ifstream in { std::string { REPOSITORY } + "/" + file };
  return { std::istreambuf_iterator<char> { in }, {} };
}

TEST(Manual, has_every_setting_but_those_for_tests_and_not_more_than_anyone_can_turn)
{
  std::set<std::string> manual, for_tests;
  for (const Setting& setting : settings())
    (setting.for_tests ? for_tests : manual).insert(std::string { setting.key });
  EXPECT_LE(manual.size(), 40u);
  EXPECT_GE(manual.size(), 20u);
  for (const std::string& key : manual)
    EXPECT_EQ(find_retired_setting(key), nullptr) << key;

  // A section's heading, then a table row or a tagged paragraph for each setting.
  const auto listed = [](const std::string& text, const std::regex& line)
  {
    std::set<std::string> keys;
    std::string section;
    for (std::sregex_iterator at { text.begin(), text.end(), line }, end; at != end; ++at)
      if ((*at)[1].matched)
        section = (*at)[1];
      else if (!section.empty())
        keys.insert(section + "." + (*at)[2].str());
    return keys;
  };
  EXPECT_EQ(listed(text_of("docs/configuration.md"), std::regex { R"(### \[([a-z]+)\]|\n\| `([a-z_]+)` \|)" }), manual);
  EXPECT_EQ(listed(text_of("docs/man/tandem.toml.5"), std::regex { R"(\.SH \[([a-z]+)\]|\n\.BR ([a-z_]+) \")" }),
            manual);
  const std::string testing = text_of("docs/testing.md");
  for (const std::string& key : for_tests)
    EXPECT_THAT(testing, HasSubstr("`" + key + "`"));
}

TEST(ConfigFile, every_complaint_is_thrown_at_once)
{
  const std::string path = testing::TempDir() + "config_test.toml";
  std::ofstream { path } << "[links]\nwifi = \"\"\n[daemon]\nqueue = -1\n";
  try
  {
    load_config(path);
    FAIL() << "a bad file was taken";
  }
  catch (const ConfigError& error)
  {
    EXPECT_EQ(error.complaints.size(), 2u);
    EXPECT_THAT(error.what(), HasSubstr(path + ":2: links.wifi"));
    EXPECT_THAT(error.what(), HasSubstr("\n" + path + ":4: daemon.queue"));
  }
  std::ofstream { path } << everything;
  EXPECT_EQ(load_config(path).links.wifi, "wlp3s0");
  std::ofstream { path } << std::string(2u << 20, '#');
  EXPECT_THROW(load_config(path), ConfigError);
  std::filesystem::remove(path);
}

TEST(ConfigFile, that_cannot_be_read_is_said)
{
  const auto said = [](const char* path) -> std::string
  {
    try
    {
      load_config(path);
    }
    catch (const ConfigError& error)
    {
      return error.what();
    }
    return "nothing";
  };
  EXPECT_EQ(said("/nonexistent/t.toml"), "/nonexistent/t.toml: no such file");
  EXPECT_EQ(said("/tmp"), "/tmp: is a directory; a TOML file is needed");
  // As a directory that may not be looked into: it is not known whether the file is there.
  const std::string circle = testing::TempDir() + "config_test_circle.toml";
  std::filesystem::create_symlink(circle, circle);
  EXPECT_EQ(said(circle.c_str()), circle + ": cannot be read: Too many levels of symbolic links");
  std::filesystem::remove(circle);
  // A read error is no end of the file: what could not be read may forbid something.
  EXPECT_EQ(said("/proc/self/mem"), "/proc/self/mem: cannot be read: Input/output error");
}

TEST(Override, goes_through_the_same_checks)
{
  Config config;
  EXPECT_EQ(override_setting(config, "links.wifi", "wlan7"), std::nullopt);
  EXPECT_EQ(config.links.wifi, "wlan7");
  EXPECT_EQ(config.links.wifi_where.text(), "command line");
  EXPECT_EQ(override_setting(config, "daemon.queue", "12"), std::nullopt);
  EXPECT_EQ(config.daemon.queue, 12);
  EXPECT_EQ(override_setting(config, "daemon.mark_mask", "0xe0000000"), std::nullopt);
  EXPECT_EQ(override_setting(config, "daemon.exempt_ports", "22,80"), std::nullopt);
  EXPECT_EQ(override_setting(config, "exclude.to", "203.0.113.9/24,example.org"), std::nullopt);
  EXPECT_EQ(override_setting(config, "exclude.to", "203.0.113.9"), std::nullopt);
  ASSERT_EQ(config.exclude.size(), 1u) << "the later one is on top";
  EXPECT_EQ(config.exclude[0].what.text() + " " + config.exclude[0].where.text(), "to 203.0.113.9 command line");
  EXPECT_THAT(config.daemon.exempt_ports, ElementsAre(22, 80));

  const auto fault = override_setting(config, "links.wifi", "a b");
  ASSERT_TRUE(fault);
  EXPECT_EQ(fault->text(),
            R"(command line: links.wifi = "a b": an interface name of 1 to 15 characters, or "auto", is needed)");
  EXPECT_EQ(config.links.wifi, "wlan7") << "a refused value must not be half-applied";
  EXPECT_THAT(override_setting(config, "daemon.queue", "12x")->text(), HasSubstr("from 0 to 65535"));
  EXPECT_THAT(override_setting(config, "link.wifi", "x")->text(), HasSubstr("did you mean links.wifi?"));
}

TEST(Override, of_modules_and_knobs)
{
  Config config;
  EXPECT_EQ(override_setting(config, "modules.offload.window_threshold", "9"), std::nullopt);
  EXPECT_FALSE(config.module_enabled("offload"));
  EXPECT_EQ(override_setting(config, "modules.offload.enabled", "true"), std::nullopt);
  EXPECT_TRUE(config.module_enabled("offload"));
  EXPECT_EQ(override_setting(config, "modules.offload.window_threshold", "30"), std::nullopt);
  ASSERT_EQ(config.knobs.size(), 1u);
  EXPECT_EQ(config.knobs[0].text, "30");
  EXPECT_TRUE(override_setting(config, "modules.offload", "true"));
  EXPECT_TRUE(override_setting(config, "modules.offload.enabled", "maybe"));
  EXPECT_TRUE(override_setting(config, "modules.../x.enabled", "true"));
}

TEST(Override, rules_between_settings_are_looked_at_once_all_are_set)
{
  Config config;
  config.links.wifi = "a";
  config.links.cell = "b";
  EXPECT_EQ(override_setting(config, "links.wifi", "b"), std::nullopt); // swapping the two must be possible
  EXPECT_THAT(conflicts(config), testing::SizeIs(1));
  EXPECT_EQ(override_setting(config, "links.cell", "a"), std::nullopt);
  EXPECT_THAT(conflicts(config), IsEmpty());
}

} // namespace
} // namespace tandem::daemon
