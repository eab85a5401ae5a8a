#include "modules/ecn/ecn.h"
#include "modules/ecn/on_off.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace tandem::ecn
{
namespace
{

using namespace std::chrono_literals;

// Two or more subflows of MPTCP connections at a module, with made-up goodput.
class Fixture
{
public:
  Fixture()
  {
    for (LinkState& link : links)
      link = { .present = true, .up = true, .route = true };
    links[static_cast<std::size_t>(Link::other)] = {};
  }

  struct Subflow
  {
    FlowView view {};
    alignas(std::max_align_t) std::array<std::byte, sizeof(State)> state {};
    bool begun = false;
    double rate = 0; // bytes per second while not a backup
    double bytes = 0;
  };

  Subflow& add(Link link, std::uint32_t token, double rate, std::uint8_t version = 0)
  {
    flows.push_back(std::make_unique<Subflow>());
    Subflow& one = *flows.back();
    one.view.id = flows.size();
    one.view.link = link;
    one.view.bypass = Bypass::none;
    one.view.mptcp = true;
    one.view.mptcp_token = token;
    one.view.mptcp_version = version;
    one.view.ecn = true;
    one.view.ecn_seen = tandem::Ecn::ect0;
    one.view.rtt_smoothed = one.view.rtt_min = 50ms;
    one.rate = rate;
    module.flow_begin(one.state.data(), one.view);
    one.begun = true;
    return one;
  }
  void end(Subflow& one)
  {
    module.flow_end(one.state.data());
    one.begun = false;
  }
  ~Fixture()
  {
    for (auto& one : flows)
      if (one->begun) end(*one);
  }

  void packet_time(Link link, std::optional<Duration> time, std::uint32_t frequency = 2412)
  {
    links[static_cast<std::size_t>(link)].radio =
        time ? std::optional { RadioState { .packet_time = time, .confidence = 1, .frequency = frequency } }
             : std::nullopt;
  }

  // Beacons of a link are heard so, whether frames tell a packet time or not.
  void hear(Link link, float dbm, std::optional<Duration> time)
  {
    links[static_cast<std::size_t>(link)].radio =
        RadioState { .packet_time = time, .signal = dbm, .confidence = time ? 1.F : 0.F, .frequency = 2412 };
  }

  // What is requested for of a link now; the kernel's default before anything was said.
  double requested(RequestKind kind, Link link) const
  {
    const auto found = requests.find({ kind, link });
    return found != requests.end() ? found->second : kind == RequestKind::mptcp_endpoint ? 1 : 0;
  }
  bool backup(Link link) const { return requested(RequestKind::mptcp_backup, link) > 0; }
  double marks(Link link) const { return requested(RequestKind::ce_rate, link); }

  void give(Subflow& one, EventKind kind, std::uint16_t more_flags = 0)
  {
    Segment segment;
    segment.direction = Direction::ingress;
    segment.link = one.view.link;
    segment.payload_length = 1400;
    segment.flags = tcp_flag::ack | more_flags;
    const Event event {
      .kind = kind, .now = now, .segment = kind == EventKind::segment ? &segment : nullptr, .links = &links, .seed = 1
    };
    const Plan plan = module.decide(event, one.view, one.state.data());
    EXPECT_EQ(plan.verdict, Verdict::pass);
    EXPECT_TRUE(plan.edit.empty());
    EXPECT_TRUE(plan.inject.empty());
    for (const LinkRequest& request : plan.request)
    {
      requests[{ request.kind, request.link }] = request.value;
      ++told;
      EXPECT_TRUE(request.value >= 0 && request.value <= 1);
      EXPECT_TRUE(request.kind != RequestKind::ce_rate || request.value <= DeltaSettings {}.cap);
    }
  }

  void run(double length)
  {
    const Tick end_at = now + from_seconds(length);
    for (; now < end_at; now += step)
      for (auto& one : flows)
      {
        if (!one->begun) continue;
        if (!backup(one->view.link)) one->bytes += seconds(step) * (model ? model(*one, *this) : one->rate);
        one->view.bytes_delivered = static_cast<std::uint64_t>(one->bytes);
        give(*one, EventKind::segment);
      }
  }

  std::string fact(Subflow& one, const std::string& key)
  {
    struct Text final : Facts
    {
      std::map<std::string, std::string> all;
      void add(std::string_view k, std::string_view v) override { all[std::string(k)] = v; }
      void add(std::string_view k, double v, std::string_view) override { all[std::string(k)] = std::to_string(v); }
    } facts;
    static_cast<const Module&>(module).describe(one.view, one.state.data(), facts);
    return facts.all[key];
  }

  Ecn owner {};
  Module& module = owner;
  LinkStates links {};
  Tick now { 1h };
  std::vector<std::unique_ptr<Subflow>> flows;
  std::map<std::pair<RequestKind, Link>, double> requests;
  unsigned told = 0;
  Duration step = 20ms;
  std::function<double(const Subflow&, const Fixture&)> model {};
};

// One air: what the worse link takes is missing at the better one.
double one_air(const Fixture::Subflow& flow, const Fixture& fixture)
{
  const bool other_used = !fixture.backup(Link::wifi);
  if (flow.view.link == Link::wifi) return 4e5;
  return other_used ? 2e5 : 2.8e6;
}

// Scenario 1: the access point of the first link is slow, that of the second one fills the air alone.
struct OneAir : Fixture
{
  explicit OneAir(std::uint8_t version)
  {
    add(Link::wifi, 7, 4e5, version);
    add(wifi_link(1), 7, 2.8e6, version);
    packet_time(Link::wifi, 3ms);
    packet_time(wifi_link(1), 500us);
    model = one_air;
  }
};

// Scenario 2: the uplink of the second one's access point is the bottleneck.
struct FullUplink : Fixture
{
  explicit FullUplink(std::uint8_t version)
  {
    add(Link::wifi, 7, 4e5, version);
    add(wifi_link(1), 7, 1e5, version);
    packet_time(Link::wifi, 3ms);
    packet_time(wifi_link(1), 500us);
  }
};

TEST(ecn, leaves_the_worse_access_point_out_where_it_wastes_air)
{
  OneAir s { 1 };
  s.run(20);
  EXPECT_TRUE(s.backup(Link::wifi));
  EXPECT_FALSE(s.backup(wifi_link(1)));
  EXPECT_EQ(s.marks(Link::wifi), 0);
}

TEST(ecn, uses_it_where_the_better_ones_uplink_is_the_bottleneck)
{
  FullUplink s { 1 };
  s.run(30);
  EXPECT_FALSE(s.backup(Link::wifi));
  EXPECT_FALSE(s.backup(wifi_link(1)));
}

TEST(ecn, marks_only_for_coupled_senders_and_below_the_cap)
{
  for (const std::uint8_t version : { 0, 1 })
  {
    FullUplink s { version };
    s.module.set("strategy", 1); // published
    s.run(3);
    EXPECT_EQ(s.marks(Link::wifi) > 0, version == 0);
    EXPECT_EQ(s.marks(wifi_link(1)), 0);
    s.module.set("sender", version == 0 ? 2 : 1);
    s.run(3);
    EXPECT_EQ(s.marks(Link::wifi) > 0, version == 1) << "told otherwise";
  }
}

TEST(ecn, a_clearly_slow_access_point_is_left_at_once_by_coupled_senders_too)
{
  const auto left_at_once = [](Duration slow)
  {
    OneAir s { 0 };
    s.packet_time(Link::wifi, slow);
    s.run(0.5);
    EXPECT_EQ(s.marks(Link::wifi) > 0, !s.backup(Link::wifi)) << "marks do the rest";
    return s.backup(Link::wifi);
  };
  EXPECT_TRUE(left_at_once(1100us));
  EXPECT_FALSE(left_at_once(900us));
}

TEST(ecn, on_full_air_a_coupled_sender_is_fair_by_itself)
{
  for (const std::uint8_t version : { 0, 1 })
  {
    // What the worse link brings is others' air; the good one alone brings half.
    OneAir s { version };
    s.packet_time(Link::wifi, 900us);
    for (const Link link : { Link::wifi, wifi_link(1) })
      s.links[static_cast<std::size_t>(link)].radio->busy = 0.95F;
    s.model = [](const Fixture::Subflow& flow, const Fixture& fixture) {
      return flow.view.link == Link::wifi ? 4e5 : fixture.backup(Link::wifi) ? 4e5 : 5e5;
    };
    s.run(30);
    EXPECT_EQ(s.backup(Link::wifi), version == 1);
  }
}

TEST(ecn, not_ect_l4s_and_lonely_flows_are_not_marked)
{
  const auto marked = [](const std::function<void(Fixture&)>& change)
  {
    FullUplink s { 0 };
    s.module.set("strategy", 1);
    change(s);
    s.run(4);
    return s.marks(Link::wifi) > 0;
  };
  EXPECT_TRUE(marked([](Fixture&) {}));
  EXPECT_FALSE(marked([](Fixture& s) { s.flows[0]->view.ecn = false; }));
  EXPECT_FALSE(marked([](Fixture& s) { s.flows[0]->view.ecn_seen = tandem::Ecn::not_ect; }));
  EXPECT_FALSE(marked([](Fixture& s) { s.flows[0]->view.ecn_seen = tandem::Ecn::ect1; }));
  EXPECT_TRUE(marked([](Fixture& s) { s.flows[0]->view.acc_ecn = true; }))
      << "AccECN counts marks, the sender answers alike";
  // A connection that has nowhere else to go.
  EXPECT_FALSE(marked([](Fixture& s) { s.add(Link::wifi, 8, 1e5); }));
  const auto by_another = [&](bool up)
  {
    return marked(
        [up](Fixture& s)
        {
          s.add(Link::wifi, 8, 1e5);
          s.add(wifi_link(2), 8, 1e5);
          s.links[static_cast<std::size_t>(wifi_link(2))].up = up;
        });
  };
  EXPECT_TRUE(by_another(true));
  EXPECT_FALSE(by_another(false)) << "the kernel keeps the subflow of a link that is down for a while";
}

TEST(ecn, does_nothing_without_packet_times)
{
  for (const bool one_missing : { true, false })
  {
    Fixture s;
    s.add(Link::wifi, 7, 4e5);
    s.add(wifi_link(1), 7, 1e5);
    if (one_missing) s.packet_time(Link::wifi, 3ms);
    s.run(10);
    EXPECT_EQ(s.told, 0u);
    EXPECT_EQ(s.fact(*s.flows[0], "state"), "ecn: packet times not known");
  }
}

TEST(ecn, a_packet_time_that_goes_stale_takes_everything_back)
{
  OneAir s { 0 };
  s.module.set("strategy", 1);
  s.run(3);
  ASSERT_GT(s.marks(Link::wifi), 0);
  s.packet_time(Link::wifi, std::nullopt);
  s.run(0.3);
  EXPECT_EQ(s.marks(Link::wifi), 0);
  s.module.set("strategy", 0);
  s.packet_time(Link::wifi, 3ms);
  s.model = one_air;
  s.run(10);
  ASSERT_TRUE(s.backup(Link::wifi));
  // Of a link that is left out nothing is heard: that is no reason to use it.
  s.packet_time(Link::wifi, std::nullopt);
  s.run(20);
  EXPECT_TRUE(s.backup(Link::wifi));
  s.packet_time(wifi_link(1), std::nullopt); // now the radio is gone
  s.run(5.5);
  EXPECT_FALSE(s.backup(Link::wifi));
}

TEST(ecn, a_link_left_out_is_looked_at_again_after_ten_minutes)
{
  OneAir s { 1 };
  s.run(5);
  ASSERT_TRUE(s.backup(Link::wifi));
  s.packet_time(Link::wifi, std::nullopt);
  s.run(590);
  EXPECT_TRUE(s.backup(Link::wifi));
  s.run(15);
  EXPECT_FALSE(s.backup(Link::wifi));
}

TEST(ecn, a_link_left_out_is_looked_at_again_when_the_good_one_turns_bad)
{
  Fixture s;
  s.add(Link::wifi, 7, 4e5, 1);
  s.add(wifi_link(1), 7, 2.8e6, 1);
  s.packet_time(Link::wifi, 6ms);
  s.packet_time(wifi_link(1), 500us);
  s.model = one_air;
  s.run(10);
  ASSERT_TRUE(s.backup(Link::wifi));
  s.packet_time(Link::wifi, std::nullopt);
  s.packet_time(wifi_link(1), 900us);
  s.run(20);
  EXPECT_TRUE(s.backup(Link::wifi));
  s.packet_time(wifi_link(1), 4ms); // better than what is remembered, still worth a look
  s.run(1);
  EXPECT_FALSE(s.backup(Link::wifi));
  s.packet_time(Link::wifi, 500us);
  s.run(1);
  EXPECT_TRUE(s.backup(wifi_link(1)));
  EXPECT_FALSE(s.backup(Link::wifi));
}

// The first link is left out at -84 dBm; nothing but its beacons is heard of it any more.
struct LeftOutFarAway : Fixture
{
  LeftOutFarAway()
  {
    add(Link::wifi, 7, 4e5, 1);
    add(wifi_link(1), 7, 2.8e6, 1);
    model = one_air;
    hear(Link::wifi, -84, 6ms);
    hear(wifi_link(1), -60, 500us);
    run(10);
    EXPECT_TRUE(backup(Link::wifi));
  }
};

TEST(ecn, what_is_known_of_a_link_is_not_replaced_by_no_number)
{
  LeftOutFarAway s;
  s.hear(Link::wifi, -84, 1ms);
  s.links[0].radio->confidence = std::nanf("");
  s.run(5);
  EXPECT_TRUE(s.backup(Link::wifi));
}

TEST(ecn, a_link_left_out_is_tried_when_its_beacons_become_the_stronger_ones)
{
  LeftOutFarAway s;
  for (float gone = 0; gone <= 10; ++gone) // a decibel a second each
  {
    s.hear(Link::wifi, -84 + gone, std::nullopt);
    s.hear(wifi_link(1), -60 - gone, 700us);
    s.run(1);
  }
  s.run(20);
  EXPECT_TRUE(s.backup(Link::wifi)) << "closer than before, but not yet the closer one";
  s.hear(Link::wifi, -71, std::nullopt);
  s.hear(wifi_link(1), -72, 800us);
  s.run(0.3);
  EXPECT_FALSE(s.backup(Link::wifi));
  s.hear(Link::wifi, -70, 500us);
  s.hear(wifi_link(1), -74, 1ms);
  s.run(1);
  EXPECT_FALSE(s.backup(Link::wifi));
  EXPECT_TRUE(s.backup(wifi_link(1)));
}

TEST(ecn, a_signal_that_is_as_it_was_is_no_reason_to_try)
{
  LeftOutFarAway s;
  s.hear(Link::wifi, -82, std::nullopt);
  s.hear(wifi_link(1), -90, 700us); // behind a door, and still quicker
  s.run(60);
  EXPECT_TRUE(s.backup(Link::wifi));
}

TEST(ecn, signals_that_waver_are_no_ping_pong)
{
  // The stronger one is tried, and is slow all the same.
  LeftOutFarAway s;
  unsigned tries = 0;
  bool before = true;
  for (int i = 0; i < 240; ++i)
  {
    const bool used = !s.backup(Link::wifi);
    tries += used && before ? 1 : 0;
    before = !used;
    s.hear(Link::wifi, i % 4 < 2 ? -66 : -70, used ? std::optional<Duration> { 6ms } : std::nullopt);
    s.hear(wifi_link(1), -69, 600us);
    s.run(0.5);
  }
  EXPECT_GE(tries, 1u);
  EXPECT_LE(tries, 2u) << "in two minutes";
}

TEST(ecn, what_is_heard_worse_than_before_is_not_looked_at_again)
{
  LeftOutFarAway s;
  s.hear(Link::wifi, -88, std::nullopt);
  s.hear(wifi_link(1), -70, 2ms); // four times what it took then, which is a reason else
  s.run(30);
  EXPECT_TRUE(s.backup(Link::wifi));
  s.hear(Link::wifi, -85, std::nullopt);
  s.run(1);
  EXPECT_FALSE(s.backup(Link::wifi));
}

// OLIA: a subflow that was cut down grows only when the window of the other one goes down.
TEST(ecn, coupled_senders_are_marked_on_the_link_that_they_are_to_leave)
{
  Fixture s;
  s.add(Link::wifi, 7, 2e4, 0);
  s.add(wifi_link(1), 7, 1e6, 0);
  s.hear(Link::wifi, -75, 500us);
  s.hear(wifi_link(1), -70, 500us);
  s.run(3);
  ASSERT_FALSE(s.backup(wifi_link(1)));
  ASSERT_EQ(s.marks(wifi_link(1)), 0);
  s.hear(wifi_link(1), -80, 900us);
  s.run(1);
  EXPECT_FALSE(s.backup(wifi_link(1)));
  EXPECT_EQ(s.marks(wifi_link(1)), DeltaSettings {}.cap);
  EXPECT_EQ(s.marks(Link::wifi), 0);
  EXPECT_EQ(s.fact(*s.flows[0], "state"), "ecn: an access point is marked before it is left");
  s.hear(wifi_link(1), -84, 1500us);
  s.run(0.2);
  EXPECT_TRUE(s.backup(wifi_link(1))) << "clearly slow";
  s.hear(wifi_link(1), -74, 500us);
  s.run(2);
  ASSERT_FALSE(s.backup(wifi_link(1)));
  s.hear(wifi_link(1), -80, 900us);
  s.run(1);
  ASSERT_FALSE(s.backup(wifi_link(1)));
  s.flows[0]->rate = 2e6; // it has grown
  s.run(1);
  EXPECT_TRUE(s.backup(wifi_link(1)));
  EXPECT_EQ(s.marks(wifi_link(1)), 0);
}

TEST(ecn, coupled_senders_are_marked_while_what_is_heard_better_is_tried)
{
  for (const std::uint8_t version : { 0, 1 })
  {
    Fixture s;
    s.add(Link::wifi, 7, 2e4, version);
    s.add(wifi_link(1), 7, 1e6, version);
    s.hear(Link::wifi, -84, 6ms);
    s.hear(wifi_link(1), -60, 500us);
    s.run(10);
    ASSERT_TRUE(s.backup(Link::wifi));
    s.hear(Link::wifi, -70, std::nullopt);
    s.hear(wifi_link(1), -72, 800us);
    s.run(1);
    EXPECT_FALSE(s.backup(Link::wifi));
    EXPECT_FALSE(s.backup(wifi_link(1)));
    EXPECT_EQ(s.marks(wifi_link(1)), version == 0 ? DeltaSettings {}.cap : 0) << "Linux does not couple";
    s.run(4);
    EXPECT_EQ(s.marks(wifi_link(1)), 0) << "nothing came of it";
  }
}

TEST(ecn, an_idle_download_forgets_nothing)
{
  OneAir s { 1 };
  s.run(5);
  ASSERT_TRUE(s.backup(Link::wifi));
  s.packet_time(Link::wifi, std::nullopt);
  s.packet_time(wifi_link(1), std::nullopt);
  s.model = [](const Fixture::Subflow&, const Fixture&) { return 0.0; };
  s.run(30);
  EXPECT_TRUE(s.backup(Link::wifi));
  s.model = one_air;
  s.run(1);
  EXPECT_TRUE(s.backup(Link::wifi)) << "the first frames do not yet make a packet time";
}

TEST(ecn, unsure_packet_times_count_together)
{
  for (const float confidence : { 0.F, 0.02F, 0.05F, 0.9F })
  {
    Fixture s;
    s.add(Link::wifi, 7, 4e5, 1);
    s.add(wifi_link(1), 7, 2.8e6, 1);
    s.packet_time(Link::wifi, 3ms);
    s.links[0].radio->confidence = confidence;
    s.packet_time(wifi_link(1), 500us);
    s.model = one_air;
    s.run(0.4);
    EXPECT_EQ(s.backup(Link::wifi), confidence > 0.2F) << confidence;
    s.run(4);
    EXPECT_EQ(s.backup(Link::wifi), confidence >= 0.05F) << confidence << " eight half seconds";
  }
}

TEST(ecn, one_access_point_is_left_alone)
{
  Fixture s;
  s.add(Link::wifi, 7, 4e5);
  s.add(Link::cell, 7, 4e5);
  s.packet_time(Link::wifi, 30ms);
  s.run(10);
  EXPECT_EQ(s.told, 0u);
  EXPECT_EQ(s.fact(*s.flows[0], "state"), "ecn: one access point");
}

TEST(ecn, access_points_of_several_channels_are_not_compared)
{
  OneAir s { 1 };
  s.packet_time(wifi_link(1), 500us, 2462);
  s.model = {}; // each has its own air
  s.run(20);
  EXPECT_FALSE(s.backup(Link::wifi)) << "it takes no air of the other one";
  EXPECT_FALSE(s.backup(wifi_link(1)));
  EXPECT_EQ(s.told, 0u);
  EXPECT_EQ(s.fact(*s.flows[0], "state"), "ecn: access points of several channels");
  // A third one on the channel of the first is compared with that one alone.
  s.add(wifi_link(2), 7, 4e5, 1);
  s.packet_time(wifi_link(2), 7ms);
  s.run(20);
  EXPECT_FALSE(s.backup(Link::wifi));
  EXPECT_FALSE(s.backup(wifi_link(1)));
  EXPECT_TRUE(s.backup(wifi_link(2)));
}

TEST(ecn, leaves_mptcp_alone_while_there_are_links_that_nobody_sees)
{
  OneAir s { 1 };
  s.links[static_cast<std::size_t>(Link::other)].present = true;
  s.run(3);
  EXPECT_EQ(s.told, 0u);
  EXPECT_EQ(s.fact(*s.flows[0], "state"), "ecn: more access points than are seen");
  s.links[static_cast<std::size_t>(Link::other)].present = false;
  s.run(3);
  EXPECT_TRUE(s.backup(Link::wifi));
  s.links[static_cast<std::size_t>(Link::other)].present = true;
  s.run(3);
  EXPECT_FALSE(s.backup(Link::wifi)) << "what was asked for is taken back";
}

TEST(ecn, plain_tcp_and_unknown_tokens_are_nobody)
{
  Fixture s;
  s.add(Link::wifi, 7, 4e5).view.mptcp = false;
  s.add(wifi_link(1), 0, 4e5);
  s.packet_time(Link::wifi, 3ms);
  s.packet_time(wifi_link(1), 500us);
  s.run(10);
  EXPECT_EQ(s.told, 0u);
}

TEST(ecn, two_connections_of_one_subflow_each_are_not_steered)
{
  Fixture s;
  s.add(Link::wifi, 7, 4e5);
  s.add(wifi_link(1), 8, 4e5);
  s.packet_time(Link::wifi, 3ms);
  s.packet_time(wifi_link(1), 500us);
  s.run(10);
  EXPECT_EQ(s.told, 0u);
}

TEST(ecn, uses_at_most_so_many_access_points)
{
  Fixture s;
  for (std::size_t i = 0; i < most_wifi; ++i)
  {
    s.add(wifi_link(i), 7, 1e5, 1);
    s.packet_time(wifi_link(i), 1ms);
  }
  s.run(5);
  int used = 0;
  for (std::size_t i = 0; i < most_wifi; ++i)
    used += s.backup(wifi_link(i)) ? 0 : 1;
  EXPECT_EQ(used, 4) << "all are equally good";
  s.module.set("most_used", 2);
  s.run(1);
  used = 0;
  for (std::size_t i = 0; i < most_wifi; ++i)
    used += s.backup(wifi_link(i)) ? 0 : 1;
  EXPECT_EQ(used, 2);
}

TEST(ecn, part_time_is_a_duty_cycle)
{
  Fixture s;
  s.add(Link::wifi, 7, 0, 1);
  s.add(wifi_link(1), 7, 0, 1);
  s.packet_time(Link::wifi, 3ms);
  s.packet_time(wifi_link(1), 500us);
  // Best with the worse link open part of the time.
  double share = 0; // of the last second or so
  s.model = [&](const Fixture::Subflow& flow, const Fixture& fixture)
  {
    if (flow.view.link == Link::wifi) return 2e5;
    share += 0.02 * ((fixture.backup(Link::wifi) ? 0 : 1) - share);
    return 6e5 * (1 - std::abs(share - 0.5));
  };
  s.run(60);
  const unsigned before = s.told;
  int level_one = 0;
  for (int i = 0; i < 100; ++i)
  {
    s.run(0.1);
    level_one += s.fact(*s.flows[0], "level") == "1.000000" ? 1 : 0;
  }
  EXPECT_TRUE(level_one < 100 || (s.told - before >= 72 && s.told - before <= 96))
      << "twice in every 250 ms, and now and then again";
  EXPECT_GT(level_one, 60);
}

TEST(ecn, on_off_uses_one_at_a_time_by_equation_6)
{
  Fixture s;
  s.add(Link::wifi, 7, 1e5);
  s.add(wifi_link(1), 7, 1e5);
  s.packet_time(Link::wifi, 2ms);
  s.packet_time(wifi_link(1), 1ms);
  s.module.set("strategy", 2);
  s.step = 3ms;
  s.run(1);
  int first = 0, second = 0;
  for (int i = 0; i < 500; ++i)
  {
    s.run(0.023);
    first += s.backup(Link::wifi) ? 0 : 1;
    second += s.backup(wifi_link(1)) ? 0 : 1;
  }
  EXPECT_EQ(first + second, 500) << "never both, never none";
  EXPECT_NEAR(first, 100, 25) << "a fifth: (1/2)^2 against 1";
}

// Section 7: above 200 ms senders time out meanwhile. What the shortest slot needs more comes out of the others.
TEST(ecn, on_offs_shortest_slots_make_the_cycle_no_longer)
{
  const LinkStates links {};
  const Subflows subflows {};
  std::array<Candidate, most_wifi> candidates {};
  std::array<std::optional<Duration>, most_wifi> times {};
  times[0] = 6ms;
  times[1] = 500us;
  times[2] = 6ms;
  for (std::size_t i = 0; i < 3; ++i)
    candidates[i] = { .usable = true, .packet_time = times[i] };
  Ranking ranking;
  ranking.update(candidates, Tick { 1h }, {});
  ASSERT_EQ(ranking.order().size(), 3u);
  const auto on_at = [&](Tick now)
  {
    Treatments wanted {};
    OnOff {}.treat({ now, links, subflows, ranking, times }, wanted);
    std::size_t on = most_wifi;
    for (std::size_t i = 0; i < 3; ++i)
      if (!wanted[at(wifi_link(i))].backup) on = i;
    return on;
  };
  std::array<int, most_wifi + 1> looks {};
  for (Tick now { 1h }; now < Tick { 1h } + 200ms; now += 1ms)
  {
    const std::size_t on = on_at(now + 500us);
    ++looks[on];
    EXPECT_EQ(on, on_at(now + 500us + 5 * 200ms)) << "the same place of every cycle";
  }
  EXPECT_EQ(looks[0], 10);
  EXPECT_EQ(looks[1], 180);
  EXPECT_EQ(looks[2], 10);
}

// Two access points are looked at again, and before anything says what a packet takes there the one that was used went.
TEST(ecn, on_off_does_without_any_access_point_that_is_known)
{
  const LinkStates links {};
  const Subflows subflows {};
  const Ranking ranking {};
  const std::array<std::optional<Duration>, most_wifi> times {};
  const View view { Tick { 1h }, links, subflows, ranking, times };
  ASSERT_TRUE(ranking.order().empty());
  Treatments wanted {};
  EXPECT_EQ(OnOff {}.treat(view, wanted), view.now + look_every) << "died of a cycle without length";
  EXPECT_EQ(wanted, Treatments {});
}

TEST(ecn, what_a_flow_had_delivered_before_is_no_goodput)
{
  Subflows subflows {};
  State state {};
  LinkStates links {};
  FlowView flow {};
  flow.link = Link::wifi;
  flow.mptcp = true;
  flow.mptcp_token = 7;
  const Event event { .kind = EventKind::link, .now = Tick { 1h }, .links = &links };
  flow.bytes_delivered = 300'000'000; // of long ago, seen now for the first time
  subflows.account(event, flow, state);
  EXPECT_EQ(subflows.delivered(), 0U);
  flow.bytes_delivered += 1000;
  subflows.account(event, flow, state);
  EXPECT_EQ(subflows.delivered(), 1000U);
}

// A connection that has used both of its links for a second.
struct OnTwoLinks : Fixture
{
  OnTwoLinks()
  {
    add(Link::wifi, 7, 1e5);
    add(wifi_link(1), 7, 1e5);
    run(1);
  }
};

TEST(ecn, a_dead_link_loses_its_endpoint_until_it_is_back)
{
  OnTwoLinks s;
  auto& wifi = s.links[static_cast<std::size_t>(Link::wifi)];
  wifi.up = false;
  s.give(*s.flows[1], EventKind::link);
  EXPECT_EQ(s.requested(RequestKind::mptcp_endpoint, Link::wifi), 0);
  EXPECT_EQ(s.requested(RequestKind::mptcp_endpoint, wifi_link(1)), 1);
  wifi.up = true;
  s.give(*s.flows[1], EventKind::link);
  EXPECT_EQ(s.requested(RequestKind::mptcp_endpoint, Link::wifi), 1);
  s.module.set("leave_dead", 0);
  wifi.up = false;
  s.give(*s.flows[1], EventKind::link);
  EXPECT_EQ(s.requested(RequestKind::mptcp_endpoint, Link::wifi), 1);
}

// Without its endpoint the kernel closes the subflows of the link. An endpoint that comes back while the link is down
// makes the kernel try a new subflow over it, in vain and once only.
TEST(ecn, a_dead_link_stays_without_its_endpoint_when_its_subflows_are_gone)
{
  OnTwoLinks s;
  auto& wifi = s.links[static_cast<std::size_t>(Link::wifi)];
  wifi.up = false;
  s.give(*s.flows[1], EventKind::link);
  ASSERT_EQ(s.requested(RequestKind::mptcp_endpoint, Link::wifi), 0);
  s.end(*s.flows[0]);
  s.run(10);
  EXPECT_EQ(s.requested(RequestKind::mptcp_endpoint, Link::wifi), 0);
  wifi.up = true;
  s.give(*s.flows[1], EventKind::link);
  EXPECT_EQ(s.requested(RequestKind::mptcp_endpoint, Link::wifi), 1);
}

// Two links went one after the other, and the first one is back: what a connection has by it may be of before, and the
// kernel's new subflow on its way. Without the endpoint of the second link too it had none left, and ended.
TEST(ecn, a_dead_link_keeps_its_endpoint_until_connections_go_on_by_another)
{
  OnTwoLinks s;
  auto& first = s.links[static_cast<std::size_t>(Link::wifi)];
  auto& second = s.links[static_cast<std::size_t>(wifi_link(1))];
  first.up = second.up = false;
  s.give(*s.flows[1], EventKind::link);
  first.up = true;
  first.changed = s.now;
  s.give(*s.flows[1], EventKind::link);
  EXPECT_EQ(s.requested(RequestKind::mptcp_endpoint, wifi_link(1)), 1) << "nothing has passed by the other one yet";
  s.run(1);
  EXPECT_EQ(s.requested(RequestKind::mptcp_endpoint, wifi_link(1)), 0);
}

// What was closed a moment ago is known for a while.
TEST(ecn, a_dead_link_keeps_its_endpoint_when_the_other_subflow_has_been_closed)
{
  for (const std::uint16_t flag : { tcp_flag::fin, tcp_flag::rst })
  {
    OnTwoLinks s;
    s.give(*s.flows[1], EventKind::segment, flag);
    s.give(*s.flows[1], EventKind::segment); // the last ACK
    s.links[static_cast<std::size_t>(Link::wifi)].up = false;
    s.give(*s.flows[0], EventKind::link);
    s.give(*s.flows[1], EventKind::link);
    EXPECT_EQ(s.requested(RequestKind::mptcp_endpoint, Link::wifi), 1) << "its last subflow would go";
  }
}

// A flow whose address goes hears of it as if its link was down, and nobody speaks in its name: what is asked for then
// is not carried out.
TEST(ecn, what_a_flow_without_its_address_asks_for_is_asked_for_again)
{
  OneAir s { 1 };
  s.run(10);
  ASSERT_TRUE(s.backup(Link::wifi));
  s.links[static_cast<std::size_t>(wifi_link(1))] = {};
  const auto carried_out = s.requests;
  s.give(*s.flows[1], EventKind::link);
  s.requests = carried_out;
  s.give(*s.flows[0], EventKind::link);
  EXPECT_FALSE(s.backup(Link::wifi)) << "the other one is gone";
}

TEST(ecn, the_last_link_keeps_its_endpoint)
{
  OnTwoLinks s;
  for (const Link link : { Link::wifi, wifi_link(1) })
    s.links[static_cast<std::size_t>(link)].up = false;
  s.give(*s.flows[1], EventKind::link);
  for (const Link link : { Link::wifi, wifi_link(1) })
    EXPECT_EQ(s.requested(RequestKind::mptcp_endpoint, link), 1);
}

TEST(ecn, says_everything_again_after_it_was_switched_off)
{
  OneAir s { 1 };
  s.run(10);
  ASSERT_TRUE(s.backup(Link::wifi));
  for (auto& one : s.flows)
    s.give(*one, EventKind::switched_off);
  s.requests.clear(); // they lapse with the module
  s.run(1);
  EXPECT_TRUE(s.backup(Link::wifi));
}

TEST(ecn, repeats_what_may_have_been_dropped)
{
  OneAir s { 1 };
  s.run(10);
  ASSERT_TRUE(s.backup(Link::wifi));
  s.requests.clear(); // after a fault, or with a link
  s.run(2.2);
  EXPECT_TRUE(s.backup(Link::wifi));
}

TEST(ecn, counts_flows_that_come_and_go)
{
  Fixture s;
  auto& first = s.add(Link::wifi, 7, 4e5, 1);
  s.add(wifi_link(1), 7, 2.8e6, 1);
  s.packet_time(Link::wifi, 3ms);
  s.packet_time(wifi_link(1), 500us);
  s.model = one_air;
  s.run(5);
  ASSERT_TRUE(s.backup(Link::wifi));
  s.end(first);
  s.run(1);
  EXPECT_FALSE(s.backup(Link::wifi)) << "no connection has a choice any more";
  s.add(Link::wifi, 7, 4e5, 1);
  s.run(5);
  EXPECT_TRUE(s.backup(Link::wifi));
}

// Whatever happens, in every strategy: somebody is left to send by, marks stay below the cap and off the best link.
TEST(ecn, never_shuts_the_last_door)
{
  for (unsigned seed = 1; seed <= 60; ++seed)
  {
    std::mt19937 random { seed };
    const auto draw = [&](unsigned n) { return static_cast<unsigned>(random() % n); };
    Fixture s;
    s.module.set("strategy", draw(3));
    s.module.set("sender", draw(3));
    s.module.set("most_used", 1 + draw(8));
    const std::size_t count = 2 + draw(7);
    for (std::size_t i = 0; i < count; ++i)
    {
      s.add(wifi_link(i), 7 + draw(2), 1e4 * (1 + draw(100)), static_cast<std::uint8_t>(draw(2)));
      s.packet_time(wifi_link(i), from_seconds(1e-4 * (1 + draw(60))));
    }
    for (int step = 0; step < 150; ++step)
    {
      const Link link = wifi_link(draw(static_cast<unsigned>(count)));
      LinkState& state = s.links[static_cast<std::size_t>(link)];
      switch (draw(6))
      {
      case 0:
        s.packet_time(link, from_seconds(1e-4 * (1 + draw(60))), draw(8) == 0 ? 5180 : 2412);
        break;
      case 1:
        if (draw(4) == 0) s.packet_time(link, std::nullopt);
        break;
      case 2:
        if (draw(3) == 0) state.up = !state.up;
        break;
      default:
        break;
      }
      s.run(0.15);
      int open = 0, up = 0;
      Duration best = Duration::max();
      for (std::size_t i = 0; i < count; ++i)
      {
        const LinkState& one = s.links[static_cast<std::size_t>(wifi_link(i))];
        up += one.up ? 1 : 0;
        open += one.up && !s.backup(wifi_link(i)) && s.requested(RequestKind::mptcp_endpoint, wifi_link(i)) > 0 ? 1 : 0;
        if (one.up && one.radio) best = std::min(best, *one.radio->packet_time);
      }
      ASSERT_TRUE(up == 0 || open > 0) << "seed " << seed << " step " << step;
    }
  }
}

TEST(ecn, every_knob_is_set_and_read)
{
  Ecn module;
  for (const Knob& knob : module.knobs())
  {
    EXPECT_GE(knob.initial, knob.minimum) << knob.name;
    EXPECT_LE(knob.initial, knob.maximum) << knob.name;
    EXPECT_FALSE(knob.help.empty()) << knob.name;
    EXPECT_EQ(module.get(knob.name), knob.initial) << knob.name;
    module.set(knob.name, knob.maximum);
    EXPECT_EQ(module.get(knob.name), knob.maximum) << knob.name;
  }
  EXPECT_LE(module.knobs().size(), 8u) << "more than anyone can turn";
  for (const RetiredKnob& gone : module.retired_knobs())
  {
    for (const Knob& knob : module.knobs())
      EXPECT_NE(gone.name, knob.name);
    EXPECT_TRUE(gone.now.starts_with("is a constant now: ")) << gone.name;
    EXPECT_FALSE(gone.refused) << "another value would not be dangerous";
  }
}

TEST(ecn, the_state_of_a_flow_is_small)
{
  EXPECT_LE(sizeof(State), 24u);
}

// The default must not be left with what another strategy had in force.
TEST(ecn, strategies_take_over_from_each_other_at_once)
{
  OneAir s { 0 };
  s.run(10);
  ASSERT_TRUE(s.backup(Link::wifi));
  ASSERT_NE(s.fact(*s.flows[0], "levels tried"), "");
  s.module.set("strategy", 1);
  s.run(0.2);
  EXPECT_FALSE(s.backup(Link::wifi)) << "published marks, and leaves nothing out";
  EXPECT_GT(s.marks(Link::wifi), 0);
  EXPECT_EQ(s.fact(*s.flows[0], "state"), "ecn: marked as published");
  EXPECT_EQ(s.fact(*s.flows[0], "levels tried"), "") << "it has no levels";
  s.module.set("strategy", 2);
  s.run(0.2);
  EXPECT_NE(s.backup(Link::wifi), s.backup(wifi_link(1)));
  EXPECT_EQ(s.marks(Link::wifi), 0);
}

TEST(ecn, a_strategy_chosen_anew_forgets_what_it_learned)
{
  FullUplink s { 1 };
  s.run(30);
  ASSERT_GT(std::stod(s.fact(*s.flows[0], "levels tried")), 0);
  s.module.set("strategy", 1);
  s.run(0.2);
  s.module.set("strategy", 0);
  s.run(0.2);
  EXPECT_EQ(std::stod(s.fact(*s.flows[0], "levels tried")), 0);
}

} // namespace
} // namespace tandem::ecn
