// The lab as a model in virtual time: where packets come out, and what the timeline does.

#include "tests/unit/scenario/files.h"
#include "tools/lab/emulator/timeline.h"
#include "tools/lab/emulator/topology.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <vector>

namespace tandem::lab::test
{

namespace
{

using namespace tandem::literals;
using Kind = PortId::Kind;

constexpr Tick at(Duration since_start)
{
  return Tick {} + since_start;
}

struct Bench
{
  explicit Bench(const std::string& text) : topology(load(text), 1) {}

  std::size_t port(Kind kind, std::size_t index = 0) const
  {
    for (std::size_t i = 0; i < topology.ports().size(); ++i)
      if (topology.ports()[i] == PortId { kind, index }) return i;
    ADD_FAILURE();
    return 0;
  }

  void run(Tick until)
  {
    topology.run_until(until);
    for (const auto& a : topology.arrivals())
      arrived[a.handle] = a;
    dropped += topology.dropped().size();
    for (const auto& a : topology.announcements())
      announced.push_back(a);
    topology.done();
  }

  void send(Tick now, Kind from, std::size_t index = 0, bool pure_ack = false)
  {
    run(now);
    topology.submit(now, port(from, index), { .handle = next++, .bytes = 1000, .airless = pure_ack });
  }

  Topology topology;
  medium::Handle next = 0;
  std::map<medium::Handle, Topology::Arrival> arrived;
  std::size_t dropped = 0;
  std::vector<Announcement> announced;
};

TEST(Topology, EveryPortLeadsToItsOtherEnd)
{
  Bench b("[[ap]]\nname = \"ap1\"\n[[ap]]\nname = \"ap2\"\n[[server]]\nname = \"a\"\n[[server]]\nname = \"b\"\n");
  const std::vector<std::pair<PortId, PortId>> ways {
    { { Kind::client_wifi, 0 }, { Kind::ap, 0 } },
    { { Kind::ap, 0 }, { Kind::client_wifi, 0 } },
    { { Kind::client_cell, 0 }, { Kind::gateway_cell, 0 } },
    { { Kind::gateway_cell, 0 }, { Kind::client_cell, 0 } },
    { { Kind::wan, 0 }, { Kind::server, 0 } },
    { { Kind::server, 0 }, { Kind::wan, 0 } },
    { { Kind::wan, 1 }, { Kind::server, 1 } },
    { { Kind::server, 1 }, { Kind::wan, 1 } },
  };
  for (std::size_t i = 0; i < ways.size(); ++i)
    b.send(at(static_cast<int>(i) * 100ms), ways[i].first.kind, ways[i].first.index);
  b.run(at(5s));
  ASSERT_EQ(b.arrived.size(), ways.size());
  for (std::size_t i = 0; i < ways.size(); ++i)
    EXPECT_EQ(b.arrived[static_cast<medium::Handle>(i)].port, b.port(ways[i].second.kind, ways[i].second.index)) << i;
  // The access point that the client is not associated with has nobody to give it to.
  b.send(at(5s), Kind::ap, 1);
  b.run(at(6s));
  EXPECT_EQ(b.dropped, 1u);
}

TEST(Topology, TheTimelineStartsWhenToldAndRepeats)
{
  Bench b("[[timeline]]\nat = \"1s\"\nevery = \"4s\"\nfor = \"2s\"\nwhat = \"blackout\"\n");
  b.run(at(3s));
  EXPECT_TRUE(b.announced.empty());
  b.topology.start(at(3s));
  // Blackouts from 4 to 6, 8 to 10, 12 to 14 s.
  for (int ms = 3000; ms < 13000; ms += 100)
    b.send(at(ms * 1ms), Kind::ap);
  b.run(at(13s));
  ASSERT_EQ(b.announced.size(), 5u);
  EXPECT_EQ(b.announced[0].at, at(4s));
  EXPECT_TRUE(b.announced[0].begin);
  EXPECT_EQ(b.announced[1].at, at(6s));
  EXPECT_FALSE(b.announced[1].begin);
  EXPECT_EQ(b.announced[4].at, at(12s));
  for (const auto& [handle, arrival] : b.arrived)
  {
    const auto second = static_cast<int>(seconds(arrival.at - at(3s))) % 4;
    EXPECT_TRUE(second == 0 || second == 3) << handle;
  }
  EXPECT_EQ(b.dropped, 50u);
}

TEST(Topology, AChangeEndsWithTheScenariosOwnValue)
{
  Bench b("[wan]\ndelay = \"20ms\"\n[[timeline]]\nat = \"1s\"\nfor = \"1s\"\nwhat = \"wan_delay\"\nvalue = \"50ms\"\n");
  b.topology.start(at(0s));
  const auto delay = [&](Tick now)
  {
    b.send(now, Kind::server);
    b.run(now + 200ms);
    return b.arrived[b.next - 1].at - now;
  };
  EXPECT_NEAR(milliseconds(delay(at(0s))), 20, 0.1);
  EXPECT_NEAR(milliseconds(delay(at(1500ms))), 50, 0.1);
  EXPECT_NEAR(milliseconds(delay(at(2500ms))), 20, 0.1);
  // A live change is the new own value.
  const toml::table value { { "v", "30ms" } };
  b.topology.change(at(3s), parse_change(b.topology.scenario(), "wan.delay", *value.get("v")));
  EXPECT_NEAR(milliseconds(delay(at(3s))), 30, 0.1);
}

TEST(Topology, AHiddenInterfererIsTheScenariosAndChangesInTime)
{
  Bench b(
      "[wifi]\nhidden = { share = 0.5, length = \"5ms\" }\n[[timeline]]\nat = \"2s\"\nfor = \"2s\"\nwhat = \"hidden\"\n"
      "value = { share = 0.0 }\n");
  b.topology.start(at(0s));
  // Attempts that were in vain, of a packet each millisecond.
  const auto vain = [&](Tick from, Tick to)
  {
    const auto count = [&]
    {
      const auto& stats = b.topology.air().stats(b.topology.ap_node(0));
      return stats.attempts - stats.delivered;
    };
    const auto before = count();
    for (Tick now = from; now < to; now += 1ms)
      b.send(now, Kind::ap);
    b.run(to);
    return count() - before;
  };
  EXPECT_GT(vain(at(0s), at(2s)), 500u);
  EXPECT_EQ(vain(at(2100ms), at(4s)), 0u);
  EXPECT_GT(vain(at(4s), at(6s)), 500u); // the event is over
  const toml::table value { { "v", toml::table { { "share", 0.0 } } } };
  b.topology.change(at(6s), parse_change(b.topology.scenario(), "wifi.hidden", *value.get("v")));
  b.run(at(6100ms));
  EXPECT_EQ(vain(at(6100ms), at(8s)), 0u);
}

TEST(Topology, AckFreeIsForUplinkPureAcksOnly)
{
  Bench b("[wifi]\nack_free = true\n");
  b.send(at(0s), Kind::client_wifi, 0, true);
  b.send(at(1s), Kind::client_wifi, 0, false);
  b.send(at(2s), Kind::ap, 0, true);
  b.run(at(3s));
  EXPECT_EQ(b.arrived[0].at, at(50us));
  EXPECT_GT(b.arrived[1].at, at(1s) + 150us);
  EXPECT_GT(b.arrived[2].at, at(2s) + 150us);
  EXPECT_EQ(b.topology.air().stats(b.topology.client()).attempts, 1u);
}

TEST(Topology, HandoffMovesTheClientAndSaysSo)
{
  Bench b("[[ap]]\nname = \"ap1\"\n[[ap]]\nname = \"ap2\"\nchannel = 6\n[[timeline]]\nat = \"1s\"\nwhat = "
          "\"handoff\"\nap = \"ap2\"\n");
  b.topology.start(at(0s));
  b.send(at(2s), Kind::client_wifi);
  b.run(at(3s));
  EXPECT_EQ(b.arrived[0].port, b.port(Kind::ap, 1));
  EXPECT_EQ(b.topology.associated_ap(), 1u);
  ASSERT_EQ(b.announced.size(), 1u);
  EXPECT_EQ(b.announced[0].access_point, "ap2");
}

constexpr const char* two_stations =
    "[wifi]\nretry_limit = 50\n[[ap]]\nname = \"ap1\"\ninterface = \"wlan1\"\nrate = \"6\"\nframe_error = 0.5\n"
    "[[ap]]\nname = \"ap2\"\ninterface = \"wlan0\"\n[[ap]]\nname = \"ap3\"\n";

TEST(Topology, EachStationStaysAtItsAccessPoint)
{
  Bench b(two_stations);
  const std::vector<std::pair<PortId, PortId>> ways {
    { { Kind::client_wifi, 0 }, { Kind::ap, 1 } },
    { { Kind::client_wifi, 1 }, { Kind::ap, 0 } },
    { { Kind::ap, 0 }, { Kind::client_wifi, 1 } },
    { { Kind::ap, 1 }, { Kind::client_wifi, 0 } },
  };
  for (std::size_t i = 0; i < ways.size(); ++i)
    b.send(at(static_cast<int>(i) * 100ms), ways[i].first.kind, ways[i].first.index);
  b.send(at(1s), Kind::ap, 2); // nobody of ours is there
  b.run(at(5s));
  ASSERT_EQ(b.arrived.size(), ways.size());
  for (std::size_t i = 0; i < ways.size(); ++i)
    EXPECT_EQ(b.arrived[static_cast<medium::Handle>(i)].port, b.port(ways[i].second.kind, ways[i].second.index)) << i;
  EXPECT_EQ(b.dropped, 1u);
}

TEST(Topology, AnAccessPointHasARateAndErrorsOfItsOwn)
{
  Bench b(two_stations);
  const auto of = [&](std::size_t ap) -> const medium::NodeStats&
  { return b.topology.air().stats(b.topology.ap_node(ap)); };
  // Not at the same moment, or they would meet in the first slot each time.
  for (int number = 0; number < 800; ++number)
    b.send(at(number * 25ms), Kind::ap, static_cast<std::size_t>(number % 2));
  b.run(at(21s));
  ASSERT_EQ(of(0).delivered, 400u);
  ASSERT_EQ(of(1).delivered, 400u);
  // Every second attempt fails at ap1, none but collisions at ap2, and each takes several times as long (beacons count,
  // too).
  EXPECT_NEAR(static_cast<double>(of(0).attempts) / 400, 2.0, 0.3);
  EXPECT_LT(of(1).attempts, 450u);
  const auto attempt = [&](std::size_t ap) { return seconds(of(ap).air) / static_cast<double>(of(ap).attempts); };
  EXPECT_GT(attempt(0), 3 * attempt(1));
}

TEST(Topology, FramesOfBothStationsAreHeardOnce)
{
  Bench b(two_stations);
  b.topology.want_frames(true);
  std::map<medium::NodeId, unsigned> data, bad;
  for (int number = 0; number < 400; ++number)
  {
    const Tick now = at(number * 25ms);
    b.topology.run_until(now);
    b.topology.submit(now, b.port(Kind::ap, static_cast<std::size_t>(number % 2)),
                      { .handle = b.next++, .bytes = 1000 });
    for (const auto& frame : b.topology.frames())
      if (frame.type == medium::FrameType::data)
      {
        ++data[frame.receiver];
        bad[frame.receiver] += frame.bad_fcs;
      }
    b.topology.done();
  }
  // Each attempt once; the failed ones of ap1 are seen with a bad FCS by the station they are for.
  EXPECT_NEAR(data[b.topology.client(1)], 400, 80);
  EXPECT_NEAR(bad[b.topology.client(1)], 200, 60);
  EXPECT_NEAR(data[b.topology.client(0)], 200, 25);
  EXPECT_LT(bad[b.topology.client(0)], 25u);
}

TEST(Topology, ABlackoutMayBeOfOneStation)
{
  Bench b(std::string(two_stations)
          + "[[timeline]]\nat = \"1s\"\nfor = \"1s\"\nwhat = \"blackout\"\nap = \"ap1\"\ncarrier = \"down\"\n");
  b.topology.start(at(0s));
  b.send(at(1500ms), Kind::ap, 0);
  b.send(at(1500ms), Kind::ap, 1);
  EXPECT_FALSE(b.topology.wifi_carrier(1));
  EXPECT_TRUE(b.topology.wifi_carrier(0));
  b.run(at(3s));
  EXPECT_TRUE(b.topology.wifi_carrier(1));
  EXPECT_EQ(b.dropped, 1u);
  ASSERT_EQ(b.arrived.size(), 1u);
  EXPECT_EQ(b.arrived.begin()->second.port, b.port(Kind::client_wifi, 0));
  ASSERT_EQ(b.announced.size(), 2u);
  EXPECT_EQ(b.announced[0].access_point, "ap1");
}

constexpr const char* two_walkers =
    "[[ap]]\nname = \"ap1\"\ninterface = \"wlan0\"\n[[ap]]\nname = \"ap2\"\ninterface = \"wlan1\"\n"
    "[[ap]]\nname = \"ap3\"\nchannel = 6\nrate = \"6\"\n"
    "[[timeline]]\nat = \"1s\"\nwhat = \"handoff\"\ninterface = \"wlan1\"\nap = \"ap3\"\ngap = \"500ms\"\n"
    "[[timeline]]\nat = \"3s\"\nwhat = \"handoff\"\ninterface = \"wlan0\"\nap = \"ap2\"\n"
    "[[timeline]]\nat = \"5s\"\nwhat = \"handoff\"\ninterface = \"wlan1\"\nap = \"ap2\"\n";

TEST(Topology, EachInterfaceHasATimelineOfAccessPoints)
{
  Bench b(two_walkers);
  b.topology.start(at(0s));
  // Up by each interface, and down to each by every access point; what gets through says where it is.
  const auto ways = [&](Tick now)
  {
    std::string through;
    std::map<medium::Handle, std::string> names;
    b.run(now);
    for (std::size_t i = 0; i < 2; ++i)
    {
      names[b.next] = "wlan" + std::to_string(i) + ">";
      b.topology.submit(now, b.port(Kind::client_wifi, i), { .handle = b.next++, .bytes = 1000 });
      for (std::size_t ap = 0; ap < 3; ++ap)
      {
        names[b.next] = "ap" + std::to_string(ap + 1) + ">";
        b.topology.submit(now, b.port(Kind::ap, ap), { .handle = b.next++, .bytes = 1000 }, i);
      }
    }
    b.run(now + 100ms);
    for (const auto& [handle, from] : names)
      if (b.arrived.contains(handle))
      {
        const PortId to = b.topology.ports()[b.arrived[handle].port];
        through += from
                   + (to.kind == Kind::ap ? "ap" + std::to_string(to.index + 1) : "wlan" + std::to_string(to.index))
                   + " ";
      }
    return through;
  };
  EXPECT_EQ(ways(at(500ms)), "wlan0>ap1 ap1>wlan0 wlan1>ap2 ap2>wlan1 ");
  EXPECT_EQ(ways(at(1200ms)), "wlan0>ap1 ap1>wlan0 ") << "while wlan1 is at none";
  b.run(at(2s));
  EXPECT_EQ(ways(at(2s)), "wlan0>ap1 ap1>wlan0 wlan1>ap3 ap3>wlan1 ");
  EXPECT_EQ(ways(at(4s)), "wlan0>ap2 ap2>wlan0 wlan1>ap3 ap3>wlan1 ");
  EXPECT_EQ(ways(at(6s)), "wlan0>ap2 ap2>wlan0 wlan1>ap2 ap2>wlan1 ") << "both at one";
  EXPECT_EQ(b.topology.associated_ap(0), 1u);
  EXPECT_EQ(b.topology.associated_ap(1), 1u);
  ASSERT_EQ(b.announced.size(), 3u);
  EXPECT_EQ(b.announced[0].interface, "wlan1");
  EXPECT_EQ(b.announced[0].access_point, "ap3");
  EXPECT_EQ(b.announced[1].interface, "wlan0");
  EXPECT_EQ(b.announced[1].access_point, "ap2");
}

TEST(Topology, AnAccessPointsRateIsForWhoComesToIt)
{
  Bench b(two_walkers);
  b.topology.start(at(0s));
  // One of 1000 bytes each way: at 6 and at 54 Mb/s.
  const auto takes = [&](Tick now, PortId from)
  {
    b.run(now);
    b.topology.submit(now, b.port(from.kind, from.index), { .handle = b.next++, .bytes = 1000 }, 1);
    b.run(now + 100ms);
    return b.arrived[b.next - 1].at - now;
  };
  const PortId up { Kind::client_wifi, 1 };
  for (const auto& way : { PortId { Kind::ap, 1 }, up })
    EXPECT_LT(takes(at(way == up ? 700ms : 500ms), way), 800us);
  for (const auto& way : { PortId { Kind::ap, 2 }, up })
    EXPECT_GT(takes(at(way == up ? 2200ms : 2000ms), way), 1300us);
  for (const auto& way : { PortId { Kind::ap, 1 }, up })
    EXPECT_LT(takes(at(way == up ? 6200ms : 6000ms), way), 800us) << "the next one has no rate of its own";
}

TEST(Topology, AHandoffMayBringARateAndErrorsOfItsOwn)
{
  Bench b("[wifi]\nretry_limit = 50\n[[ap]]\nname = \"ap1\"\ninterface = \"wlan0\"\n[[ap]]\nname = \"ap2\"\ninterface "
          "= \"wlan1\"\n"
          "[[ap]]\nname = \"ap3\"\nrate = \"6\"\n"
          "[[timeline]]\nat = \"0s\"\nwhat = \"handoff\"\ninterface = \"wlan0\"\nap = \"ap3\"\n"
          "[[timeline]]\nat = \"0s\"\nwhat = \"handoff\"\ninterface = \"wlan1\"\nap = \"ap3\"\nrate = \"54\"\n"
          "frame_error = 0.5\n");
  b.topology.start(at(0s));
  const medium::NodeStats& stats = b.topology.air().stats(b.topology.ap_node(2));
  std::array<std::uint64_t, 2> attempts {};
  std::array<Duration, 2> shortest { 1s, 1s };
  for (int number = 0; number < 400; ++number)
  {
    const Tick now = at(1s + number * 25ms);
    const auto to = static_cast<std::size_t>(number % 2);
    b.run(now);
    const auto before = stats.attempts;
    b.topology.submit(now, b.port(Kind::ap, 2), { .handle = b.next++, .bytes = 1000 }, to);
    b.run(now + 20ms);
    attempts[to] += stats.attempts - before;
    if (b.arrived.contains(b.next - 1)) shortest[to] = std::min(shortest[to], b.arrived[b.next - 1].at - now);
  }
  EXPECT_NEAR(static_cast<double>(attempts[0]) / 200, 1, 0.3) << "the access point's own: 6 Mb/s, no errors";
  EXPECT_NEAR(static_cast<double>(attempts[1]) / 200, 2, 0.4);
  EXPECT_GT(shortest[0], shortest[1] + 1ms);
}

TEST(Topology, ABlackoutIsOfAnAccessPointOrOfAnInterface)
{
  Bench b(std::string(two_walkers)
          + "[[timeline]]\nat = \"2s\"\nfor = \"4s\"\nwhat = \"blackout\"\nap = \"ap2\"\ncarrier = \"down\"\n"
            "[[timeline]]\nat = \"7s\"\nfor = \"1s\"\nwhat = \"blackout\"\ninterface = \"wlan1\"\n");
  b.topology.start(at(0s));
  const auto heard = [&](Tick now)
  {
    std::string who;
    for (std::size_t i = 0; i < 2; ++i)
    {
      b.send(now + static_cast<int>(i) * 20ms, Kind::client_wifi, i);
      b.run(now + static_cast<int>(i) * 20ms + 15ms);
      if (b.arrived.contains(b.next - 1)) who += "wlan" + std::to_string(i) + " ";
      if (!b.topology.wifi_carrier(i)) who += "(down) ";
    }
    return who;
  };
  EXPECT_EQ(heard(at(2500ms)), "wlan0 wlan1 ") << "nobody is at ap2";
  EXPECT_EQ(heard(at(4s)), "(down) wlan1 ") << "wlan0 has come to it";
  EXPECT_EQ(heard(at(5500ms)), "(down) (down) ") << "and wlan1";
  EXPECT_EQ(heard(at(6500ms)), "wlan0 wlan1 ");
  EXPECT_EQ(heard(at(7500ms)), "wlan0 ") << "of one interface, both are at ap2";
  EXPECT_EQ(heard(at(8500ms)), "wlan0 wlan1 ");
}

TEST(Topology, EventsForOthersAreAnnouncedInTime)
{
  Bench b("[[timeline]]\nat = \"1s\"\nfor = \"500ms\"\nwhat = \"source_filter\"\nvalue = true\n");
  b.topology.start(at(0s));
  EXPECT_EQ(b.topology.next_event() <= at(1s), true);
  b.run(at(2s));
  ASSERT_EQ(b.announced.size(), 2u);
  EXPECT_TRUE(b.announced[0].value);
  EXPECT_FALSE(b.announced[1].value);
  EXPECT_EQ(b.announced[1].at, at(1500ms));
}

// --- Wi-Fi that is a pipe ---

constexpr std::string_view exact_wifi = R"(
[wifi]
profile = "wifi-pipe"
rate_down = "8Mbit"
rate_up = "4Mbit"
queue = 1000
queue_bytes = "3000B"
delay = "2ms"
)";

TEST(Topology, WifiThatIsAPipeHasItsExactRatesQueueAndDelay)
{
  Bench b { std::string(exact_wifi) };
  // 1000 bytes take 1 ms down and 2 ms up, then 2 ms on the way; one is being sent, three wait, the rest is dropped.
  b.run(at(1s));
  for (int i = 0; i < 6; ++i)
    b.topology.submit(at(1s), b.port(Kind::ap), { .handle = b.next++, .bytes = 1000 });
  b.topology.submit(at(1s), b.port(Kind::client_wifi), { .handle = b.next++, .bytes = 1000 });
  b.run(at(2s));
  ASSERT_EQ(b.arrived.size(), 5u);
  EXPECT_EQ(b.dropped, 2u);
  for (medium::Handle i = 0; i < 4; ++i)
  {
    EXPECT_EQ(b.arrived[i].port, b.port(Kind::client_wifi));
    EXPECT_EQ(b.arrived[i].at, at(1s + 2ms + (static_cast<int>(i) + 1) * 1ms));
  }
  EXPECT_EQ(b.arrived[6].port, b.port(Kind::ap));
  EXPECT_EQ(b.arrived[6].at, at(1s + 2ms + 2ms));
}

// Which of a thousand packets arrived.
std::vector<bool> pattern(const std::string& more, std::uint64_t seed)
{
  Topology topology(load(std::string(exact_wifi) + more), seed);
  std::vector<bool> arrived(1000);
  for (medium::Handle i = 0; i < arrived.size(); ++i)
  {
    topology.run_until(at(static_cast<int>(i) * 10ms));
    topology.submit(at(static_cast<int>(i) * 10ms), 1, { .handle = i, .bytes = 1000 });
  }
  topology.run_until(at(60s));
  for (const auto& a : topology.arrivals())
    arrived[a.handle] = true;
  return arrived;
}

TEST(Topology, WifiThatIsAPipeLosesTheSamePacketsForTheSameSeedOnly)
{
  const auto lost = pattern("loss_down = 0.1\n", 7);
  EXPECT_NEAR(static_cast<double>(std::count(lost.begin(), lost.end(), false)), 100, 40);
  // Neither the load of other links nor other servers shift the draws.
  EXPECT_EQ(
      lost,
      pattern("loss_down = 0.1\nloss_up = 0.5\n[[server]]\nname = \"a\"\n[[server]]\nname = \"b\"\nloss = 0.2\n", 7));
  EXPECT_NE(lost, pattern("loss_down = 0.1\n", 8));
}

TEST(Topology, WifiThatIsAPipeTellsWhereWhyAndBehindWhatAPacketWasLost)
{
  Bench b(std::string(exact_wifi) + "loss_up = 1\n");
  b.run(at(1s));
  for (int i = 0; i < 5; ++i)
    b.topology.submit(at(1s), b.port(Kind::ap), { .handle = b.next++, .bytes = 1000 });
  b.topology.submit(at(1s), b.port(Kind::client_wifi), { .handle = b.next++, .bytes = 500 });
  b.topology.run_until(at(1s + 1ms));
  const auto losses = b.topology.dropped();
  ASSERT_EQ(losses.size(), 2u);
  EXPECT_EQ(losses[0].why, medium::DropReason::queue_full);
  EXPECT_EQ(losses[0].place.link, 0);
  EXPECT_TRUE(losses[0].place.down);
  EXPECT_EQ(losses[0].place.queued, 3u);
  EXPECT_EQ(losses[0].place.queued_bytes, 3000u);
  EXPECT_EQ(losses[0].at, at(1s));
  EXPECT_EQ(losses[1].why, medium::DropReason::loss);
  EXPECT_FALSE(losses[1].place.down);
  EXPECT_EQ(losses[1].at, at(1s + 1ms)); // behind the queue: when it had been sent
}

TEST(Topology, WifiThatIsAPipeShowsItsLossesAsDamagedFrames)
{
  Bench b(std::string(exact_wifi) + "loss_down = 0.5\nbeacon_interval = \"0ms\"\n");
  b.topology.want_frames(true);
  for (int i = 0; i < 100; ++i)
    b.topology.run_until(at(i * 10ms)),
        b.topology.submit(at(i * 10ms), b.port(Kind::ap), { .handle = b.next++, .bytes = 1000 });
  b.topology.run_until(at(2s));
  ASSERT_EQ(b.topology.frames().size(), 100u);
  std::size_t damaged = 0;
  for (std::size_t i = 0; i < 100; ++i)
  {
    damaged += b.topology.frames()[i].bad_fcs ? 1 : 0;
    EXPECT_EQ(b.topology.frames()[i].sequence, i);
  }
  EXPECT_EQ(damaged, b.topology.dropped().size());
  EXPECT_GT(damaged, 20u);
}

TEST(Topology, WifiThatIsAPipeHoldsOrDropsInABlackout)
{
  for (const bool hold : { true, false })
  {
    Bench b(std::string(exact_wifi) + "[[timeline]]\nat = \"1s\"\nfor = \"1s\"\nwhat = \"blackout\"\nmode = \""
            + (hold ? "buffer" : "drop") + "\"\n");
    b.topology.start(at(0s));
    b.send(at(1500ms), Kind::ap);
    b.run(at(1900ms));
    EXPECT_EQ(b.arrived.size(), 0u);
    b.send(at(2100ms), Kind::ap);
    b.run(at(3s));
    EXPECT_EQ(b.arrived.size(), hold ? 2u : 1u);
    EXPECT_EQ(b.dropped, hold ? 0u : 1u);
  }
}

TEST(Topology, WifiThatIsAPipeChangesItsRateInTime)
{
  Bench b(std::string(exact_wifi)
          + "[[timeline]]\nat = \"1s\"\nwhat = \"rate\"\nvalue = \"80Mbit\"\ndirection = \"down\"\n");
  b.topology.start(at(0s));
  b.send(at(2s), Kind::ap);
  b.run(at(3s));
  EXPECT_EQ(b.arrived[0].at, at(2s + 2ms + 100us));
}

} // namespace

} // namespace tandem::lab::test
