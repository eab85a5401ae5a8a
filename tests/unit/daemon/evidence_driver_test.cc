// What was learnt of cellular paths, through the chain and the module that validates them.
#include "modules/offload/offload.h"
#include "src/daemon/evidence_driver.h"
#include "src/evidence/text.h"
#include "tests/golden/harness/fixture.h"
#include "tests/golden/harness/server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <utility>

namespace tandem::daemon
{
namespace
{

using namespace test;
using nlohmann::json;
using testing::ElementsAre;
using testing::IsEmpty;

// A host at home, with one cellular link.
struct Host
{
  // Nothing is compared: that would take the module out of flows.
  static Config::Evidence without_comparisons(bool paths)
  {
    Config::Evidence config {};
    config.share = 0;
    config.paths = paths;
    return config;
  }

  explicit Host(evidence::Memory learnt = {}, bool paths = true)
      : evidence { without_comparisons(paths), 1, fixture.chain, std::move(learnt), inputs }
  {
    arrive("wwan0");
  }

  void arrive(const std::string& cell, const std::string& operator_code = {}, const std::string& ssid = "home")
  {
    evidence.place({}, ssid, { cell, operator_code }, fixture.now());
  }
  // As the daemon does after each packet, and some times a second.
  void note_paths()
  {
    for (const chain::PathFound& one : fixture.actions.paths)
      evidence.path_found(one, fixture.now());
    fixture.actions.paths.clear();
  }
  void look() { evidence.look(fixture.now()); }

  std::uint64_t attempts() const { return fixture.count("offload: probe begins"); }
  std::uint64_t failures() const { return fixture.count("offload: path not validated (filtered, NAT or too slow)"); }
  std::uint64_t on_word() const { return fixture.count("offload: path known from another flow"); }
  // Of the network `home`.
  json known()
  {
    for (const json& one : evidence.networks_json(fixture.now()))
      if (one["kind"] == "wifi" && one["name"] == "home") return one["known_paths"];
    return {};
  }
  json paths_by(std::string_view cell)
  {
    for (const json& one : evidence.networks_json(fixture.now()))
      if (one["kind"] == "cellular" && one["name"] == cell) return one["paths"];
    return {};
  }

  offload::Offload module {};
  Fixture fixture { { &module },
                    { .rest = [this](const FlowView& flow) { return evidence.begin(flow); },
                      .release = { .young = 1000, .settled = 1000 } } };
  ChainInputs inputs { fixture.chain, nullptr };
  EvidenceDriver evidence;
};

// One of its flows, to a server that hears nothing by cellular unless it is told to.
class Download
{
public:
  Download(Host& host, std::uint16_t port, std::array<std::uint8_t, 4> server) : host_ { host }
  {
    peers_.key = key_v4(port);
    peers_.window = 8000; // well above what is in flight, or no ACK would leave by cellular
    std::copy(server.begin(), server.end(), peers_.key.remote.bytes.begin());
    cell().delivers = false;
    const Tick now = host_.fixture.now();
    server_.send(now, Link::wifi, peers_.remote_isn, peers_.local_ts(now));
    host_.fixture.open(peers_);
    server_.send(host_.fixture.now(), Link::wifi, peers_.remote_isn + 1, peers_.local_ts(host_.fixture.now()));
  }

  Server::Path& cell() { return server_.paths[static_cast<std::size_t>(Link::cell)]; }

  // Segments, one each millisecond, and their ACKs.
  void run(int segments)
  {
    Fixture& fixture = host_.fixture;
    for (int i = 0; i < segments; ++i)
    {
      fixture.run_for(ms(1));
      take();
      fixture.data(peers_, 2896, server_.echo(fixture.now() - peers_.downlink));
      const Segment ack = peers_.ack(fixture.now());
      const chain::Outcome outcome = fixture.show(ack).value_or(chain::Outcome {});
      take();
      if (outcome.verdict == Verdict::pass)
        server_.send(fixture.now(), outcome.edit.route.value_or(Link::wifi), ack.ack,
                     outcome.edit.ts_value.value_or(ack.timestamps->value));
      host_.note_paths();
      if (i % 200 == 0) host_.look();
    }
  }
  void end()
  {
    host_.fixture.show(peers_.bare(Direction::ingress, tcp_flag::rst | tcp_flag::ack, host_.fixture.now()));
  }

private:
  // What was injected, for this flow alone: others are quiet meanwhile.
  void take()
  {
    for (const InjectedRecord& one : host_.fixture.actions.injected)
      server_.send(one.at, one.segment.by, one.segment.ack, one.segment.timestamps.value_or(Timestamps {}).value);
    host_.fixture.actions.injected.clear();
  }

  Host& host_;
  Peers peers_ {};
  Server server_ {};
};

constexpr int long_enough = 3000; // segments, for an attempt to be made and to fail

TEST(PathVerdict, StandsForTheFlowsToTheSameServers)
{
  Host host {};
  Download before { host, 40000, { 203, 0, 113, 7 } }; // it knows nothing yet, and carries nothing
  Download first { host, 40001, { 203, 0, 113, 7 } };
  first.run(long_enough);
  ASSERT_EQ(host.attempts(), 1u);
  ASSERT_EQ(host.failures(), 1u);

  host.look();
  before.run(long_enough);
  for (std::uint8_t i = 0; i < 5; ++i)
    Download { host, static_cast<std::uint16_t>(40002 + i), { 203, 0, 113, static_cast<std::uint8_t>(8 + i) } }.run(
        long_enough);
  EXPECT_EQ(host.attempts(), 1u) << "one for all of them";
  EXPECT_GE(host.fixture.count("offload: path not validated for other flows"), 6u);
  EXPECT_THAT(host.fixture.actions.injected, IsEmpty());

  // Other servers are another matter.
  Download { host, 40010, { 198, 51, 100, 7 } }.run(long_enough);
  EXPECT_EQ(host.attempts(), 2u);
}

TEST(PathVerdict, OnceItIsOverOneFlowFindsOutForAll)
{
  Host host {};
  Download { host, 40001, { 203, 0, 113, 7 } }.run(long_enough);
  ASSERT_EQ(host.failures(), 1u);
  host.fixture.run_for(std::chrono::seconds { 61 });
  Download { host, 40002, { 203, 0, 113, 7 } }.run(long_enough);
  EXPECT_EQ(host.attempts(), 2u);
  Download { host, 40003, { 203, 0, 113, 7 } }.run(long_enough);
  EXPECT_EQ(host.attempts(), 2u);
  EXPECT_THAT(host.paths_by("wwan0"), testing::SizeIs(1));
  EXPECT_EQ(host.paths_by("wwan0")[0]["failures"], 2);

  host.fixture.run_for(std::chrono::seconds { 121 });
  Download works { host, 40004, { 203, 0, 113, 7 } };
  works.cell().delivers = true;
  works.run(long_enough);
  EXPECT_GE(host.fixture.count("offload: path validated"), 1u);
  EXPECT_TRUE(host.paths_by("wwan0").is_null()) << "the first success ends it";
}

TEST(PathVerdict, IsShownAndForgotten)
{
  Host host {};
  EXPECT_TRUE(host.paths_by("wwan0").is_null());
  Download { host, 40001, { 203, 0, 113, 7 } }.run(long_enough);
  const json paths = host.paths_by("wwan0");
  ASSERT_EQ(paths.size(), 1u) << "for all there are too few";
  EXPECT_EQ(paths[0]["servers"], "203.0.113.0/24");
  EXPECT_EQ(paths[0]["failures"], 1);
  EXPECT_GT(paths[0]["rests_s"], 50);
  EXPECT_LE(paths[0]["rests_s"], 60);
  EXPECT_TRUE(host.evidence.fresh_text().has_value());

  EXPECT_EQ(host.evidence.forget("home"), 1u);
  EXPECT_EQ(host.paths_by("wwan0").size(), 1u) << "the Wi-Fi network is another matter";
  host.arrive("wwan0");
  EXPECT_EQ(host.evidence.forget("wwan0"), 1u);
  EXPECT_EQ(host.evidence.forget("wwan0"), 0u);
  EXPECT_TRUE(host.paths_by("wwan0").is_null());
  EXPECT_TRUE(host.evidence.fresh_text().has_value()) << "the file forgets it, too";
  Download { host, 40002, { 203, 0, 113, 7 } }.run(long_enough);
  EXPECT_EQ(host.attempts(), 2u);
}

TEST(PathVerdict, AfterThreeGroupsOfServersAllAreShown)
{
  Host host {};
  for (std::uint8_t i = 0; i < 3; ++i)
    Download { host, static_cast<std::uint16_t>(40001 + i), { 203, 0, i, 7 } }.run(long_enough);
  const json paths = host.paths_by("wwan0");
  ASSERT_EQ(paths.size(), 4u);
  EXPECT_EQ(paths[0]["servers"], "all");
  EXPECT_EQ(paths[0]["failures"], 3);
  host.fixture.run_for(std::chrono::seconds { 61 });
  EXPECT_EQ(host.paths_by("wwan0"), json::array()) << "over, but not forgotten";
}

TEST(PathVerdict, IsOfTheCellularLinkWhateverIsKnownOfWifi)
{
  Host host {};
  Download { host, 40001, { 203, 0, 113, 7 } }.run(long_enough);
  host.evidence.place({}, "", { .interface = "usb0" }, host.fixture.now()); // Wi-Fi is gone for now
  Download { host, 40002, { 203, 0, 113, 7 } }.run(long_enough);
  EXPECT_EQ(host.attempts(), 2u);
  EXPECT_EQ(host.paths_by("usb0").size(), 1u);
  EXPECT_EQ(host.paths_by("wwan0").size(), 1u);
}

TEST(PathVerdict, IsOfTheOperatorBehindTheInterface)
{
  Host host {};
  host.arrive("wwan0", "26201");
  EXPECT_EQ(host.evidence.here_json()["cell"], "wwan0 26201");
  Download { host, 40001, { 203, 0, 113, 7 } }.run(long_enough);
  host.arrive("wwan0", "26202"); // another SIM
  Download { host, 40002, { 203, 0, 113, 7 } }.run(long_enough);
  EXPECT_EQ(host.attempts(), 2u) << "it inherits nothing";
  EXPECT_EQ(host.paths_by("wwan0 26201").size(), 1u);
  EXPECT_EQ(host.paths_by("wwan0 26202").size(), 1u);
  EXPECT_TRUE(host.paths_by("wwan0").is_null());

  host.arrive("wwan0", "26201"); // and back
  host.arrive("wwan0");          // it searches for a moment
  Download { host, 40003, { 203, 0, 113, 7 } }.run(long_enough);
  EXPECT_EQ(host.attempts(), 2u) << "what was known of it counts";
  EXPECT_EQ(host.evidence.forget("wwan0"), 2u);
}

TEST(PathVerdict, IsNobodysWherePathsAreNotRemembered)
{
  Host before {};
  for (std::uint8_t i = 0; i < 3; ++i)
    Download { before, static_cast<std::uint16_t>(40001 + i), { 203, 0, i, 7 } }.run(long_enough);
  const std::string text = before.evidence.fresh_text().value();
  evidence::Memory learnt {};
  ASSERT_EQ(evidence::from_text(text, wall(before.fixture.now()), learnt), "");

  Host host { std::move(learnt), false };
  Download { host, 40001, { 203, 0, 113, 7 } }.run(long_enough);
  const std::uint64_t first = host.attempts();
  EXPECT_GE(first, 1u) << "whatever was found before";
  Download { host, 40002, { 203, 0, 113, 7 } }.run(long_enough);
  EXPECT_GT(host.attempts(), first) << "each flow by itself";
  EXPECT_FALSE(host.evidence.fresh_text().has_value());
}

// ---- what works stands for others, too ----

constexpr std::array<std::uint8_t, 4> server { 203, 0, 113, 7 };

// A download whose ACKs reach the server by cellular.
Download works(Host& host, std::uint16_t port, std::array<std::uint8_t, 4> of = server)
{
  Download one { host, port, of };
  one.cell().delivers = true;
  one.run(long_enough);
  one.end();
  return one;
}

TEST(KnownPath, SparesLaterFlowsToTheSameServersTheProbe)
{
  Host host {};
  Download waits { host, 40000, { 203, 0, 113, 9 } }; // under way, and carries nothing yet
  waits.cell().delivers = true;
  works(host, 40001);
  ASSERT_EQ(host.attempts(), 1u);
  ASSERT_EQ(host.known().size(), 1u);
  EXPECT_EQ(host.known()[0]["servers"], "203.0.113.0/24");
  EXPECT_EQ(host.known()[0]["cell"], "wwan0");
  EXPECT_NEAR(host.known()[0]["added_delay_s"].get<double>(), 0, 0.002);
  EXPECT_LE(host.known()[0]["validated_s"], 4);
  host.look();
  waits.run(2 * long_enough); // its first round trip was a pause
  works(host, 40002, { 203, 0, 113, 200 });
  EXPECT_EQ(host.attempts(), 1u) << "one for all of them";
  EXPECT_EQ(host.on_word(), 2u);
  EXPECT_THAT(host.fixture.actions.injected, IsEmpty());
  works(host, 40003, { 198, 51, 100, 7 });
  EXPECT_EQ(host.attempts(), 2u) << "other servers are another matter";
}

TEST(KnownPath, IsWithdrawnByTheFirstFlowThatFindsItWrong)
{
  Host host {};
  works(host, 40001);
  Download other { host, 40002, server };
  host.look();
  Download lied_to { host, 40003, server };
  lied_to.run(long_enough);
  EXPECT_EQ(host.fixture.count("offload: no echo on a path known from another flow"), 1u);
  EXPECT_THAT(host.known(), IsEmpty());
  EXPECT_EQ(host.attempts(), 2u) << "it validates by itself";
  EXPECT_EQ(host.failures(), 1u);
  host.look();
  other.run(long_enough);
  EXPECT_EQ(host.on_word(), 1u) << "nobody else goes by it";
  EXPECT_EQ(host.attempts(), 2u);
}

TEST(KnownPath, IsOfTheWifiNetworkAndTheCellularLink)
{
  Host host {};
  works(host, 40001);
  host.arrive("wwan0", {}, "cafe");
  works(host, 40002);
  EXPECT_EQ(host.attempts(), 2u) << "another network, another address";
  host.arrive("wwan0", {}, "home");
  works(host, 40003);
  EXPECT_EQ(host.attempts(), 2u) << "and back";
  host.arrive("wwan0", "26201");
  EXPECT_THAT(host.known(), IsEmpty()) << "at once";
  host.arrive("wwan0");
  works(host, 40004);
  EXPECT_EQ(host.attempts(), 3u);
  host.evidence.place({}, "home", {}, host.fixture.now()); // the telephone is taken away
  EXPECT_THAT(host.known(), IsEmpty());
  host.arrive("wwan0", "26201");
  works(host, 40005);
  EXPECT_EQ(host.attempts(), 4u) << "this one may be another";
}

TEST(KnownPath, IsForgottenWithEither)
{
  for (const std::string name : { "home", "wwan0" })
  {
    Host host {};
    works(host, 40001);
    EXPECT_EQ(host.evidence.forget(name), 1u);
    EXPECT_TRUE(host.known().is_null() || host.known().empty());
    host.arrive("wwan0");
    works(host, 40002);
    EXPECT_EQ(host.attempts(), 2u) << name;
  }
}

TEST(KnownPath, OutlivesTheDaemonForHours)
{
  Host before {};
  works(before, 40001);
  const std::string text = before.evidence.fresh_text().value();
  const evidence::WallTime at = wall(before.fixture.now());
  // In virtual time hours pass by reading the file with a clock that shows less: what is in it is older then.
  const auto attempts_after = [&](evidence::WallTime hours)
  {
    evidence::Memory memory {};
    EXPECT_EQ(evidence::from_text(text, at + hours * 3600, memory), "");
    Host after { std::move(memory) };
    works(after, 40001);
    return after.attempts();
  };
  EXPECT_EQ(attempts_after(0), 0u);
  EXPECT_EQ(attempts_after(5), 1u) << "too old";
  EXPECT_EQ(attempts_after(-24), 1u) << "the clock was set back";
}

// ---- access points that keep frames ----

struct KeptFrames : ::testing::Test
{
  explicit KeptFrames(bool paths = true) : host { {}, paths } { link(true, first); }
  void link(bool up, const std::optional<feeder::Mac>& ap)
  {
    host.evidence.link(up, 3, ap, host.fixture.now());
    host.look();
  }
  // What one flow finds after it.
  void blackout(bool kept, const feeder::Mac& ap)
  {
    link(false, {});
    host.fixture.run_for(ms(2000));
    link(true, ap);
    host.evidence.frames_kept({ Link::wifi, kept });
    host.fixture.run_for(ms(600));
    host.look();
  }
  std::optional<bool> keeps() { return host.evidence.keeps_frames(host.fixture.now()); }
  json shown()
  {
    for (const json& one : host.evidence.networks_json(host.fixture.now()))
      if (one["name"] == "home") return one["keep_frames"];
    return {};
  }

  static constexpr feeder::Mac first { 2, 0, 0, 0, 1, 1 }, second { 2, 0, 0, 0, 1, 2 };
  Host host;
};

TEST_F(KeptFrames, AreOfOneAccessPointAndNotOfAnotherOfTheSameNetwork)
{
  EXPECT_EQ(keeps(), false);
  blackout(true, first);
  EXPECT_EQ(keeps(), true);
  ASSERT_EQ(shown().size(), 1u);
  EXPECT_EQ(shown()[0]["access_point"], "02:00:00:00:01:01");
  EXPECT_EQ(shown()[0]["blackouts"], 1);
  link(true, second);
  EXPECT_EQ(keeps(), false) << "a roam";
  link(true, {});
  EXPECT_EQ(keeps(), false) << "the radio is silent";
  link(true, first);
  EXPECT_EQ(keeps(), true);
}

TEST_F(KeptFrames, WhatARoamBringsTeachesNothing)
{
  blackout(true, second);
  EXPECT_EQ(keeps(), false);
  EXPECT_EQ(shown(), json::array());
}

TEST_F(KeptFrames, AreUnlearntWithTheFirstMiss)
{
  blackout(true, first);
  blackout(false, first);
  EXPECT_EQ(keeps(), false);
  EXPECT_EQ(shown(), json::array());
}

TEST_F(KeptFrames, ByAnyInterfaceOfUnknownAccessPointsAreEachFlowsOwn)
{
  blackout(true, first);
  host.evidence.link(true, 4, {}, host.fixture.now());
  EXPECT_FALSE(keeps()) << "another interface is elsewhere";
}

TEST_F(KeptFrames, AreForgottenWithTheNetwork)
{
  blackout(true, first);
  EXPECT_EQ(host.evidence.forget("home"), 1u);
  EXPECT_EQ(keeps(), false);
  host.arrive("wwan0");
  EXPECT_EQ(keeps(), false);
}

TEST_F(KeptFrames, OutliveTheDaemon)
{
  blackout(true, first);
  const std::string text = host.evidence.fresh_text().value();
  evidence::Memory memory {};
  ASSERT_EQ(evidence::from_text(text, wall(host.fixture.now()), memory), "");
  Host after { std::move(memory) };
  after.evidence.link(true, 3, first, after.fixture.now());
  EXPECT_EQ(after.evidence.keeps_frames(after.fixture.now()), true);
}

struct KeptFramesNotRemembered : KeptFrames
{
  KeptFramesNotRemembered() : KeptFrames { false } {}
};

TEST_F(KeptFramesNotRemembered, AreEachFlowsOwn)
{
  blackout(true, first);
  EXPECT_FALSE(keeps());
}

TEST_F(KeptFrames, OfThousandsOfAccessPointsAreBounded)
{
  for (unsigned i = 0; i < 1000; ++i)
  {
    const feeder::Mac forged { 2, 0, 0, 1, static_cast<std::uint8_t>(i >> 8), static_cast<std::uint8_t>(i) };
    link(true, forged);
    blackout(true, forged);
  }
  EXPECT_EQ(shown().size(), evidence::Limits {}.access_points);
}

// ---- what is never compared says so ----

// Looks at every link, as `ecn` does, and decides about packets or not.
class Looker final : public FlowModule<char>
{
public:
  explicit Looker(Interest interest) : interest_ { interest } {}
  std::string_view name() const override { return interest_.every_link ? "links" : "onlooker"; }
  std::string_view summary() const override { return {}; }
  std::string_view manual() const override { return {}; }
  std::span<const Knob> knobs() const override { return {}; }
  void set(std::string_view, double) override {}
  double get(std::string_view) const override { return 0; }
  Interest interest() const override { return interest_; }
  Plan decide(const Event&, const FlowView&, char&) override { return {}; }
  void describe(const FlowView&, const char&, Facts&) const override {}

private:
  Interest interest_;
};

TEST(Gain, OfAModuleThatIsNeverComparedIsNotAsked)
{
  offload::Offload compared {};
  Looker links { { .decide = traffic::egress_pure_ack, .every_link = true } }, onlooker { { .observe = 1 } };
  Fixture fixture { { &compared, &links, &onlooker } };
  ChainInputs inputs { fixture.chain, nullptr };
  EvidenceDriver evidence { Config::Evidence {}, 1, fixture.chain, {}, inputs };
  evidence.place({}, "home", { .interface = "wwan0" }, fixture.now());
  for (std::size_t i = 0; i < fixture.chain.module_count(); ++i)
  {
    const std::string_view name = fixture.chain.module(i).name();
    const json gain = evidence.module_json(i, fixture.now());
    EXPECT_EQ(gain["comparisons"], 0) << name;
    EXPECT_EQ(gain.value("not_compared", ""), name == "links"      ? "it compares links itself"
                                              : name == "onlooker" ? "it decides nothing about packets"
                                                                   : "");
  }
}

TEST(Gain, OfAModuleWhoseRestIsOverIsOnTrialBeforeAnyFlowHasAsked)
{
  offload::Offload module {};
  Fixture fixture { { &module } };
  ChainInputs inputs { fixture.chain, nullptr };
  const evidence::WallTime at = wall(fixture.now());
  evidence::Memory memory {};
  memory.rest({ memory.recognize({ .ssid = "home" }, at), "wwan0", {} }, "offload", at);
  EvidenceDriver evidence { Config::Evidence {}, 1, fixture.chain, std::move(memory), inputs };
  evidence.place({}, "home", { .interface = "wwan0" }, fixture.now());
  const auto standing = [&](Tick now)
  {
    const json shown = evidence.module_json(0, now);
    EXPECT_EQ(evidence.networks_json(now)[0]["places"][0]["modules"]["offload"], shown);
    return shown["standing"];
  };
  EXPECT_EQ(standing(fixture.now()), "resting");
  EXPECT_EQ(standing(fixture.now() + std::chrono::seconds { evidence::Tally::first_rest }), "trial");
}

// ---- the lot has a seed ----

TEST(Lot, FollowsFromTheSeedOfTheConfiguration)
{
  // Which of a hundred flows are without the module.
  const auto lots = [](std::uint64_t configured, std::uint64_t of_this_start)
  {
    offload::Offload module {};
    Fixture fixture { { &module } };
    ChainInputs inputs { fixture.chain, nullptr };
    Config::Evidence config {};
    config.share = 0.5;
    config.seed = configured;
    EvidenceDriver evidence { config, of_this_start, fixture.chain, {}, inputs };
    evidence.place({}, "home", { .interface = "wwan0" }, fixture.now());
    std::string all;
    for (std::uint8_t i = 1; i <= 100; ++i)
    {
      FlowView view { .id = i, .link = Link::wifi };
      view.key.remote.bytes = { 10, 0, i, 1 };
      view.last_seen = fixture.now();
      all += evidence.begin(view).modules != 0 ? '-' : '+';
    }
    return all;
  };
  EXPECT_EQ(lots(7, 1), lots(7, 2));
  EXPECT_NE(lots(7, 1), lots(8, 1));
  EXPECT_NE(lots(0, 1), lots(0, 2)) << "without one each start has its own";
}

} // namespace
} // namespace tandem::daemon
