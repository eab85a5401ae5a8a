#include "src/daemon/metrics_json.h"
#include "src/daemon/status_json.h"
#include "tests/golden/harness/fixture.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>

namespace tandem::daemon
{
namespace
{

using nlohmann::json;
using test::ms;

// A module that says one of each thing that a module can say.
class Talker final : public Module
{
public:
  std::string_view name() const override { return "talker"; }
  std::string_view summary() const override { return "Says so."; }
  std::string_view manual() const override { return "It talks."; }
  std::span<const Knob> knobs() const override { return all; }
  void set(std::string_view, double value) override { speed = value; }
  double get(std::string_view) const override { return speed; }
  Interest interest() const override
  {
    return { .decide = traffic::egress_pure_ack, .observe = traffic::ingress_data };
  }
  std::size_t flow_state_size() const override { return 1; }
  void flow_begin(std::byte*, const FlowView&) override {}
  void flow_end(std::byte*) noexcept override {}
  Plan decide(const Event&, const FlowView&, std::byte*) override { return { .why = "listening" }; }
  void describe(const FlowView&, const std::byte*, Facts& facts) const override
  {
    facts.add("mood", "calm");
    facts.add("age", 3, "ms");
  }

  double speed = 2;
  std::array<Knob, 1> all { Knob { .name = "speed",
                                   .type = KnobType::integer,
                                   .unit = "1/s",
                                   .minimum = 1,
                                   .maximum = 9,
                                   .initial = 2,
                                   .help = "how fast" } };
};

class StatusOf : public testing::Test
{
protected:
  void SetUp() override
  {
    fixture.open(peers);
    fixture.download(peers, 10, ms(5), ms(20));
  }
  Talker talker {};
  test::Fixture fixture { { &talker } };
  test::Peers peers {};
};

TEST_F(StatusOf, AFlowSaysWhoItIsAndWhatModulesKnowOfIt)
{
  const json flows = flows_json(fixture.chain, fixture.now() + ms(1500));
  ASSERT_EQ(flows.size(), 1u);
  const json& flow = flows[0];
  EXPECT_EQ(flow["link"], "wifi");
  EXPECT_EQ(flow["delivered_bytes"], fixture.view(peers).bytes_delivered);
  EXPECT_GT(flow["delivered_bytes"], 0);
  EXPECT_NEAR(flow["idle_s"], 1.5, 0.1);
  EXPECT_EQ(flow["bypass"], name(fixture.view(peers).bypass));
  EXPECT_EQ(flow["closed"], false);
  EXPECT_FALSE(flow.contains("mptcp"));
  EXPECT_EQ(flow["modules"], (json { { "talker", { { "mood", "calm" }, { "age (ms)", 3.0 } } } }));
}

// Whoever opens connections by the hundred, a scan from outside or a program on this host, must not hide the download.
TEST_F(StatusOf, OfMoreFlowsThanAreToldThoseThatCarrySomethingAre)
{
  const FlowKey download = peers.key;
  for (std::uint16_t port = 1; port <= 1500; ++port)
  {
    FlowKey key = download;
    key.remote_port = port;
    const auto stage = port % 2 == 0 ? flow::Stage::answered : flow::Stage::opening;
    ASSERT_NE(fixture.chain.table().insert(key, fixture.now(), stage), nullptr);
  }
  fixture.run_for(ms(10));
  fixture.download(peers, 1, ms(5), ms(20));
  const json flows = flows_json(fixture.chain, fixture.now());
  EXPECT_EQ(flows.size(), 1000u);
  EXPECT_EQ(std::count_if(flows.begin(), flows.end(), [](const json& flow) { return flow["delivered_bytes"] > 0; }), 1);
}

TEST_F(StatusOf, AnMptcpFlowHasItsToken)
{
  FlowView& view = fixture.flow(peers).view;
  view.mptcp = true;
  view.mptcp_token = 0xabc;
  view.mptcp_joined = true;
  const json flows = flows_json(fixture.chain, fixture.now());
  EXPECT_EQ(flows[0]["mptcp"]["token"], "00000abc");
  EXPECT_EQ(flows[0]["mptcp"]["joined"], true);
}

TEST_F(StatusOf, AnExcludedModuleIsNamedAsSuch)
{
  fixture.flow(peers).excluded = 1;
  EXPECT_EQ(flows_json(fixture.chain, fixture.now())[0]["modules"]["talker"]["excluded"], "after a fault");
}

TEST_F(StatusOf, AModuleShowsItsKnobsAndDecisions)
{
  talker.speed = 5;
  const json modules = modules_json(fixture.chain, {});
  ASSERT_EQ(modules.size(), 1u);
  EXPECT_EQ(modules[0]["enabled"], true);
  EXPECT_EQ(modules[0]["flows"], 1);
  EXPECT_GE(modules[0]["decisions"]["listening"], 10);
  EXPECT_EQ(modules[0]["knobs"][0]["value"], "5");
  EXPECT_EQ(modules[0]["knobs"][0]["default"], "2");
  EXPECT_NE(manual_text(talker).find("| `speed` | 1/s | 1 to 9 | 2 | how fast |"), std::string::npos);
}

TEST_F(StatusOf, AModuleIsInForceWhenTheRulesAre)
{
  ASSERT_NE(talker.interest().decide, 0u);
  const RulesStatus failed { .in_force = false, .why = "nft: no such chain", .retry = std::chrono::seconds { 4 } };
  EXPECT_EQ(module_json(fixture.chain, 0, {})["in_force"], true);
  EXPECT_EQ(module_json(fixture.chain, 0, {})["in_force_why"], "");
  EXPECT_EQ(module_json(fixture.chain, 0, failed)["in_force"], false);
  EXPECT_EQ(module_json(fixture.chain, 0, failed)["in_force_why"], "nft: no such chain");
  EXPECT_EQ(rules_json(failed)["retry_s"], 4.0);
  fixture.chain.enable(0, false, Tick {});
  EXPECT_EQ(module_json(fixture.chain, 0, failed)["in_force"], false);
  EXPECT_EQ(module_json(fixture.chain, 0, failed)["in_force_why"], "") << "off, and that is no fault of the rules";
}

TEST(StatusJson, FaultsAreThoseThatHappened)
{
  Datapath::Counters counters {};
  counters.faults[static_cast<std::size_t>(wire::ParseFault::fragment)] = 2;
  counters.edit_faults[1] = 3;
  const json faults = faults_json(counters);
  EXPECT_EQ(faults.size(), 2u);
  EXPECT_EQ(faults["fragment"], 2);
  EXPECT_EQ(faults["edit: " + std::string { wire::name(static_cast<wire::EditFault>(1)) }], 3);
}

TEST(StatusJson, TellsWhichProfileHoldsAndWhy)
{
  EXPECT_EQ(profile_json({}, "", "Home")["why"], "") << "nobody asks where we are";
  const std::vector<Profile> all {
    { .name = "office", .ssids = { "Office" }, .cell = false, .where = { "t.toml", 5 } }
  };
  EXPECT_EQ(profile_json(all, "office", "Office"),
            (json { { "name", "office" },
                    { "why", "the Wi-Fi network is \"Office\"" },
                    { "from", "t.toml:5" },
                    { "sets", { "cell.use = \"never\"" } },
                    { "profiles", { { { "name", "office" }, { "ssid", { "Office" } } } } } }));
  EXPECT_EQ(profile_json(all, "", "Caf\n")["why"], "the Wi-Fi network is \"Caf\\x0a\", which is in no profile");
  EXPECT_EQ(profile_json(all, "", "")["why"], "no Wi-Fi network is known");
}

// Whatever the names of docs/control-api.md stand for: "tandem_placement_*" is any that begins so.
std::set<std::string> metrics_of_the_page()
{
  std::ifstream in { TANDEM_SOURCE "/docs/control-api.md" };
  const std::string page { std::istreambuf_iterator<char> { in }, {} };
  const std::regex name { "`(tandem_[a-zA-Z0-9_]+\\*?)`" };
  std::set<std::string> all {};
  for (std::sregex_iterator found { page.begin(), page.end(), name }, end; found != end; ++found)
    all.insert((*found)[1]);
  return all;
}

// A status with everything that has a metric.
json full_status()
{
  const json counters = counters_json({});
  json blackout { { "verdicts", { { "silence", 1 } } } };
  for (const char* one : { "false_alarms", "learned", "held_back", "suspicions", "cleared_by_probe",
                           "cleared_by_traffic", "undecided", "unanswered", "unprovable", "probes_sent",
                           "probes_answered", "radio_stale", "deauthentications", "link_ups_held" })
    blackout[one] = 1;
  const json link { { "up", true },
                    { "observed", 1 },
                    { "steering", { { "ce_rate", 0.1 }, { "backup_requested", { { "value", 1 } } } } },
                    { "blackout", blackout },
                    { "risk", { { "at_risk", false }, { "hits", 0 }, { "misses", 0 } } } };
  const json evidence {
    { "gain", 0.1 }, { "low", 0.0 }, { "high", 0.2 }, { "comparisons", 1 }, { "standing", "trial" }
  };
  const json module { { "name", "talker" }, { "enabled", true },      { "flows", 1 },
                      { "faults", 0 },      { "excluded", 0 },        { "cell_bytes", 0 },
                      { "conflicts", 0 },   { "evidence", evidence }, { "decisions", { { "listening", 1 } } } };
  const json placed { { "share", 0.5 }, { "connections", 1 }, { "alive", 1 }, { "bytes_in", 1 } };
  json datapath = counters;
  datapath.update({ { "waiting", 0 }, { "observe_one_in", 1 }, { "bypassed", false } });
  return { { "uptime_s", 1 },
           { "datapath", datapath },
           { "faults", { { "fragment", 1 } } },
           { "flows", { { "count", 1 }, { "refused", 0 } } },
           { "keeper", { { "suspensions", 0 }, { "restored", 0 } } },
           { "fetch", { { "asked", 0 }, { "brought", 0 }, { "fills", 0 }, { "differed", 0 } } },
           { "links", { { "wifi", link } } },
           { "steering",
             { { "endpoints", json::array() },
               { "plans", 0 },
               { "ce_changes", 0 },
               { "flag_changes", 0 },
               { "endpoints_added", 0 },
               { "endpoints_deleted", 0 } } },
           { "placement", { { "in_force", true }, { "links", { { "cell", placed } } } } },
           { "roaming", { { "asked", 0 }, { "moved", 0 }, { "worse", 0 }, { "failed", 0 }, { "stayed", 0 } } },
           { "modules", { module } },
           { "evidence", { { "comparisons", { { "done", 1 } } } } } };
}

TEST(Metrics, AreThoseOfThePage)
{
  const json radio {
    { "sources", { { { "name", "nl80211" }, { "reports", 1 }, { "skipped", 0 }, { "limited", 0 }, { "stale", 0 } } } },
    { "aps",
      { { { "ap", "02:00:00:00:00:01" },
          { "associated", true },
          { "fresh", true },
          { "delivery", 1 },
          { "packet_time_us", 300 } } } }
  };
  const std::set<std::string> page = metrics_of_the_page();
  std::set<std::string> produced {}, missing {};
  for (const json& metric : metrics_json(full_status(), radio))
    produced.insert(metric["name"].get<std::string>());
  ASSERT_GE(produced.size(), 80u);
  for (const std::string& one : produced)
    if (!page.contains(one) && !one.starts_with("tandem_datapath_")) missing.insert(one);
  EXPECT_EQ(missing, std::set<std::string> {}) << "not on the page";
  for (std::string one : page)
  {
    if (one == "tandem_datapath_NAME_total") one = "tandem_datapath_*";
    const bool any = one.ends_with('*');
    if (any) one.pop_back();
    if (std::ranges::none_of(produced,
                             [&](const std::string& each) { return any ? each.starts_with(one) : each == one; }))
      missing.insert(one);
  }
  EXPECT_EQ(missing, std::set<std::string> {}) << "on the page alone";
}

TEST(StatusJson, FurtherLinksAreThereWhenAnInterfaceHasTheRole)
{
  const links::LinkTable table { "wlan0", "", { "wlan1" } };
  const json all = each_link_json(table, [](Link link) { return json { { "role", name(link) } }; });
  EXPECT_EQ(all, (json { { "wifi", { { "role", "wifi" } } },
                         { "cell", { { "role", "cell" } } },
                         { "wifi2", { { "role", "wifi2" } } } }));
}

} // namespace
} // namespace tandem::daemon
