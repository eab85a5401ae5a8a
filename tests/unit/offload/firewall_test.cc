// ACKs by cellular beside a firewall on the way of the data, which keeps the state of connections as Linux does
// (tcp_in_window() of nf_conntrack_proto_tcp.c): what lies beyond the ACKs that it has seen does not pass.
#include "src/chain/own_way.h"
#include "tests/unit/offload/session.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

namespace tandem::offload::test
{
namespace
{

constexpr std::string_view away = "offload: path validated";

// Lets the server have no more in flight than `window`, as a module that keeps a queue short does.
class Cap final : public Module
{
public:
  std::string_view name() const override { return "cap"; }
  std::string_view summary() const override { return ""; }
  std::string_view manual() const override { return ""; }
  Interest interest() const override { return { .decide = traffic::egress_pure_ack }; }
  std::span<const Knob> knobs() const override { return {}; }
  void set(std::string_view, double) override {}
  double get(std::string_view) const override { return 0; }
  std::size_t flow_state_size() const override { return 1; }
  void flow_begin(std::byte*, const FlowView&) override {}
  void flow_end(std::byte*) noexcept override {}
  void describe(const FlowView&, const std::byte*, Facts&) const override {}
  Plan decide(const Event& event, const FlowView& flow, std::byte*) override
  {
    if (event.kind != EventKind::segment || event.segment->direction != Direction::egress) return {};
    const auto most = static_cast<std::uint16_t>(std::max(1u, bytes >> flow.local_window_scale));
    if (bytes == 0 || event.segment->window <= most) return {};
    return { .edit = { .window = most, .window_waits = true } };
  }

  std::uint32_t bytes = 0; // 0: all
};

struct Behind
{
  // 500 << 8 = 128 kB; about 35 kB are in flight: 2896 bytes each ms, 12 ms.
  static Peers narrow(std::uint8_t scale)
  {
    Peers peers {};
    peers.local_scale = scale;
    return peers;
  }
  explicit Behind(std::uint8_t scale) : Behind { narrow(scale), Session::unlimited() } {}
  Behind(Peers peers, chain::Chain::Options options) : s { peers, std::move(options), { &cap } } {}

  // One segment's time. Each `lost`th ACK that is meant for firewalls is lost on the air.
  void step()
  {
    s.step();
    const Seq end = s.peers.remote_isn + s.peers.received;
    for (; looked < s.left.size(); ++looked)
    {
      const Left& one = s.left[looked];
      if (one.for_firewalls())
      {
        seen_by_server += one.ack.before(s.server.acknowledged) ? 0 : 1;
        odd += one.value.raw & 1;
        young += one.value.after(s.echo) ? 1 : 0;
        if (lost > 0 && ++told % lost == 0) continue;
      }
      if (one.by == Link::wifi) edge = edge && edge->after(one.edge) ? *edge : one.edge;
      by_cell += one.by == Link::cell ? 1 : 0;
    }
    // The server may have sent so much more by the time that the firewall sees the ACKs of now.
    if (edge && (end + in_flight).after(*edge)) ++beyond;
  }
  void steps(int count)
  {
    for (int i = 0; i < count; ++i)
      step();
  }

  Cap cap {};
  Session s;
  std::optional<Seq> edge {};
  std::size_t looked = 0;
  unsigned lost = 0, told = 0;
  std::uint32_t in_flight = 35'000;
  unsigned beyond = 0, by_cell = 0, seen_by_server = 0, odd = 0, young = 0;
};

TEST(BehindAFirewall, WhatIsInFlightIsWithinWhatItHasSeen)
{
  for (const std::uint8_t scale : { 8, 9, 12 })
  {
    Behind b { scale };
    b.steps(3000);
    EXPECT_GT(b.by_cell, 2000u) << int { scale };
    EXPECT_EQ(b.beyond, 0u) << int { scale };
    const std::uint64_t told = b.s.fixture.chain.stats().own_way_told;
    EXPECT_GT(told, 1u) << int { scale };
    EXPECT_LT(told, scale == 8 ? 700u : 300u) << int { scale } << ": they take air";
    EXPECT_EQ(b.seen_by_server, 0u) << "numbers that the server has";
    EXPECT_EQ(b.odd, 0u) << "odd ones tell of the cellular path";
    EXPECT_EQ(b.young, 0u) << "the server would refuse what is on its way by cellular";
    EXPECT_EQ(b.s.server.rejected, 0u);
  }
}

// Some compare timestamps as well (pf with `scrub reassemble tcp`): no data passes that echoes a TSval younger than the
// youngest that they have seen.
TEST(BehindAFirewall, OneThatKeepsTheEchoOfACopyHearsOfItsTsvalWhenTheProbeIsOver)
{
  Session s {};
  ASSERT_TRUE(s.until("offload: probe by cellular"));
  s.wait(ms(12)); // the server has the copy
  TsClock seen {};
  const auto look = [&]
  {
    for (const Left& one : s.left)
      if (one.by == Link::wifi) seen = one.value.after(seen) || seen == TsClock {} ? one.value : seen;
  };
  look();
  ASSERT_TRUE(s.server.echo(s.fixture.now()).after(seen)) << "nothing of the server passes any more";
  s.wait(ms(20 + 100 + 1));
  look();
  EXPECT_FALSE(s.server.echo(s.fixture.now()).after(seen)) << "before the server's RTO";
  EXPECT_EQ(s.phase(), Phase::by_wifi);
  EXPECT_EQ(s.left.back().ack, s.acked);
}

TEST(BehindAFirewall, SomeOfThemMayBeLost)
{
  for (const unsigned lost : { 2u, 3u })
  {
    Behind b { 9 };
    b.lost = lost;
    b.steps(3000);
    EXPECT_GT(b.by_cell, 2000u) << lost;
    EXPECT_EQ(b.beyond, 0u) << lost;
  }
}

TEST(BehindAFirewall, OfAKnownSenderAFewAreEnough)
{
  Behind b { 8 };
  ASSERT_TRUE(b.s.until(away));
  b.s.fixture.flow(b.s.peers).view.sender.kind = SenderKind::loss_based;
  b.steps(3000);
  EXPECT_GT(b.by_cell, 2000u);
  EXPECT_EQ(b.beyond, 0u);
  EXPECT_LT(b.s.fixture.chain.stats().own_way_told, 20u);
}

// Linux takes one that is more than the largest window behind the data for a packet of another time
// (nf_conntrack_proto_tcp.c: MAXACKWINDOW), and while a path is probed TSvals stand still.
TEST(BehindAFirewall, NoNumberIsMuchOlderThanARoundTrip)
{
  Behind b { 12 };
  ASSERT_TRUE(b.s.until("offload: probe begins"));
  b.s.fixture.flow(b.s.peers).view.sender.kind = SenderKind::loss_based;
  b.s.cell().delivers = false; // the first copies are lost
  b.steps(20);
  b.s.cell().delivers = true;
  ASSERT_TRUE(b.s.until(away, 200));
  b.steps(500);
  EXPECT_GT(b.s.fixture.chain.stats().own_way_told, 1u);
  EXPECT_EQ(b.seen_by_server, 0u);
  std::uint32_t most = 0;
  for (const Left& one : b.s.left)
    if (one.for_firewalls()) most = std::max(most, one.lacks);
  EXPECT_LT(most, 3 * b.in_flight);
}

// While a hole stands no number grows, and what was said is not said with every echo.
TEST(BehindAFirewall, WhatWasToldTwiceIsSure)
{
  const FlowView flow { .window_estimate = 100'000 };
  constexpr std::uint32_t window = 8'000'000;
  chain::OwnWay way { Seq { 200'000 } };
  const Seq edge { window };
  for (int i = 0; i < 2; ++i)
  {
    EXPECT_TRUE(way.due(edge, window, flow)) << i << ": one may be lost";
    way.opened(edge);
  }
  EXPECT_FALSE(way.due(edge, window, flow));
  EXPECT_TRUE(way.due(edge + window, window, flow));
}

TEST(BehindAFirewall, AWindowThatIsKeptSmallIsNoneOfItsBusiness)
{
  Behind b { 9 };
  ASSERT_TRUE(b.s.until(away));
  b.cap.bytes = 38'000;
  b.steps(3000);
  EXPECT_GT(b.by_cell, 2000u);
  EXPECT_EQ(b.beyond, 0u);
  EXPECT_EQ(b.seen_by_server, 0u);
}

TEST(BehindAFirewall, AShortWindowIsToldByTheAcksThemselves)
{
  Behind b { 6 }; // 32 kB: less than is in flight elsewhere
  b.in_flight = 0;
  b.steps(3000);
  EXPECT_EQ(b.by_cell, 0u);
  EXPECT_EQ(b.beyond, 0u);
  EXPECT_EQ(b.s.fixture.chain.stats().own_way_told, 0u);
  EXPECT_GT(b.s.fixture.count("offload: short receive window"), 0u);
}

// Of a path known from another flow the chain hears before anything of the flow has left through the queue.
TEST(BehindAFirewall, OfAKnownPathItIsToldWhateverTheNumbersBeginWith)
{
  for (const std::uint32_t isn : { 500'000u, 2'500'000'000u, 0u - 100'000u })
  {
    Peers peers {};
    peers.local_scale = std::uint8_t { 9 };
    peers.remote_isn = Seq { isn };
    chain::Chain::Options options = Session::unlimited();
    options.rest = [](const FlowView&) { return chain::Rest { .cell_path_known = Duration {} }; };
    Behind b { peers, options };
    b.steps(3000);
    EXPECT_GT(b.by_cell, 2000u) << isn;
    EXPECT_EQ(b.beyond, 0u) << isn;
    EXPECT_GT(b.s.fixture.chain.stats().own_way_told, 1u) << isn;
    EXPECT_EQ(b.seen_by_server, 0u) << isn;
  }
}

// What was known before is more than half the sequence space old, and looks younger than what comes now.
TEST(BehindAFirewall, WhatPassedBesideTheQueueIsForgotten)
{
  for (const std::uint32_t unseen : { 1u << 30, 3u << 30 })
  {
    Behind b { 9 };
    b.steps(1500);
    ASSERT_GT(b.by_cell, 500u);
    b.s.cell().delivers = false;
    b.steps(500);
    ASSERT_EQ(b.s.phase(), Phase::by_wifi);
    b.s.fixture.chain.queue_bypassed();
    b.s.peers.received += unseen;
    b.s.server.acknowledged = b.s.peers.remote_isn + b.s.peers.received;
    b.s.fixture.chain.queue_resumed();
    b.edge.reset();
    b.s.cell().delivers = true;
    const std::uint64_t told = b.s.fixture.chain.stats().own_way_told;
    ASSERT_TRUE(b.s.until(away, 20'000)) << unseen;
    b.by_cell = b.beyond = 0;
    b.steps(3000);
    EXPECT_GT(b.by_cell, 1000u) << unseen;
    EXPECT_EQ(b.beyond, 0u) << unseen;
    EXPECT_GT(b.s.fixture.chain.stats().own_way_told, told + 1) << unseen;
    EXPECT_EQ(b.seen_by_server, 0u) << unseen;
  }
}

// A copy of a segment may be damaged: nobody has verified its checksum. The server would refuse all that has a TSval
// before one that it was sent in good faith (PAWS).
TEST(BehindAFirewall, AnEchoOfWhatNeverLeftTellsNothing)
{
  Behind b { 9 };
  b.steps(1500);
  ASSERT_GT(b.by_cell, 500u);
  for (int i = 0; i < 100; ++i)
  {
    b.steps(7);
    b.s.wait(ms(1));
    b.s.fixture.data(b.s.peers, 2896, b.s.fixture.view(b.s.peers).sent_ts_value + 100'000);
    b.s.note_injected();
    b.s.ack();
  }
  EXPECT_GT(b.s.fixture.chain.stats().own_way_told, 1u);
  const Seq forged = Seq { b.s.fixture.view(b.s.peers).sent_ts_value.raw };
  EXPECT_EQ(std::count_if(b.s.left.begin(), b.s.left.end(),
                          [forged](const Left& one) { return Seq { one.value.raw }.after(forged); }),
            0);
  EXPECT_EQ(b.seen_by_server, 0u);
}

// As Linux opens it: a round trip later there is room.
TEST(BehindAFirewall, AYoungFlowsWindowIsLookedAtAgainSoon)
{
  Peers peers {};
  peers.local_scale = std::uint8_t { 8 };
  peers.window = 250; // 64 kB: enough but in slow start
  Behind b { peers, Session::unlimited() };
  b.s.fixture.flow(b.s.peers).view.cell_path_known = Duration {};
  for (int i = 0; i < 250; ++i)
  {
    b.s.every = std::max(Duration { ms(1) }, Duration { ms(3) } - i * Duration { std::chrono::microseconds { 10 } });
    b.step();
  }
  ASSERT_EQ(b.by_cell, 0u);
  ASSERT_GT(b.s.fixture.count("offload: short receive window"), 0u);
  b.s.peers.window = 1000;
  b.steps(60);
  EXPECT_GT(b.by_cell, 0u);
}

TEST(BehindAFirewall, NothingIsSaidOnceAcksLeaveByWiFiAgain)
{
  Behind b { 9 };
  b.steps(2000);
  ASSERT_GT(b.by_cell, 1000u);
  b.cap.bytes = 38'000;
  b.s.module.set("retry_first", 600);
  b.s.cell().delivers = false;
  b.steps(500);
  ASSERT_EQ(b.s.phase(), Phase::by_wifi);
  const std::uint64_t told = b.s.fixture.chain.stats().own_way_told;
  b.steps(2000);
  EXPECT_EQ(b.s.fixture.chain.stats().own_way_told, told);
}

TEST(BehindAFirewall, MoreWindowIsAskedOfAYoungSenderBeforeItsAcksLeave)
{
  FlowView flow {};
  flow.window_estimate = 100'000;
  flow.local_window_scale = 7;
  flow.last_window = 2000; // 256 kB
  flow.slow_start = true;
  EXPECT_TRUE(firewalls_fall_behind(flow, false)) << "it will soon have twice as much in flight";
  EXPECT_FALSE(firewalls_fall_behind(flow, true)) << "what has begun goes on";
  flow.slow_start = false;
  EXPECT_FALSE(firewalls_fall_behind(flow, false));
  flow.last_window = 1000;
  EXPECT_TRUE(firewalls_fall_behind(flow, true));
}

} // namespace
} // namespace tandem::offload::test
