// Scenario files: what they mean, and what is said about one that is wrong.

#include "tests/unit/scenario/files.h"

#include <gmock/gmock.h>

namespace tandem::lab::test
{

namespace
{

using namespace tandem::literals;
using ::testing::HasSubstr;

TEST(Scenario, AnEmptyFileIsAWorkingLab)
{
  const Scenario s = load("");
  EXPECT_EQ(s.name, "s");
  EXPECT_EQ(s.duration, 60s);
  ASSERT_EQ(s.aps.size(), 1u);
  EXPECT_EQ(s.aps[0].name, "ap1");
  ASSERT_EQ(s.servers.size(), 1u);
  EXPECT_EQ(s.servers[0].name, "srv1");
  EXPECT_EQ(s.servers[0].pipes.down.delay, 20ms);
  EXPECT_EQ(s.wifi.air.phy.standard, medium::Standard::g);
  EXPECT_TRUE(s.cell.enabled);
  EXPECT_EQ(s.cell.pipes.down.rate, 30_mbps);
}

TEST(Scenario, SectionsOverrideProfiles)
{
  const Scenario s = load(R"(
[scenario]
name = "walk"
duration = "90s"
seed = 9
[wifi]
profile = "wifi-n"
queue = 40
loss_down = 0.003
rate = "minstrel"
[cell]
profile = "3g"
rate_up = "500kbit"
nat = true
[wan]
delay = "30ms"
ecn = "mark"
threshold = "5ms"
[[server]]
name = "near"
delay = "1ms"
congestion = "bbr"
[[server]]
name = "far"
)");
  EXPECT_EQ(s.seed, 9u);
  EXPECT_EQ(s.wifi.air.phy.standard, medium::Standard::n);
  EXPECT_EQ(s.wifi.air.ap_queue, 40u);
  EXPECT_FALSE(s.wifi.air.rate.has_value());
  EXPECT_EQ(s.wifi.air.aggregation.frames, 32u);
  EXPECT_NEAR(s.wifi.air.phy.rates.back().mbps, 72.2, 0.1);
  EXPECT_EQ(s.wifi.air.loss_down.random, 0.003);
  EXPECT_EQ(s.wifi.air.loss_up.random, 0);
  EXPECT_EQ(s.cell.pipes.up.rate, 500_kbps);
  EXPECT_EQ(s.cell.pipes.down.rate, Rate { 3.1e6 });
  EXPECT_TRUE(s.cell.nat);
  ASSERT_EQ(s.servers.size(), 2u);
  EXPECT_EQ(s.servers[0].pipes.up.delay, 1ms);
  EXPECT_EQ(s.servers[1].pipes.up.delay, 30ms);
  EXPECT_EQ(s.servers[1].pipes.down.aqm.kind, medium::Aqm::Kind::mark);
  EXPECT_EQ(s.servers[0].congestion, "bbr");
}

TEST(Scenario, EveryProfileLoads)
{
  for (const char* wifi : { "wifi-b", "wifi-b-short", "wifi-g", "wifi-a", "wifi-n" })
    EXPECT_EQ(refusal("[wifi]\nprofile = \"" + std::string(wifi) + "\"\n"), "accepted");
  for (const char* cell : { "3g", "lte", "lte-trace" })
    EXPECT_EQ(refusal("[cell]\nprofile = \"" + std::string(cell) + "\"\n"), "accepted");
  EXPECT_NE(load("[cell]\nprofile = \"lte-trace\"").cell.pipes.down.trace, nullptr);
  EXPECT_EQ(load("[cell]\nprofile = \"lte-trace\"\nrate_down = \"5Mbit\"").cell.pipes.down.trace, nullptr);
}

TEST(Scenario, EveryScenarioOfTheLabLoads)
{
  int count = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(std::filesystem::path(TANDEM_SOURCE_DIR) / "tools/lab/scenarios"))
    if (entry.path().extension() == ".toml")
    {
      EXPECT_NO_THROW(load_scenario(entry.path(), {}, profiles)) << entry.path();
      ++count;
    }
  EXPECT_GT(count, 0);
}

TEST(Scenario, TimelineIsSortedAndComplete)
{
  const Scenario s = load(R"(
[[ap]]
name = "ap1"
[[ap]]
name = "ap2"
channel = 6
[[timeline]]
at = "5s"
every = "20s"
for = "2s"
what = "blackout"
mode = "buffer"
carrier = "down"
[[timeline]]
at = "1s"
what = "handoff"
ap = "ap2"
gap = "80ms"
mode = "buffer"
[[timeline]]
at = "2s"
what = "signal"
points = [["0s", -50], ["10s", -80.5]]
[[timeline]]
at = "3s"
what = "loss"
direction = "down"
value = 0.01
[[timeline]]
at = "4s"
what = "wan_loss"
server = "srv1"
value = 0.02
for = "1s"
[[timeline]]
at = "6s"
what = "nat"
value = false
)");
  ASSERT_EQ(s.timeline.size(), 6u);
  const auto& handoff = std::get<HandoffEvent>(s.timeline[0].action);
  EXPECT_EQ(handoff.ap, 1u);
  EXPECT_EQ(handoff.gap, 80ms);
  EXPECT_TRUE(handoff.forward);
  EXPECT_EQ(std::get<SignalEvent>(s.timeline[1].action).points[1], (std::pair<Duration, double> { 10s, -80.5 }));
  EXPECT_EQ(std::get<ChangeEvent>(s.timeline[2].action).key, "loss_down");
  EXPECT_EQ(std::get<ChangeEvent>(s.timeline[3].action).server, 0u);
  const auto& blackout = std::get<BlackoutEvent>(s.timeline[4].action);
  EXPECT_EQ(blackout.mode, medium::Blackout::buffer);
  EXPECT_TRUE(blackout.carrier_down);
  EXPECT_EQ(s.timeline[4].every, Duration { 20s });
  EXPECT_FALSE(std::get<AnnouncedEvent>(s.timeline[5].action).value);
}

constexpr const char* two_interfaces = R"(
[[ap]]
name = "ap1"
interface = "wlan0"
[[ap]]
name = "ap2"
interface = "wlan1"
[[ap]]
name = "ap3"
)";

TEST(Scenario, EachInterfaceHasATimelineOfAccessPoints)
{
  const Scenario s = load(std::string(two_interfaces) + R"(
[[timeline]]
at = "1s"
what = "handoff"
interface = "wlan1"
ap = "ap3"
[[timeline]]
at = "2s"
what = "handoff"
interface = "wlan0"
ap = "ap2"
gap = "3s"
[[timeline]]
at = "3s"
what = "blackout"
interface = "wlan1"
for = "1s"
)");
  ASSERT_EQ(s.timeline.size(), 3u);
  const auto& first = std::get<HandoffEvent>(s.timeline[0].action);
  EXPECT_EQ(first.interface, 1u);
  EXPECT_EQ(first.ap, 2u);
  const auto& second = std::get<HandoffEvent>(s.timeline[1].action);
  EXPECT_EQ(second.interface, 0u);
  EXPECT_EQ(second.ap, 1u);
  EXPECT_EQ(second.gap, 3s);
  EXPECT_EQ(std::get<BlackoutEvent>(s.timeline[2].action).interface, 1u);
}

TEST(Scenario, EventsOfInterfacesAreRefusedWithTheirPlace)
{
  const auto event = [](const std::string& keys)
  { return refusal(std::string(two_interfaces) + "[[timeline]]\nat = \"1s\"\n" + keys); };
  EXPECT_THAT(
      event("what = \"handoff\"\nap = \"ap3\"\n"),
      HasSubstr("s.toml:10: timeline: `interface` is needed with what = \"handoff\" when the client has several "
                "Wi-Fi interfaces: wlan0 wlan1"));
  EXPECT_THAT(event("what = \"handoff\"\nap = \"ap3\"\ninterface = \"wlan2\"\n"),
              HasSubstr("s.toml:14: timeline.interface = \"wlan2\": a Wi-Fi interface of the client is allowed: wlan0 "
                        "wlan1"));
  EXPECT_THAT(event("what = \"handoff\"\nap = \"ap3\"\ninterface = \"eth0\"\n"),
              HasSubstr("s.toml:14: timeline.interface = \"eth0\": \"wlan0\" to \"wlan7\" is allowed"));
  EXPECT_THAT(event("what = \"blackout\"\nfor = \"1s\"\nap = \"ap1\"\ninterface = \"wlan0\"\n"),
              HasSubstr("s.toml:15: timeline.interface = \"wlan0\": either `ap` or `interface` is allowed"));
  EXPECT_THAT(event("what = \"handoff\"\nap = \"ap3\"\ninterface = \"wlan0\"\nrate = \"7\"\n"),
              HasSubstr("s.toml:15: timeline.rate = \"7\": \"minstrel\" or one of these Mb/s is allowed:"));
  EXPECT_THAT(event("what = \"handoff\"\nap = \"ap3\"\ninterface = \"wlan0\"\nframe_error = 2\n"),
              HasSubstr("s.toml:15: timeline.frame_error = 2: a number from 0 to 1 is allowed"));
  EXPECT_THAT(event("what = \"signal\"\nap = \"ap1\"\nvalue = -60\ninterface = \"wlan0\"\n"),
              HasSubstr("timeline.interface: unknown key"));
}

TEST(Scenario, BackgroundStations)
{
  const Scenario s =
      load("[[station]]\ndirection = \"up\"\nload = \"2Mbit\"\nsize = 500\n[[station]]\nload = \"saturated\"\n");
  ASSERT_EQ(s.stations.size(), 2u);
  EXPECT_EQ(s.stations[0].direction, medium::Traffic::up);
  EXPECT_EQ(s.stations[0].load, Rate { 2e6 });
  EXPECT_FALSE(s.stations[1].load.has_value());
  EXPECT_EQ(s.stations[1].size, 1464u);
}

TEST(Scenario, OverridesReplaceValues)
{
  const std::vector<std::string> overrides { "wifi.loss=0.25", "wifi.rate=minstrel", "server.delay=5ms",
                                             "cell.delay=\"70ms\"", "scenario.seed=4" };
  const Scenario s = load("[wifi]\nloss = 0.1\n[[server]]\nname = \"a\"\n[[server]]\nname = \"b\"\n", overrides);
  EXPECT_EQ(s.wifi.air.loss_up.random, 0.25);
  EXPECT_FALSE(s.wifi.air.rate.has_value());
  EXPECT_EQ(s.servers[0].pipes.down.delay, 5ms);
  EXPECT_EQ(s.servers[1].pipes.down.delay, 5ms);
  EXPECT_EQ(s.cell.pipes.down.delay, 70ms);
  EXPECT_EQ(s.seed, 4u);
}

struct Refused
{
  const char* text;
  const char* message; // a part of it
};

class Refusal : public ::testing::TestWithParam<Refused>
{
};

TEST_P(Refusal, NamesFileLineValueAndWhatIsAllowed)
{
  EXPECT_THAT(refusal(GetParam().text), HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    Scenario, Refusal,
    ::testing::Values(
        Refused { "[wifi]\nloss = 1.5\n", "s.toml:2: wifi.loss = 1.5: a number from 0 to 1 is allowed" },
        Refused { "[wifi]\nlos = 0.1\n", "s.toml:2: wifi.los: unknown key; did you mean loss?" },
        Refused { "[wifi]\nprofile = \"wifi-x\"\n",
                  "s.toml:2: wifi.profile = \"wifi-x\": no such profile; there are: 3g lte" },
        Refused { "[wifi]\nprofile = \"lte\"\n", "that profile has no [wifi]" },
        Refused { "[wifi]\nrate = \"50\"\n",
                  "s.toml:2: wifi.rate = \"50\": \"minstrel\" or one of these Mb/s is allowed: \"6\"" },
        Refused { "[wan]\n\ndelay = 20\n", "s.toml:3: wan.delay = 20: a time with its unit is allowed, like \"20ms\"" },
        Refused { "[wan]\ndelay = \"20\"\n", "s.toml:2: wan.delay = \"20\": a time with its unit" },
        Refused { "[wan]\ndelay = \"-5ms\"\n", "s.toml:2: wan.delay = \"-5ms\": a time from 0ms to" },
        Refused { "[wan]\nrate = \"fast\"\n", "s.toml:2: wan.rate = \"fast\": a rate above 0 with its unit" },
        Refused { "[wan]\nrate = \"0Mbit\"\n", "a rate above 0" },
        Refused { "[wan]\necn = \"maybe\"\n", "one of \"none\", \"mark\", \"codel\" is allowed" },
        Refused { "[wifi]\nhidden = { length = \"1ms\" }\n", "s.toml:2: wifi.hidden = " },
        Refused { "[wifi]\nhidden = { share = 1 }\n", "s.toml:2: wifi.hidden.share = 1: " },
        Refused { "[wifi]\nhidden = { share = 0.1, len = 1 }\n", "wifi.hidden.len: unknown key" },
        Refused { "[wan]\ngilbert = { p = 0.1 }\n", "s.toml:2: wan.gilbert = " },
        Refused { "[wan]\ngilbert = { p = 0.1, r = 0.2, q = 1 }\n", "wan.gilbert.q: unknown key" },
        Refused { "[cell]\nqueue = 0\n", "s.toml:2: cell.queue = 0: a whole number from 1" },
        Refused { "[cell]\ntrace_down = \"gone.trace\"\n", "cannot open the trace file" },
        Refused { "[scenario]\nduration = \"0ms\"\n", "s.toml:2: scenario.duration" },
        Refused { "[scenario]\nseed = -1\n", "s.toml:2: scenario.seed = -1: a whole number from 0" },
        Refused { "[wify]\n", "s.toml:1: wify: unknown key; did you mean wifi?" },
        Refused { "wifi = 3\n", "s.toml:1: wifi: a table is allowed" },
        Refused { "[server]\nname = \"x\"\n", "s.toml:1: server: a list is allowed, each element written [[server]]" },
        Refused { "[[server]]\nname = \"Much Too Long\"\n", "s.toml:2: server.name" },
        Refused { "[[server]]\nname = \"a\"\n[[server]]\nname = \"a\"\n",
                  "s.toml:4: server.name = \"a\": a name of its own" },
        Refused { "[[server]]\ncongestion = \"hybla\"\n",
                  "one of \"cubic\", \"reno\", \"bbr\", \"dctcp\", \"vegas\", \"westwood\" is allowed" },
        Refused { "[[station]]\nap = \"ap7\"\n", "the name of an access point is allowed: ap1" },
        Refused { "[[station]]\nload = \"much\"\n", "\"saturated\" or a rate" },
        Refused { "[[timeline]]\nat = \"1s\"\nwhat = \"blackuot\"\n",
                  "s.toml:3: timeline.what = \"blackuot\": no such event; did you mean" },
        Refused { "[[timeline]]\nwhat = \"blackout\"\n", "`at` and `what` are needed" },
        Refused { "[[timeline]]\nat = \"1s\"\nwhat = \"blackout\"\n", "`for` is needed with what = \"blackout\"" },
        Refused { "[[timeline]]\nat = \"1s\"\nwhat = \"loss\"\n", "`value` is needed" },
        Refused { "[[timeline]]\nat = \"1s\"\nwhat = \"loss\"\nvalue = 2\n",
                  "s.toml:4: timeline.value = 2: a number from 0 to 1" },
        Refused { "[[timeline]]\nat = \"1s\"\nevery = \"1s\"\nfor = \"2s\"\nwhat = \"blackout\"\n",
                  "a time shorter than `every`" },
        Refused { "[[timeline]]\nat = \"1s\"\nwhat = \"signal\"\npoints = [[\"1s\", -50], [\"1s\", -60]]\n",
                  "a list of [time, dBm]" },
        Refused { "[[timeline]]\nat = \"1s\"\nwhat = \"handoff\"\nap = \"ap2\"\n",
                  "the name of an access point is allowed: ap1" },
        Refused { "[[timeline]]\nat = \"1s\"\nwhat = \"nat\"\nmode = \"x\"\n", "timeline.mode: unknown key" },
        Refused { "[wifi\n", "s.toml:1: " }));

TEST(Scenario, EveryMistakeIsTold)
{
  EXPECT_EQ(
      refusal("[wifi]\nloss = 2\nlozz = 1\n[cell]\ndelay = 5\n[[ap]]\nsignal = 3\nuplink = \"x\"\nuplink_queue = 9\n"
              "[[station]]\nsize = 0\n[[timeline]]\nat = \"1s\"\nwhat = \"loss\"\nvalue = 3\n"
              "[[timeline]]\nwhat = \"nat\"\n"),
      "s.toml:3: wifi.lozz: unknown key; did you mean loss?\n"
      "s.toml:2: wifi.loss = 2: a number from 0 to 1 is allowed\n"
      "s.toml:7: ap.signal = 3: a number from -120 to 0 is allowed\n"
      "s.toml:8: ap.uplink = \"x\": a rate above 0 with its unit is allowed, like \"5Mbit\" (bit, kbit, Mbit, Gbit)\n"
      "s.toml:5: cell.delay = 5: a time with its unit is allowed, like \"20ms\" (ns, us, ms, s, min, h)\n"
      "s.toml:11: station.size = 0: a whole number from 1 to 1472 is allowed\n"
      "s.toml:15: timeline.value = 3: a number from 0 to 1 is allowed\n"
      "s.toml:16: timeline: `at` and `what` are needed");
}

TEST(Scenario, WhatRefersToAMistakeIsNotCalledOne)
{
  const std::string fast = "[[ap]]\nrate = 72.2\n[[timeline]]\nat = \"1s\"\nwhat = \"rate\"\nvalue = 72.2\n";
  EXPECT_EQ(refusal("[wifi]\nstandard = \"x\"\nrate = 72.2\n" + fast),
            "s.toml:2: wifi.standard = \"x\": one of \"b\", \"g\", \"a\", \"n\", \"pipe\" is allowed");
  EXPECT_THAT(refusal("[[ap]]\nname = \"AP\"\n[[station]]\nap = \"AP\"\n"),
              AllOf(HasSubstr("s.toml:2: ap.name"), Not(HasSubstr("station"))));
  EXPECT_THAT(refusal("[[ap]]\n[[ap]]\n", { "ap.signal=5" }), Not(HasSubstr("\n"))) << "told once";
}

TEST(Scenario, RefusalsOfOverridesNameTheOption)
{
  EXPECT_THAT(refusal("", { "wifi.loss=2" }), HasSubstr("--set wifi.loss=2: wifi.loss = 2: a number from 0 to 1"));
  EXPECT_THAT(refusal("", { "wifi.lozz=2" }), HasSubstr("did you mean loss?"));
  EXPECT_THAT(refusal("", { "loss=2" }), HasSubstr("SECTION.KEY=VALUE is allowed"));
  EXPECT_THAT(refusal("", { "wlan.loss=2" }), HasSubstr("unknown section"));
  EXPECT_THAT(refusal("", { "station.size=100" }), HasSubstr("no [[station]]"));
}

TEST(Scenario, AFaultInATraceNamesTheTracesLine)
{
  const Folder folder;
  folder.write("bad.trace", "1\n2\noops\n");
  const auto file = folder.write("s.toml", "[cell]\ntrace_down = \"bad.trace\"\n");
  try
  {
    load_scenario(file, {}, profiles);
    FAIL();
  }
  catch (const BadInput& e)
  {
    EXPECT_THAT(e.what(), HasSubstr("bad.trace:3: 'oops'"));
  }
}

} // namespace

} // namespace tandem::lab::test
