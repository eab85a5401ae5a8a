#include "src/chain/guard.h"
#include "src/chain/guard_fetch.h"
#include "tests/golden/harness/fixture.h"

#include <gtest/gtest.h>

#include <limits>
#include <set>
#include <vector>

namespace tandem::chain
{
namespace
{

using namespace test;

constexpr std::uint64_t no_limit = std::numeric_limits<std::uint64_t>::max();

// A flow in the middle of a download with an ACK at hand. Every case below breaks one invariant by the smallest step,
// next to the nearest plan that breaks none.
struct Guard : ::testing::Test
{
  Guard()
  {
    flow.key = peers.key;
    flow.link = Link::wifi;
    flow.timestamps_ok = flow.sack_ok = true;
    flow.local_window_scale = flow.remote_window_scale = 7;
    flow.rcv_nxt = { 50'000 };
    flow.snd_nxt = { 7000 };
    flow.last_window = 500;
    flow.last_ts_value = { 10'500 };
    flow.ts_recent = { 900'400 };
    flow.sent_ack = { 48'000 };
    flow.sent_window = flow.told_window = 500;
    flow.sent_ts_value = { 10'490 };
    flow.sent_any = true;

    segment = peers.bare(Direction::egress, tcp_flag::ack, now);
    segment.seq = flow.snd_nxt;
    segment.ack = flow.rcv_nxt;
    segment.window = flow.last_window;
    segment.timestamps = Timestamps { flow.last_ts_value, flow.ts_recent };

    good.seq = flow.snd_nxt;
    good.ack = flow.rcv_nxt;
    good.window = flow.last_window;
    good.timestamps = segment.timestamps;
  }

  Event event(bool queued = true) const
  {
    return { .kind = EventKind::segment, .now = now, .segment = &segment, .queued = queued, .links = &links };
  }
  Violation edits(Edit edit) const { return check({ .edit = edit }, event(), flow, no_limit); }
  Violation drops() const { return check({ .verdict = Verdict::drop }, event(), flow, no_limit); }
  Violation injected_segments(const InjectedSegment& injected, std::uint64_t budget = no_limit) const
  {
    return check({ .inject = std::span { &injected, 1 } }, event(), flow, budget);
  }
  template <class Change>
  Violation injected_with(Change change) const
  {
    InjectedSegment injected = good;
    change(injected);
    return injected_segments(injected);
  }

  Peers peers {};
  FlowView flow {};
  Segment segment {};
  InjectedSegment good {};
  LinkStates links = both_links();
  Tick now = at_ms(500);
};

TEST_F(Guard, NothingAskedNothingBroken)
{
  EXPECT_EQ(check({}, event(), flow, 0), Violation::none);
}

TEST_F(Guard, AckBeyondReceived)
{
  EXPECT_EQ(edits({ .ack = flow.rcv_nxt + 1 }), Violation::ack_beyond_received);
  EXPECT_EQ(edits({ .ack = flow.rcv_nxt }), Violation::none);
  EXPECT_EQ(edits({ .ack = flow.rcv_nxt - 20'000u }), Violation::none);
  EXPECT_EQ(injected_with([&](InjectedSegment& c) { c.ack = flow.rcv_nxt + 1; }), Violation::ack_beyond_received);
  EXPECT_EQ(injected_segments(good), Violation::none);
}

TEST_F(Guard, AckBeyondReceivedAcrossTheWrap)
{
  flow.rcv_nxt = { 5 };
  EXPECT_EQ(edits({ .ack = Seq { 6 } }), Violation::ack_beyond_received);
  EXPECT_EQ(edits({ .ack = Seq { 0xffff'fff0u } }), Violation::none);
}

TEST_F(Guard, AcksOfTheServerOnlyDownwards)
{
  // An arriving segment acknowledges this host's bytes: another sequence space than rcv_nxt.
  segment.direction = Direction::ingress;
  segment.ack = { 6800 };
  EXPECT_EQ(edits({ .ack = Seq { 6801 } }), Violation::ack_beyond_received);
  EXPECT_EQ(edits({ .ack = Seq { 6800 } }), Violation::none);
  segment.ack = { 90'000 };
  EXPECT_EQ(edits({ .ack = Seq { 60'000 } }), Violation::none);
}

TEST_F(Guard, WindowRaised)
{
  EXPECT_EQ(edits({ .window = std::uint16_t { 501 } }), Violation::window_raised);
  EXPECT_EQ(edits({ .window = std::uint16_t { 500 } }), Violation::none);
  EXPECT_EQ(edits({ .window = std::uint16_t { 0 } }), Violation::none);
  EXPECT_EQ(injected_with([](InjectedSegment& c) { c.window = 501; }), Violation::window_raised);
}

TEST_F(Guard, WindowScaleUnknown)
{
  flow.bypass = Bypass::mid_flow;
  EXPECT_EQ(edits({ .window = std::uint16_t { 10 } }), Violation::window_unscaled);
  EXPECT_EQ(edits({ .route = Link::cell }), Violation::none);
}

TEST_F(Guard, TsvalRaised)
{
  EXPECT_EQ(edits({ .ts_value = flow.last_ts_value + 1 }), Violation::ts_value_raised);
  EXPECT_EQ(edits({ .ts_value = flow.last_ts_value }), Violation::none);
  EXPECT_EQ(injected_with([](InjectedSegment& c) { c.timestamps->value = c.timestamps->value + 1; }),
            Violation::ts_value_raised);
}

TEST_F(Guard, TsvalStale)
{
  EXPECT_EQ(edits({ .ts_value = flow.sent_ts_value - 2 }), Violation::ts_value_stale);
  EXPECT_EQ(edits({ .ts_value = flow.sent_ts_value - 1 }), Violation::none) << "TCP_PAWS_WINDOW is one tick";
  EXPECT_EQ(injected_with([&](InjectedSegment& c) { c.timestamps->value = flow.sent_ts_value - 2; }),
            Violation::ts_value_stale);
  EXPECT_EQ(injected_with([&](InjectedSegment& c) { c.timestamps->value = flow.sent_ts_value - 1; }), Violation::none);
}

TEST_F(Guard, TsvalOfTheServerIsNotMeasuredByOurs)
{
  segment.direction = Direction::ingress;
  segment.timestamps = Timestamps { { 77 }, { 10'480 } };
  EXPECT_EQ(edits({ .ts_value = TsClock { 76 } }), Violation::none);
  EXPECT_EQ(edits({ .ts_value = TsClock { 78 } }), Violation::ts_value_raised);
}

TEST_F(Guard, TsecrRaised)
{
  EXPECT_EQ(edits({ .ts_echo = flow.ts_recent + 1 }), Violation::ts_echo_raised);
  EXPECT_EQ(edits({ .ts_echo = flow.ts_recent - 100u }), Violation::none);
  EXPECT_EQ(injected_with([](InjectedSegment& c) { c.timestamps->echo = c.timestamps->echo + 1; }),
            Violation::ts_echo_raised);
}

TEST_F(Guard, NoTimestamps)
{
  EXPECT_EQ(injected_with([](InjectedSegment& c) { c.timestamps = std::nullopt; }), Violation::no_timestamps)
      << "RFC 7323: once agreed, on every segment";
  flow.timestamps_ok = false;
  EXPECT_EQ(injected_with([](InjectedSegment& c) { c.timestamps = std::nullopt; }), Violation::none);
  EXPECT_EQ(injected_segments(good), Violation::no_timestamps) << "never agreed";
  segment.timestamps = std::nullopt;
  EXPECT_EQ(edits({ .ts_value = flow.last_ts_value }), Violation::no_timestamps);
  EXPECT_EQ(edits({ .ts_echo = flow.ts_recent }), Violation::no_timestamps);
}

TEST_F(Guard, DropForbidden)
{
  EXPECT_EQ(drops(), Violation::none);
  Segment plain = segment;
  segment.sack_count = 1;
  segment.sack_blocks[0] = { segment.ack + 1448u, segment.ack + 2896u };
  flow.sent_sacked = segment.ack + 2895u;
  EXPECT_EQ(drops(), Violation::drop_forbidden) << "SACK";
  flow.sent_sacked = segment.ack + 2896u;
  EXPECT_EQ(drops(), Violation::none) << "it was reported before";
  segment = plain;
  segment.flags |= tcp_flag::ece;
  EXPECT_EQ(drops(), Violation::drop_forbidden) << "ECE";
  segment = plain;
  segment.flags |= tcp_flag::fin;
  EXPECT_EQ(drops(), Violation::drop_forbidden) << "FIN";
  segment = plain;
  segment.flags |= tcp_flag::rst;
  EXPECT_EQ(drops(), Violation::drop_forbidden) << "RST";
  segment = plain;
  segment.window = 499;
  EXPECT_EQ(drops(), Violation::drop_forbidden) << "window change";
  segment = plain;
  segment.ack = flow.sent_ack;
  EXPECT_EQ(drops(), Violation::drop_forbidden) << "duplicate";
  segment = plain;
  segment.direction = Direction::ingress;
  EXPECT_EQ(drops(), Violation::drop_forbidden) << "arriving";
}

TEST_F(Guard, EcnForbidden)
{
  EXPECT_EQ(edits({ .ecn = Ecn::ce }), Violation::ecn_forbidden);
  segment.ecn = Ecn::ect0;
  EXPECT_EQ(edits({ .ecn = Ecn::ce }), Violation::none);
}

TEST_F(Guard, InjectedSequence)
{
  EXPECT_EQ(injected_with([&](InjectedSegment& c) { c.seq = flow.snd_nxt + 1; }), Violation::injected_sequence);
  EXPECT_EQ(injected_with([&](InjectedSegment& c) { c.seq = flow.snd_nxt - 1u; }), Violation::none)
      << "as a keep-alive";
  EXPECT_EQ(injected_with([&](InjectedSegment& c) { c.seq = flow.snd_nxt - 2u; }), Violation::injected_sequence);

  InjectedSegment icmp { .kind = InjectedKind::host_unreachable, .seq = flow.rcv_nxt };
  EXPECT_EQ(injected_segments(icmp), Violation::none);
  icmp.seq = icmp.seq + 1;
  EXPECT_EQ(injected_segments(icmp), Violation::injected_sequence);
  for (const InjectedKind own : { InjectedKind::own_unreachable, InjectedKind::own_syn })
    EXPECT_EQ(injected_segments({ .kind = own, .seq = flow.snd_nxt }), Violation::injected_sequence)
        << "the chain's own, no module's";
}

TEST_F(Guard, InjectedFlags)
{
  for (const std::uint16_t flag :
       { tcp_flag::fin, tcp_flag::syn, tcp_flag::rst, tcp_flag::urg, tcp_flag::cwr, tcp_flag::ae })
    EXPECT_EQ(injected_with([&](InjectedSegment& c) { c.flags = c.flags | flag; }), Violation::injected_flags) << flag;
  EXPECT_EQ(injected_with([](InjectedSegment& c) { c.flags = 0; }), Violation::injected_flags);
  EXPECT_EQ(injected_with([](InjectedSegment& c) { c.flags |= tcp_flag::ece | tcp_flag::psh; }), Violation::none);
}

// With AccECN three flags are a counter: either left to the chain, or what the local TCP sent last.
TEST_F(Guard, InjectedCounterOfAccurateEcn)
{
  flow.acc_ecn = true;
  for (unsigned said = 0; said < 8; ++said)
    for (unsigned injected = 0; injected < 8; ++injected)
    {
      flow.ace = static_cast<std::uint16_t>(said << 6);
      const Violation expected = injected == 0 || injected == said ? Violation::none : Violation::injected_flags;
      EXPECT_EQ(
          injected_with([&](InjectedSegment& c) { c.flags = static_cast<std::uint16_t>(c.flags | injected << 6); }),
          expected)
          << said << " " << injected;
    }
  EXPECT_EQ(injected_with([](InjectedSegment& c) { c.flags |= tcp_flag::psh; }), Violation::none);
  EXPECT_EQ(injected_with([](InjectedSegment& c) { c.flags |= tcp_flag::fin; }), Violation::injected_flags);
}

TEST_F(Guard, InjectedSack)
{
  good.sack_blocks.fill({ flow.rcv_nxt - 1460u, flow.rcv_nxt });
  EXPECT_EQ(injected_with([](InjectedSegment& c) { c.sack_count = 5; }), Violation::injected_sack)
      << "there is room for four";
  EXPECT_EQ(injected_with([](InjectedSegment& c) { c.sack_count = 4; }), Violation::none);
  flow.sack_ok = false;
  EXPECT_EQ(injected_with([](InjectedSegment& c) { c.sack_count = 1; }), Violation::injected_sack) << "never agreed";
  EXPECT_EQ(injected_segments(good), Violation::none);
}

TEST_F(Guard, InjectedSackReportsWhatIsHeld)
{
  const auto with = [&](Seq left, Seq right)
  {
    return injected_with(
        [&](InjectedSegment& c)
        {
          c.sack_blocks[1] = { left, right };
          c.sack_blocks[0] = { flow.rcv_nxt - 2u, flow.rcv_nxt - 1u };
          c.sack_count = 2;
        });
  };
  const Seq ack = flow.rcv_nxt;
  flow.highest_held = ack + 1461;
  EXPECT_EQ(with(ack - 1460u, ack), Violation::none);
  EXPECT_EQ(with(ack - 1460u, ack + 1), Violation::injected_sack) << "a byte that was not acknowledged";
  EXPECT_EQ(with(ack, ack + 1461), Violation::injected_sack) << "the byte that is waited for";
  EXPECT_EQ(with(ack + 1, ack + 1461), Violation::none) << "beyond a hole, as the local TCP has reported";
  EXPECT_EQ(with(ack + 1, ack + 1462), Violation::injected_sack) << "what it has not reported";
  EXPECT_EQ(with(ack - 1460u, ack - 1460u), Violation::injected_sack) << "nothing";
  EXPECT_EQ(with(ack, ack - 1460u), Violation::injected_sack) << "the wrong way round";
  flow.rcv_nxt = flow.highest_held = good.ack = Seq { 700 }; // across the wrap
  EXPECT_EQ(with(Seq { 700 } - 1460u, Seq { 700 }), Violation::none);
  EXPECT_EQ(with(Seq { 700 } - 1460u, Seq { 701 }), Violation::injected_sack);
}

TEST_F(Guard, TooManyInjected)
{
  const std::vector<InjectedSegment> many(max_injected + 1, good);
  EXPECT_EQ(check({ .inject = many }, event(), flow, no_limit), Violation::too_many_injected);
  EXPECT_EQ(check({ .inject = std::span { many }.first(max_injected) }, event(), flow, no_limit), Violation::none);
}

TEST_F(Guard, Authenticated)
{
  segment.options |= option::md5;
  EXPECT_EQ(edits({ .ts_value = flow.last_ts_value - 1 }), Violation::authenticated);
  EXPECT_EQ(edits({ .route = Link::cell }), Violation::none) << "no byte changes";
  segment.options = option::timestamps | option::ao;
  EXPECT_EQ(edits({ .window = std::uint16_t { 1 } }), Violation::authenticated);
}

TEST_F(Guard, RouteUnusable)
{
  EXPECT_EQ(edits({ .route = Link::cell }), Violation::none);
  EXPECT_EQ(edits({ .route = Link::other }), Violation::route_unusable);
  EXPECT_EQ(edits({ .route = static_cast<Link>(9) }), Violation::route_unusable) << "no such link";
  EXPECT_EQ(injected_with([](InjectedSegment& c) { c.by = static_cast<Link>(9); }), Violation::route_unusable);
  LinkState& cell = links[static_cast<std::size_t>(Link::cell)];
  cell.route = false;
  EXPECT_EQ(edits({ .route = Link::cell }), Violation::route_unusable);
  EXPECT_EQ(injected_with([](InjectedSegment& c) { c.by = Link::cell; }), Violation::route_unusable);
  flow.key.local.v6 = true;
  EXPECT_EQ(edits({ .route = Link::cell }), Violation::none) << "IPv6 has a route of its own";
  cell.up = false;
  EXPECT_EQ(edits({ .route = Link::cell }), Violation::route_unusable);
  EXPECT_EQ(edits({ .route = Link::wifi }), Violation::none) << "the home link is never asked";
  cell.up = cell.route = cell.route_v6 = true;
  ASSERT_EQ(edits({ .route = Link::cell }), Violation::none);
  segment.direction = Direction::ingress;
  EXPECT_EQ(edits({ .route = Link::cell }), Violation::route_unusable) << "what arrives is sent nowhere";
}

TEST_F(Guard, Budget)
{
  InjectedSegment by_cell = good;
  by_cell.by = Link::cell;
  EXPECT_EQ(injected_segments(by_cell, 119), Violation::budget);
  EXPECT_EQ(injected_segments(by_cell, 120), Violation::none);
  EXPECT_EQ(injected_segments(good, 0), Violation::none) << "Wi-Fi costs nothing";
  const Plan route { .edit = { .route = Link::cell } };
  EXPECT_EQ(check(route, event(), flow, segment.bytes.size() - 1), Violation::budget);
  EXPECT_EQ(check(route, event(), flow, segment.bytes.size()), Violation::none);
}

TEST_F(Guard, BudgetCountsTheWholeSegmentThatIsRouted)
{
  const std::vector<std::byte> large(64'000);
  segment.bytes = large;
  segment.payload_length = 63'900;
  EXPECT_EQ(check({ .edit = { .route = Link::cell } }, event(), flow, 63'999), Violation::budget);
  EXPECT_EQ(check({ .edit = { .route = Link::cell } }, event(), flow, 64'000), Violation::none);
}

TEST_F(Guard, VerdictAndEditOfACopyAreIgnored)
{
  const Plan plan { .verdict = Verdict::drop, .edit = { .ack = flow.rcv_nxt + 1000 } };
  segment.sack_count = 1;
  EXPECT_EQ(check(plan, event(false), flow, no_limit), Violation::none);
}

// A download with a hole of 3,000 bytes, 20,000 behind it held.
struct GuardOfHoles : Guard
{
  GuardOfHoles()
  {
    flow.content = Content::http;
    flow.highest_held = flow.rcv_nxt + 23'000;
    good = { .kind = InjectedKind::fill,
             .by = Link::wifi,
             .seq = flow.rcv_nxt,
             .timestamps = Timestamps { flow.ts_recent, {} },
             .length = 3000 };
    hole = { .from = flow.rcv_nxt, .to = flow.rcv_nxt + 3000, .deadline = now + ms(100) };
  }
  Violation fetches(const Fetch& fetch, std::uint64_t budget = no_limit) const
  {
    return check({ .fetch = std::span { &fetch, 1 } }, event(), flow, budget);
  }
  Fetch hole {};
};

TEST_F(GuardOfHoles, AFillClosesWhatIsMissing)
{
  EXPECT_EQ(injected_segments(good, 0), Violation::none) << "it stays on this host: no budget is needed";
  EXPECT_EQ(injected_with([](InjectedSegment& c) { c.seq = c.seq - 1; }), Violation::fetch_range)
      << "the first byte is held";
  EXPECT_EQ(injected_with([](InjectedSegment& c) { c.length = 23'000; }), Violation::none);
  EXPECT_EQ(injected_with([](InjectedSegment& c) { c.length = 23'001; }), Violation::fetch_range)
      << "nothing behind it is held";
  EXPECT_EQ(injected_with([](InjectedSegment& c) { c.length = 0; }), Violation::fetch_range);
  EXPECT_EQ(injected_with([](InjectedSegment& c) { c.by = Link::cell; }), Violation::route_unusable);
  flow.highest_held = flow.rcv_nxt + 2 * longest_fill;
  EXPECT_EQ(injected_with([](InjectedSegment& c) { c.length = longest_fill; }), Violation::none);
  EXPECT_EQ(injected_with([](InjectedSegment& c) { c.length = longest_fill + 1; }), Violation::fetch_range);
}

TEST_F(GuardOfHoles, AFillLooksAsOldAsTheLastThatArrivedInOrder)
{
  const auto value = [&](int ticks)
  {
    return injected_with([&](InjectedSegment& c)
                         { c.timestamps->value = flow.ts_recent + static_cast<std::uint32_t>(ticks); });
  };
  EXPECT_EQ(value(0), Violation::none);
  EXPECT_EQ(value(1), Violation::ts_value_raised) << "its ACK would echo what the server never sent";
  EXPECT_EQ(value(-1), Violation::none);
  EXPECT_EQ(value(-2), Violation::ts_value_stale) << "PAWS";
  EXPECT_EQ(injected_with([&](InjectedSegment& c) { c.timestamps->echo = flow.sent_ts_value; }), Violation::none);
  EXPECT_EQ(injected_with([&](InjectedSegment& c) { c.timestamps->echo = flow.sent_ts_value + 1; }),
            Violation::ts_echo_raised);
  EXPECT_EQ(injected_with([](InjectedSegment& c) { c.timestamps.reset(); }), Violation::no_timestamps);
  flow.timestamps_ok = false;
  EXPECT_EQ(injected_segments(good), Violation::no_timestamps);
  EXPECT_EQ(injected_with([](InjectedSegment& c) { c.timestamps.reset(); }), Violation::none);
}

TEST_F(GuardOfHoles, NeitherIsForSubflowsOrUnknownContent)
{
  EXPECT_EQ(fetches(hole), Violation::none);
  for (const Content content : { Content::unknown, Content::refused })
  {
    flow.content = content;
    EXPECT_EQ(injected_segments(good), Violation::content_unknown);
    EXPECT_EQ(fetches(hole), Violation::content_unknown);
  }
  flow.content = Content::http;
  flow.mptcp = true;
  EXPECT_EQ(injected_segments(good), Violation::fetch_mptcp);
  EXPECT_EQ(fetches(hole), Violation::fetch_mptcp);
}

TEST_F(GuardOfHoles, AFetchIsOfAHoleByALinkThatIsUpWithinTheBudget)
{
  EXPECT_EQ(fetches({ .from = hole.from - 1, .to = hole.to }), Violation::fetch_range);
  EXPECT_EQ(fetches({ .from = hole.from, .to = hole.from }), Violation::fetch_range);
  EXPECT_EQ(fetches({ .from = hole.to, .to = hole.from }), Violation::fetch_range);
  EXPECT_EQ(fetches({ .from = hole.from, .to = flow.highest_held + 1 }), Violation::fetch_range);
  EXPECT_EQ(fetches(hole, 3000 + fetch_overhead), Violation::none);
  EXPECT_EQ(fetches(hole, 2999 + fetch_overhead), Violation::budget);
  const std::vector<Fetch> many(max_fetches + 1, hole);
  EXPECT_EQ(check({ .fetch = many }, event(), flow, no_limit), Violation::too_many_fetches);
  EXPECT_EQ(check({ .fetch = std::span { many }.first(max_fetches) }, event(), flow, no_limit), Violation::none);
  links[static_cast<std::size_t>(Link::cell)].up = false;
  EXPECT_EQ(fetches(hole), Violation::route_unusable);
}

TEST(Violations, OnlyLateOnesAreRefusals)
{
  std::set<std::string_view> names {};
  for (std::size_t v = 0; v < violation_count; ++v)
  {
    const auto violation = static_cast<Violation>(v);
    EXPECT_NE(name(violation), "?") << v;
    names.insert(name(violation));
    EXPECT_EQ(is_refusal(violation), violation == Violation::route_unusable || violation == Violation::budget
                                         || violation == Violation::content_unknown);
  }
  EXPECT_EQ(names.size(), violation_count) << "every violation has a name of its own";
  EXPECT_EQ(name(static_cast<Violation>(violation_count)), "?");
}

} // namespace
} // namespace tandem::chain
