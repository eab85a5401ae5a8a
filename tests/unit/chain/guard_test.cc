#include "src/chain/guard.h"
#include "src/chain/guard_fetch.h"
#include "tests/golden/harness/stand.h"

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
    flow.highest_ack = { 50'000 };
    flow.next_seq = { 7000 };
    flow.last_window = 500;
    flow.last_ts_value = { 10'500 };
    flow.last_ts_echo = { 900'400 };
    flow.sent_ack = { 48'000 };
    flow.sent_window = 500;
    flow.sent_ts_value = { 10'490 };
    flow.sent_any = true;

    segment = peers.bare(Direction::egress, tcp_flag::ack, now);
    segment.seq = flow.next_seq;
    segment.ack = flow.highest_ack;
    segment.window = flow.last_window;
    segment.timestamps = Timestamps { flow.last_ts_value, flow.last_ts_echo };

    good.seq = flow.next_seq;
    good.ack = flow.highest_ack;
    good.window = flow.last_window;
    good.timestamps = segment.timestamps;
  }

  Event event(bool queued = true) const
  {
    return { .kind = EventKind::segment, .now = now, .segment = &segment, .queued = queued, .links = &links };
  }
  Violation edits(Edit edit) const { return check({ .edit = edit }, event(), flow, no_limit); }
  Violation drops() const { return check({ .verdict = Verdict::drop }, event(), flow, no_limit); }
  Violation crafts(const Craft& craft, std::uint64_t budget = no_limit) const
  {
    return check({ .craft = std::span { &craft, 1 } }, event(), flow, budget);
  }
  template <class Change>
  Violation crafts_with(Change change) const
  {
    Craft craft = good;
    change(craft);
    return crafts(craft);
  }

  Peers peers {};
  FlowView flow {};
  Segment segment {};
  Craft good {};
  LinkStates links = both_links();
  Tick now = at_ms(500);
};

TEST_F(Guard, NothingAskedNothingBroken)
{
  EXPECT_EQ(check({}, event(), flow, 0), Violation::none);
}

TEST_F(Guard, AckBeyondReceived)
{
  EXPECT_EQ(edits({ .ack = flow.highest_ack + 1 }), Violation::ack_beyond_received);
  EXPECT_EQ(edits({ .ack = flow.highest_ack }), Violation::none);
  EXPECT_EQ(edits({ .ack = flow.highest_ack - 20'000u }), Violation::none);
  EXPECT_EQ(crafts_with([&](Craft& c) { c.ack = flow.highest_ack + 1; }), Violation::ack_beyond_received);
  EXPECT_EQ(crafts(good), Violation::none);
}

TEST_F(Guard, AckBeyondReceivedAcrossTheWrap)
{
  flow.highest_ack = { 5 };
  EXPECT_EQ(edits({ .ack = Seq { 6 } }), Violation::ack_beyond_received);
  EXPECT_EQ(edits({ .ack = Seq { 0xffff'fff0u } }), Violation::none);
}

TEST_F(Guard, AcksOfTheServerOnlyDownwards)
{
  // An arriving segment acknowledges this host's bytes: another sequence space than highest_ack.
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
  EXPECT_EQ(crafts_with([](Craft& c) { c.window = 501; }), Violation::window_raised);
}

TEST_F(Guard, WindowScaleUnknown)
{
  flow.hands_off = HandsOff::mid_flow;
  EXPECT_EQ(edits({ .window = std::uint16_t { 10 } }), Violation::window_unscaled);
  EXPECT_EQ(edits({ .route = Link::cell }), Violation::none);
}

TEST_F(Guard, TsvalRaised)
{
  EXPECT_EQ(edits({ .ts_value = flow.last_ts_value + 1 }), Violation::ts_value_raised);
  EXPECT_EQ(edits({ .ts_value = flow.last_ts_value }), Violation::none);
  EXPECT_EQ(crafts_with([](Craft& c) { c.timestamps->value = c.timestamps->value + 1; }), Violation::ts_value_raised);
}

TEST_F(Guard, TsvalStale)
{
  EXPECT_EQ(edits({ .ts_value = flow.sent_ts_value - 2 }), Violation::ts_value_stale);
  EXPECT_EQ(edits({ .ts_value = flow.sent_ts_value - 1 }), Violation::none) << "TCP_PAWS_WINDOW is one tick";
  EXPECT_EQ(crafts_with([&](Craft& c) { c.timestamps->value = flow.sent_ts_value - 2; }), Violation::ts_value_stale);
  EXPECT_EQ(crafts_with([&](Craft& c) { c.timestamps->value = flow.sent_ts_value - 1; }), Violation::none);
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
  EXPECT_EQ(edits({ .ts_echo = flow.last_ts_echo + 1 }), Violation::ts_echo_raised);
  EXPECT_EQ(edits({ .ts_echo = flow.last_ts_echo - 100u }), Violation::none);
  EXPECT_EQ(crafts_with([](Craft& c) { c.timestamps->echo = c.timestamps->echo + 1; }), Violation::ts_echo_raised);
}

TEST_F(Guard, NoTimestamps)
{
  EXPECT_EQ(crafts_with([](Craft& c) { c.timestamps = std::nullopt; }), Violation::no_timestamps)
      << "RFC 7323: once agreed, on every segment";
  flow.timestamps_ok = false;
  EXPECT_EQ(crafts_with([](Craft& c) { c.timestamps = std::nullopt; }), Violation::none);
  EXPECT_EQ(crafts(good), Violation::no_timestamps) << "never agreed";
  segment.timestamps = std::nullopt;
  EXPECT_EQ(edits({ .ts_value = flow.last_ts_value }), Violation::no_timestamps);
  EXPECT_EQ(edits({ .ts_echo = flow.last_ts_echo }), Violation::no_timestamps);
}

TEST_F(Guard, DropForbidden)
{
  EXPECT_EQ(drops(), Violation::none);
  Segment plain = segment;
  segment.sack_count = 1;
  EXPECT_EQ(drops(), Violation::drop_forbidden) << "SACK";
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

TEST_F(Guard, CraftSequence)
{
  EXPECT_EQ(crafts_with([&](Craft& c) { c.seq = flow.next_seq + 1; }), Violation::craft_sequence);
  EXPECT_EQ(crafts_with([&](Craft& c) { c.seq = flow.next_seq - 1u; }), Violation::none) << "as a keep-alive";
  EXPECT_EQ(crafts_with([&](Craft& c) { c.seq = flow.next_seq - 2u; }), Violation::craft_sequence);

  Craft icmp { .kind = CraftKind::host_unreachable, .seq = flow.highest_ack };
  EXPECT_EQ(crafts(icmp), Violation::none);
  icmp.seq = icmp.seq + 1;
  EXPECT_EQ(crafts(icmp), Violation::craft_sequence);
}

TEST_F(Guard, CraftFlags)
{
  for (const std::uint16_t flag :
       { tcp_flag::fin, tcp_flag::syn, tcp_flag::rst, tcp_flag::urg, tcp_flag::cwr, tcp_flag::ae })
    EXPECT_EQ(crafts_with([&](Craft& c) { c.flags = c.flags | flag; }), Violation::craft_flags) << flag;
  EXPECT_EQ(crafts_with([](Craft& c) { c.flags = 0; }), Violation::craft_flags);
  EXPECT_EQ(crafts_with([](Craft& c) { c.flags |= tcp_flag::ece | tcp_flag::psh; }), Violation::none);
}

// With AccECN three flags are a counter: either left to the chain, or what the local TCP said last.
TEST_F(Guard, CraftedCounterOfAccurateEcn)
{
  flow.acc_ecn = true;
  for (unsigned said = 0; said < 8; ++said)
    for (unsigned crafted = 0; crafted < 8; ++crafted)
    {
      flow.ace = static_cast<std::uint16_t>(said << 6);
      const Violation expected = crafted == 0 || crafted == said ? Violation::none : Violation::craft_flags;
      EXPECT_EQ(crafts_with([&](Craft& c) { c.flags = static_cast<std::uint16_t>(c.flags | crafted << 6); }), expected)
          << said << " " << crafted;
    }
  EXPECT_EQ(crafts_with([](Craft& c) { c.flags |= tcp_flag::psh; }), Violation::none);
  EXPECT_EQ(crafts_with([](Craft& c) { c.flags |= tcp_flag::fin; }), Violation::craft_flags);
}

TEST_F(Guard, CraftSack)
{
  good.sack_blocks.fill({ flow.highest_ack - 1460u, flow.highest_ack });
  EXPECT_EQ(crafts_with([](Craft& c) { c.sack_count = 5; }), Violation::craft_sack) << "there is room for four";
  EXPECT_EQ(crafts_with([](Craft& c) { c.sack_count = 4; }), Violation::none);
  flow.sack_ok = false;
  EXPECT_EQ(crafts_with([](Craft& c) { c.sack_count = 1; }), Violation::craft_sack) << "never agreed";
  EXPECT_EQ(crafts(good), Violation::none);
}

TEST_F(Guard, CraftSackReportsWhatIsHeld)
{
  const auto with = [&](Seq left, Seq right)
  {
    return crafts_with(
        [&](Craft& c)
        {
          c.sack_blocks[1] = { left, right };
          c.sack_blocks[0] = { flow.highest_ack - 2u, flow.highest_ack - 1u };
          c.sack_count = 2;
        });
  };
  const Seq ack = flow.highest_ack;
  flow.highest_held = ack + 1461;
  EXPECT_EQ(with(ack - 1460u, ack), Violation::none);
  EXPECT_EQ(with(ack - 1460u, ack + 1), Violation::craft_sack) << "a byte that was not acknowledged";
  EXPECT_EQ(with(ack, ack + 1461), Violation::craft_sack) << "the byte that is waited for";
  EXPECT_EQ(with(ack + 1, ack + 1461), Violation::none) << "beyond a hole, as the local TCP has said";
  EXPECT_EQ(with(ack + 1, ack + 1462), Violation::craft_sack) << "what it has not said";
  EXPECT_EQ(with(ack - 1460u, ack - 1460u), Violation::craft_sack) << "nothing";
  EXPECT_EQ(with(ack, ack - 1460u), Violation::craft_sack) << "the wrong way round";
  flow.highest_ack = flow.highest_held = good.ack = Seq { 700 }; // across the wrap
  EXPECT_EQ(with(Seq { 700 } - 1460u, Seq { 700 }), Violation::none);
  EXPECT_EQ(with(Seq { 700 } - 1460u, Seq { 701 }), Violation::craft_sack);
}

TEST_F(Guard, TooManyCrafts)
{
  const std::vector<Craft> many(max_crafts + 1, good);
  EXPECT_EQ(check({ .craft = many }, event(), flow, no_limit), Violation::too_many_crafts);
  EXPECT_EQ(check({ .craft = std::span { many }.first(max_crafts) }, event(), flow, no_limit), Violation::none);
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
  EXPECT_EQ(crafts_with([](Craft& c) { c.by = static_cast<Link>(9); }), Violation::route_unusable);
  LinkState& cell = links[static_cast<std::size_t>(Link::cell)];
  cell.route = false;
  EXPECT_EQ(edits({ .route = Link::cell }), Violation::route_unusable);
  EXPECT_EQ(crafts_with([](Craft& c) { c.by = Link::cell; }), Violation::route_unusable);
  flow.key.local.v6 = true;
  EXPECT_EQ(edits({ .route = Link::cell }), Violation::none) << "IPv6 has a route of its own";
  cell.up = false;
  EXPECT_EQ(edits({ .route = Link::cell }), Violation::route_unusable);
  EXPECT_EQ(edits({ .route = Link::wifi }), Violation::none) << "the home link is never asked";
}

TEST_F(Guard, Budget)
{
  Craft by_cell = good;
  by_cell.by = Link::cell;
  EXPECT_EQ(crafts(by_cell, 119), Violation::budget);
  EXPECT_EQ(crafts(by_cell, 120), Violation::none);
  EXPECT_EQ(crafts(good, 0), Violation::none) << "Wi-Fi costs nothing";
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
  const Plan plan { .verdict = Verdict::drop, .edit = { .ack = flow.highest_ack + 1000 } };
  segment.sack_count = 1;
  EXPECT_EQ(check(plan, event(false), flow, no_limit), Violation::none);
}

// A download with a hole of 3,000 bytes, 20,000 behind it held.
struct GuardOfHoles : Guard
{
  GuardOfHoles()
  {
    flow.content = Content::http;
    flow.highest_held = flow.highest_ack + 23'000;
    good = { .kind = CraftKind::fill,
             .by = Link::wifi,
             .seq = flow.highest_ack,
             .timestamps = Timestamps { flow.last_ts_echo, {} },
             .length = 3000 };
    hole = { .from = flow.highest_ack, .to = flow.highest_ack + 3000, .deadline = now + ms(100) };
  }
  Violation fetches(const Fetch& fetch, std::uint64_t budget = no_limit) const
  {
    return check({ .fetch = std::span { &fetch, 1 } }, event(), flow, budget);
  }
  Fetch hole {};
};

TEST_F(GuardOfHoles, AFillClosesWhatIsMissing)
{
  EXPECT_EQ(crafts(good, 0), Violation::none) << "it stays on this host: no budget is needed";
  EXPECT_EQ(crafts_with([](Craft& c) { c.seq = c.seq - 1; }), Violation::fetch_range) << "the first byte is held";
  EXPECT_EQ(crafts_with([](Craft& c) { c.length = 23'000; }), Violation::none);
  EXPECT_EQ(crafts_with([](Craft& c) { c.length = 23'001; }), Violation::fetch_range) << "nothing behind it is held";
  EXPECT_EQ(crafts_with([](Craft& c) { c.length = 0; }), Violation::fetch_range);
  EXPECT_EQ(crafts_with([](Craft& c) { c.by = Link::cell; }), Violation::route_unusable);
  flow.highest_held = flow.highest_ack + 2 * longest_fill;
  EXPECT_EQ(crafts_with([](Craft& c) { c.length = longest_fill; }), Violation::none);
  EXPECT_EQ(crafts_with([](Craft& c) { c.length = longest_fill + 1; }), Violation::fetch_range);
}

TEST_F(GuardOfHoles, AFillLooksAsOldAsTheLastThatArrivedInOrder)
{
  const auto value = [&](int ticks) {
    return crafts_with([&](Craft& c) { c.timestamps->value = flow.last_ts_echo + static_cast<std::uint32_t>(ticks); });
  };
  EXPECT_EQ(value(0), Violation::none);
  EXPECT_EQ(value(1), Violation::ts_value_raised) << "its ACK would echo what the server never sent";
  EXPECT_EQ(value(-1), Violation::none);
  EXPECT_EQ(value(-2), Violation::ts_value_stale) << "PAWS";
  EXPECT_EQ(crafts_with([&](Craft& c) { c.timestamps->echo = flow.sent_ts_value; }), Violation::none);
  EXPECT_EQ(crafts_with([&](Craft& c) { c.timestamps->echo = flow.sent_ts_value + 1; }), Violation::ts_echo_raised);
  EXPECT_EQ(crafts_with([](Craft& c) { c.timestamps.reset(); }), Violation::no_timestamps);
  flow.timestamps_ok = false;
  EXPECT_EQ(crafts(good), Violation::no_timestamps);
  EXPECT_EQ(crafts_with([](Craft& c) { c.timestamps.reset(); }), Violation::none);
}

TEST_F(GuardOfHoles, NeitherIsForSubflowsOrUnknownContent)
{
  EXPECT_EQ(fetches(hole), Violation::none);
  for (const Content content : { Content::unknown, Content::refused })
  {
    flow.content = content;
    EXPECT_EQ(crafts(good), Violation::content_unknown);
    EXPECT_EQ(fetches(hole), Violation::content_unknown);
  }
  flow.content = Content::http;
  flow.mptcp = true;
  EXPECT_EQ(crafts(good), Violation::fetch_mptcp);
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
