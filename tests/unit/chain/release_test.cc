// What leaves never advances the sender much further at once than the local TCP's own ACKs did.
#include "src/chain/release.h"
#include "tests/golden/harness/fixture.h"

#include <tandem/pure_ack.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

namespace tandem::chain
{
namespace
{

using namespace test;

// Decides about the ACKs of a download.
class OfAcks : public Module
{
public:
  explicit OfAcks(std::string_view name) : name_ { name } {}
  std::string_view name() const override { return name_; }
  std::string_view summary() const override { return "decides about ACKs"; }
  std::string_view manual() const override { return ""; }
  std::span<const Knob> knobs() const override { return {}; }
  void set(std::string_view, double) override {}
  double get(std::string_view) const override { return 0; }
  Interest interest() const override
  {
    return { .decide = traffic::egress_pure_ack, .observe = traffic::ingress_data };
  }
  std::size_t flow_state_size() const override { return 1; }
  void flow_begin(std::byte*, const FlowView&) override {}
  void flow_end(std::byte*) noexcept override {}
  Plan decide(const Event& event, const FlowView& flow, std::byte*) override
  {
    if (event.kind != EventKind::segment || !event.queued || !event.segment->is_pure_ack()) return {};
    return of_ack(*event.segment, flow);
  }
  void describe(const FlowView&, const std::byte*, Facts&) const override {}

private:
  virtual Plan of_ack(const Segment& ack, const FlowView& flow) = 0;

  std::string_view name_;
};

// Keeps back as much as it was told to, by lowering the number or by leaving ACKs out.
class Withholder final : public OfAcks
{
public:
  explicit Withholder(std::string_view name = "withholder") : OfAcks { name } {}

  std::uint32_t bytes = 0;
  int leaves_out = 0; // in a row
  int left_out = 0;
  std::uint16_t bound = 0; // of the window
  bool waits = false;
  bool echoes = false; // it chooses the echo of what it leaves out

private:
  Plan of_ack(const Segment& ack, const FlowView& flow) override
  {
    if (repeats_in_next(ack, flow) && left_out < leaves_out)
    {
      ++left_out;
      Plan plan { .verdict = Verdict::drop, .why = "left out" };
      if (echoes) plan.edit.ts_echo = ack.timestamps->echo;
      return plan;
    }
    left_out = 0;
    if (bound > 0)
      return { .edit = { .window = std::uint16_t(ack.window - bound), .window_waits = waits }, .why = "bound" };
    if (bytes == 0 || ack.sack_count > 0) return {};
    return { .edit = { .ack = later(ack.ack - bytes, flow.sent_ack) }, .why = "lowered" };
  }
};

struct Release : testing::Test
{
  Release() { fixture.open(peers); }

  // A growing flow: each round twice the segments of the one before.
  void slow_start(int rounds)
  {
    for (int round = 0, count = 4; round < rounds; ++round, count *= 2)
      fixture.download(peers, count, ms(20.0 / count), ms(20));
  }
  void settle() { fixture.download(peers, 200, ms(2), ms(20)); }
  void at_risk(bool is)
  {
    fixture.links[static_cast<std::size_t>(Link::wifi)].at_risk = is;
    fixture.chain.links(fixture.links, fixture.now());
  }
  // A fast flow, of which as much as may be is withheld for a blackout that is foretold.
  void warn()
  {
    settle();
    fixture.download(peers, 400, ms(0.2), ms(20)); // 100 ACKs of two segments a round trip
    module.bytes = 1000 * mss();
    at_risk(true);
    fixture.download(peers, 100, ms(0.2), ms(20));
  }
  std::uint32_t mss() const { return fixture_mss; }
  std::uint32_t withheld() { return static_cast<std::uint32_t>(view().rcv_nxt - view().sent_ack); }
  const FlowView& view() { return fixture.view(peers); }
  Segment with_hole()
  {
    Segment segment = peers.ack(fixture.now());
    const Seq una = segment.ack;
    segment.sack_blocks[0] = { una + 1448, una + 2896 };
    segment.sack_count = 1;
    return segment;
  }

  static constexpr std::uint32_t fixture_mss = 1448;
  Withholder module {};
  Fixture fixture { { &module } };
  Peers peers {};
};

TEST_F(Release, TwoSegmentsAreWithheldInSlowStart)
{
  slow_start(5);
  ASSERT_TRUE(view().slow_start);
  module.bytes = 60 * mss();
  fixture.download(peers, 40, ms(0.1), ms(20));
  EXPECT_EQ(withheld(), 2 * mss());
  EXPECT_GT(fixture.chain.stats().less_withheld, 0u);
  EXPECT_EQ(fixture.violations(), 0u);
}

// Over a socket of MPTCP that fell back a retransmission must not begin within what was taken.
TEST_F(Release, NothingWhereMptcpWasRefused)
{
  settle();
  fixture.flow(peers).view.mptcp_refused = true;
  module.bytes = 60 * mss();
  module.leaves_out = 1000;
  for (int i = 0; i < 60; ++i)
  {
    fixture.download(peers, 1, ms(2), ms(20));
    ASSERT_EQ(withheld(), 0u) << i;
  }
  EXPECT_GT(fixture.chain.stats().less_withheld, 0u);
  EXPECT_EQ(fixture.violations(), 0u);
}

TEST_F(Release, AnInitialWindowAfterIt)
{
  settle();
  ASSERT_FALSE(view().slow_start);
  module.bytes = 60 * mss();
  fixture.download(peers, 40, ms(2), ms(20));
  EXPECT_EQ(withheld(), 10 * mss());
}

TEST_F(Release, NoMoreACKsAreLeftOutThanMayBe)
{
  settle();
  module.leaves_out = 1000;
  std::uint32_t most = 0;
  for (int i = 0; i < 60; ++i)
  {
    fixture.download(peers, 1, ms(2), ms(20));
    most = std::max(most, withheld());
  }
  EXPECT_EQ(most, 10 * mss());
}

// freeze beside offload: what is withheld for a blackout must not take all that ACKs left out need.
TEST_F(Release, WhatOneModuleWithholdsLeavesRoomForTheACKsThatAnotherLeavesOut)
{
  Withholder thinner { "thinner" };
  Fixture both { { &module, &thinner } };
  both.open(peers);
  both.download(peers, 200, ms(2), ms(20));
  ASSERT_FALSE(both.view(peers).slow_start);
  module.bytes = 60 * mss();
  both.download(peers, 40, ms(2), ms(20));
  EXPECT_EQ(static_cast<std::uint32_t>(both.view(peers).rcv_nxt - both.view(peers).sent_ack), 10 * mss());
  thinner.leaves_out = 3;
  both.download(peers, 100, ms(2), ms(20)); // the room is made
  int left = 0;
  for (int i = 0; i < 400; ++i)
  {
    const Seq before = both.view(peers).sent_ack;
    both.download(peers, 1, ms(2), ms(20));
    if (both.view(peers).sent_ack != before) ++left;
  }
  EXPECT_LE(left, 120) << "one ACK in four is enough";
  thinner.leaves_out = 0;
  both.run_for(ms(1100));
  both.download(peers, 100, ms(2), ms(20));
  EXPECT_EQ(static_cast<std::uint32_t>(both.view(peers).rcv_nxt - both.view(peers).sent_ack), 10 * mss());
  EXPECT_EQ(both.violations(), 0u);
}

// Leaves out what reports nothing new; should it leave all the same, then with an older echo.
class Sparing final : public OfAcks
{
public:
  Sparing() : OfAcks { "sparing" } {}

private:
  Plan of_ack(const Segment& ack, const FlowView& flow) override
  {
    if (!reports_nothing_new(ack, flow)) return {};
    return { .verdict = Verdict::drop, .edit = { .ts_echo = ack.timestamps->echo - 5 }, .why = "spared" };
  }
};

TEST_F(Release, AnACKOfRepairedHolesMayWaitHoweverMuchItAcknowledges)
{
  Sparing sparing {};
  for (const bool insists : { false, true })
  {
    Withholder other { "other" };
    Fixture both { { &sparing, &other } };
    both.open(peers);
    both.download(peers, 200, ms(2), ms(20));
    other.bound = insists ? 10 : 0; // an edit that may not wait
    Segment hole = peers.ack(both.now());
    hole.sack_blocks[0] = { hole.ack + 60 * mss(), hole.ack + 61 * mss() };
    hole.sack_count = 1;
    ASSERT_EQ(both.show(hole).value().verdict, Verdict::pass);
    Segment repaired = hole;
    repaired.ack = hole.ack + 59 * mss();
    const Outcome outcome = both.show(repaired).value();
    EXPECT_EQ(outcome.verdict, insists ? Verdict::pass : Verdict::drop);
    EXPECT_EQ(outcome.edit.ts_echo, repaired.timestamps->echo - 5);
    EXPECT_EQ(both.view(peers).sent_ack, insists ? repaired.ack : hole.ack);
    EXPECT_EQ(both.violations(), 0u);
  }
}

// mirror's end of a chain. One that is thinned out leaves when it reaches the recovery point.
TEST_F(Release, AnACKOfWhatWasReportedMayWaitForAnEchoAlone)
{
  for (const bool echoes : { false, true })
  {
    Withholder thinning {};
    Fixture one { { &thinning } };
    one.open(peers);
    one.download(peers, 200, ms(2), ms(20));
    Segment hole = peers.ack(one.now());
    hole.sack_blocks[0] = { hole.ack + mss(), hole.ack + 61 * mss() };
    hole.sack_count = 1;
    ASSERT_EQ(one.show(hole).value().verdict, Verdict::pass);
    thinning.leaves_out = 1;
    thinning.echoes = echoes;
    Segment end = hole;
    end.sack_count = 0;
    end.ack = hole.ack + 61 * mss();
    EXPECT_EQ(one.show(end).value().verdict, echoes ? Verdict::drop : Verdict::pass);
    // What was reported need not leave ahead of the next hole.
    Segment next = end;
    next.sack_blocks[0] = { end.ack + mss(), end.ack + 2 * mss() };
    next.sack_count = 1;
    EXPECT_EQ(one.show(next).value().verdict, Verdict::pass);
    EXPECT_TRUE(one.actions.injected.empty());
    EXPECT_EQ(one.view(peers).sent_ack, end.ack);
    EXPECT_EQ(one.violations(), 0u);
  }
}

// mirror beside offload: a window that bounds what is in flight must not bring back every ACK that was left out.
TEST_F(Release, ABoundedWindowThatMayWaitLeavesACKsOut)
{
  Withholder thinner { "thinner" };
  Fixture both { { &module, &thinner } };
  both.open(peers);
  both.download(peers, 200, ms(2), ms(20));
  thinner.leaves_out = 3;
  const auto left = [&](std::uint16_t bound, bool waits)
  {
    module.bound = bound;
    module.waits = waits;
    int count = 0;
    for (int i = 0; i < 400; ++i)
    {
      const Seq before = both.view(peers).sent_ack;
      both.download(peers, 1, ms(2), ms(20));
      if (both.view(peers).sent_ack != before) ++count;
    }
    return count;
  };
  const int unbounded = left(0, false);
  EXPECT_LE(left(10, true), unbounded + 4) << "one ACK in four is enough";
  EXPECT_EQ(both.view(peers).sent_window, both.view(peers).last_window - 10);
  const int insisting = left(20, false);
  EXPECT_GT(insisting, 3 * unbounded) << "an edit that may not wait asks that its ACK leaves";
  // What such an edit has told the server is taken back by the first ACK without it.
  module.bound = 0;
  thinner.left_out = 0;
  both.download(peers, 1, ms(2), ms(20));
  EXPECT_EQ(both.view(peers).sent_window, both.view(peers).last_window);
  EXPECT_EQ(both.violations(), 0u);
}

TEST_F(Release, WhatIsWithheldLeavesAheadOfTheACKThatShowsAHole)
{
  settle();
  module.bytes = 10 * mss();
  fixture.download(peers, 40, ms(2), ms(20));
  ASSERT_EQ(withheld(), 10 * mss());
  const Segment hole = with_hole();
  const std::optional<Outcome> outcome = fixture.show(hole);
  ASSERT_EQ(fixture.actions.injected.size(), 1u);
  const InjectedSegment& ahead = fixture.actions.injected[0].segment;
  EXPECT_EQ(ahead.ack, hole.ack);
  EXPECT_EQ(ahead.sack_count, 0);
  ASSERT_TRUE(outcome);
  EXPECT_FALSE(outcome->edit.ack);
  EXPECT_EQ(withheld(), 0u);
  // Once: the next one with the hole brings nothing more.
  fixture.run_for(ms(1));
  fixture.show(with_hole());
  EXPECT_EQ(fixture.actions.injected.size(), 1u);
  EXPECT_EQ(fixture.violations(), 0u);
}

TEST_F(Release, NothingIsWithheldUntilTheRecoveryMustBeOver)
{
  settle();
  fixture.show(with_hole());
  fixture.run_for(ms(25)); // longer than an overtaken segment takes
  module.bytes = 10 * mss();
  fixture.download(peers, 5, ms(2), ms(20));
  EXPECT_EQ(view().loss_episodes, 1);
  EXPECT_EQ(withheld(), 0u);
  fixture.download(peers, 40, ms(2), ms(20));
  EXPECT_EQ(withheld(), 10 * mss());
}

TEST_F(Release, APredictedBlackoutIsWorthAShareOfTheWindow)
{
  warn();
  EXPECT_GT(withheld(), 12 * mss());
  EXPECT_LE(withheld(), view().window_estimate / 6);
}

TEST_F(Release, WhatABlackoutThatDidNotComeWithheldIsLetGoASegmentAnACK)
{
  warn();
  const std::uint32_t reserve = withheld();
  ASSERT_GT(reserve, 12 * mss());
  at_risk(false);
  std::uint32_t most = 0;
  int acks = 0;
  for (; withheld() > 10 * mss() && acks < 100; ++acks)
  {
    const Seq before = view().sent_ack;
    fixture.download(peers, 1, ms(0.2), ms(20));
    most = std::max(most, static_cast<std::uint32_t>(view().sent_ack - before));
  }
  EXPECT_LE(most, 3 * mss()) << "its own two and one";
  EXPECT_EQ(acks, static_cast<int>(reserve / mss()) - 10);
  EXPECT_EQ(fixture.violations(), 0u);
}

// A block at or above the number of its ACK is one beyond a hole: what came twice must not become one (RFC 2883).
TEST_F(Release, AnACKThatReportsADuplicateLeavesWithItsWholeNumber)
{
  warn();
  at_risk(false);
  ASSERT_GT(withheld(), 12 * mss());
  peers.received += mss(); // its ACK was still due
  Segment again = peers.ack(fixture.now());
  again.sack_blocks[0] = { again.ack - mss(), again.ack };
  again.sack_count = 1;
  const std::optional<Outcome> outcome = fixture.show(again);
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->verdict, Verdict::pass);
  EXPECT_FALSE(outcome->edit.ack) << "lowered by " << again.ack - *outcome->edit.ack;
  EXPECT_EQ(withheld(), 0u);
  EXPECT_EQ(fixture.violations(), 0u);
}

// Sends the ACKs by the link it was told to, with what it has found of the way.
class Router final : public OfAcks
{
public:
  Router() : OfAcks { "router" } {}

  bool by_cell = false;
  bool copies = false; // of what has left already, by cellular
  std::optional<Duration> added {};
  std::uint32_t chance = 0; // what it does by chance, from this seed on

private:
  Plan of_ack(const Segment& ack, const FlowView& flow) override
  {
    Plan plan { .why = "routed" };
    if (by_cell && ack.sack_count == 0) plan.edit.route = Link::cell;
    if (added) plan.cell_path = CellPath { CellPath::Is::validated, *added };
    if (copies)
    {
      scratch_[0] = latest_ack(flow, Link::cell);
      scratch_[0].ack = flow.sent_ack;
      plan.inject = scratch_;
    }
    if (chance != 0 && draw() % 8 == 0)
    {
      scratch_[0] = latest_ack(flow, draw() % 2 == 0 ? Link::cell : Link::wifi);
      plan.inject = scratch_;
    }
    if (chance != 0 && draw() % 16 == 0) by_cell = !by_cell;
    return plan;
  }
  std::uint32_t draw()
  {
    chance = chance * 1664525u + 1013904223u;
    return chance >> 16;
  }
  std::array<InjectedSegment, 1> scratch_ {};
};

// A download whose ACKs reach the server by two links, of which one takes longer.
struct OrderRun
{
  OrderRun()
  {
    fixture.open(peers);
    fixture.download(peers, 200, ms(2), ms(40));
    router.added = added;
  }

  // What left so far by either link, in the order in which it arrives: (when, number).
  struct Arrival
  {
    Tick at {};
    Seq ack {};
  };
  void left(Link by, Seq ack) { arrivals.push_back({ fixture.now() + (by == Link::cell ? added : Duration {}), ack }); }
  void collect()
  {
    for (; taken < fixture.actions.injected.size(); ++taken)
    {
      const InjectedRecord& one = fixture.actions.injected[taken];
      arrivals.push_back({ one.at + (one.segment.by == Link::cell ? added : Duration {}), one.segment.ack });
    }
  }
  void pass(const Segment& ack)
  {
    const std::optional<Outcome> outcome = fixture.show(ack);
    collect(); // carried out before the verdict
    if (outcome && outcome->verdict == Verdict::pass)
      left(outcome->edit.route.value_or(Link::wifi), outcome->edit.ack.value_or(ack.ack));
  }
  // Each of two segments, `every` apart.
  void acks(int count, Duration every, int holes = 0)
  {
    for (int i = 0; i < count; ++i)
    {
      fixture.run_for(every);
      collect();
      // The server has heard what left a round trip ago.
      fixture.show(peers.data_in(fixture.now(), 2896, peers.local_ts(fixture.now() - ms(40))));
      Segment ack = peers.ack(fixture.now());
      if (i < holes)
      {
        ack.sack_blocks[0] = { ack.ack + 1448, ack.ack + 1448u * static_cast<std::uint32_t>(2 + i) };
        ack.sack_count = 1;
      }
      else
      {
        peers.received += 2896;
        ack = peers.ack(fixture.now());
      }
      pass(ack);
    }
  }
  // By how much one of them told the server more than all before it, in segments.
  std::uint32_t largest_advance()
  {
    fixture.run_for(ms(200));
    collect();
    std::stable_sort(arrivals.begin(), arrivals.end(), [](const Arrival& a, const Arrival& b) { return a.at < b.at; });
    std::uint32_t most = 0;
    for (std::size_t i = 1; i < arrivals.size(); ++i)
    {
      if (arrivals[i].ack.after(arrivals[i - 1].ack))
        most = std::max(most, static_cast<std::uint32_t>(arrivals[i].ack - arrivals[i - 1].ack));
      arrivals[i].ack = later(arrivals[i].ack, arrivals[i - 1].ack);
    }
    return most / 1448;
  }

  static constexpr Duration added = std::chrono::milliseconds { 15 };
  Router router {};
  Fixture fixture { { &router } };
  Peers peers {};
  std::vector<Arrival> arrivals {};
  std::size_t taken = 0;
};

struct Order : testing::Test, OrderRun
{
};

// offload: ACKs with SACK blocks leave by Wi-Fi, and overtook all that were under way by cellular.
TEST_F(Order, AnACKThatShowsAHoleWaitsForThoseByTheSlowerLink)
{
  router.by_cell = true;
  acks(100, ms(0.5));
  acks(100, ms(0.5), 100);
  EXPECT_GT(fixture.chain.stats().kept_in_order, 10u);
  EXPECT_LE(fixture.chain.stats().kept_in_order, 60u) << "twice the added delay, then none waits";
  EXPECT_LE(largest_advance(), 12u);
  EXPECT_EQ(fixture.violations(), 0u);
}

TEST_F(Order, WhatWaitsSaysWhatTheLocalTCPSaid)
{
  router.by_cell = true;
  acks(100, ms(0.5));
  const Segment hole = [&]
  {
    fixture.run_for(ms(1));
    Segment ack = peers.ack(fixture.now());
    ack.sack_blocks = { SackBlock { ack.ack + 1448, ack.ack + 2896 }, SackBlock { ack.ack + 5000, ack.ack + 6000 } };
    ack.sack_count = 2;
    return ack;
  }();
  const std::size_t before = fixture.actions.injected.size();
  const std::optional<Outcome> outcome = fixture.show(hole);
  ASSERT_TRUE(outcome);
  EXPECT_EQ(outcome->verdict, Verdict::drop);
  fixture.run_for(ms(10));
  EXPECT_EQ(fixture.actions.injected.size(), before);
  fixture.run_for(ms(10));
  ASSERT_EQ(fixture.actions.injected.size(), before + 1);
  const InjectedSegment& copy = fixture.actions.injected.back().segment;
  EXPECT_EQ(copy.by, Link::wifi);
  EXPECT_EQ(copy.seq, hole.seq);
  EXPECT_EQ(copy.ack, hole.ack);
  EXPECT_EQ(copy.window, hole.window);
  EXPECT_EQ(copy.flags, hole.flags);
  EXPECT_EQ(copy.timestamps, hole.timestamps);
  EXPECT_EQ(copy.sack_count, 2);
  EXPECT_EQ(copy.sack_blocks, hole.sack_blocks);
}

// Gigabytes of a download of which no ACK left by Wi-Fi.
TEST_F(Order, WhatLeftByWiFiLastMayBeMoreThanHalfTheSequenceSpaceAgo)
{
  router.by_cell = true;
  for (int gigabytes = 0; gigabytes < 3; ++gigabytes)
  {
    acks(50, ms(0.5));
    Seq& told = fixture.chain.elsewhere(fixture.view(peers).id)->told;
    told = told - 1'000'000'000u;
  }
  acks(100, ms(0.5));
  acks(100, ms(0.5), 100);
  EXPECT_GT(fixture.chain.stats().kept_in_order, 10u);
  EXPECT_LE(largest_advance(), 12u);
}

// What a copy cannot say, and what is no pure ACK, is not kept waiting: and what waits leaves ahead of it.
TEST_F(Order, DataOfThisHostTakesAlongWhatWaits)
{
  router.by_cell = true;
  acks(100, ms(0.5));
  acks(1, ms(0.5), 1);
  const std::size_t before = fixture.actions.injected.size();
  fixture.see_everything = true;
  fixture.show(peers.data_out(fixture.now(), 100));
  EXPECT_EQ(fixture.actions.injected.size(), before + 1);
  fixture.run_for(ms(100));
  EXPECT_EQ(fixture.actions.injected.size(), before + 1) << "once";
}

// The daemon stops: nobody looks at the time any more, and the local TCP takes what waits for sent.
TEST_F(Order, NothingWaitsOnceNoModuleIsOn)
{
  router.by_cell = true;
  acks(100, ms(0.5));
  acks(4, ms(0.5), 4);
  collect();
  ASSERT_GT(fixture.chain.stats().kept_in_order, 0u);
  const std::size_t before = fixture.actions.injected.size();
  fixture.chain.enable(0, false, fixture.now());
  EXPECT_GE(fixture.actions.injected.size(), before + fixture.chain.stats().kept_in_order);
  const std::size_t then = fixture.actions.injected.size();
  fixture.run_for(ms(200));
  EXPECT_EQ(fixture.actions.injected.size(), then) << "none twice";
}

TEST_F(Order, NothingWaitsForAPathOfUnknownDelay)
{
  router.added.reset();
  router.by_cell = true;
  acks(100, ms(0.5));
  acks(20, ms(0.5), 20);
  EXPECT_EQ(fixture.chain.stats().kept_in_order, 0u);
}

// What left by a link that went may never arrive, and what nobody answers may have been lost.
TEST_F(Order, NothingWaitsForALinkThatIsLost)
{
  router.by_cell = true;
  acks(100, ms(0.5));
  fixture.links[static_cast<std::size_t>(Link::cell)].up = false;
  fixture.chain.links(fixture.links, fixture.now());
  acks(20, ms(0.5), 20);
  EXPECT_EQ(fixture.chain.stats().kept_in_order, 0u);
}

TEST_F(Order, NothingWaitsWhenTheServerIsSilent)
{
  router.by_cell = true;
  acks(100, ms(0.5));
  for (int i = 0; i < 50; ++i) // no echo comes
  {
    fixture.run_for(ms(1));
    peers.received += 2896;
    pass(peers.ack(fixture.now()));
  }
  router.by_cell = false;
  fixture.run_for(ms(1));
  peers.received += 2896;
  pass(peers.ack(fixture.now()));
  EXPECT_EQ(fixture.chain.stats().kept_in_order, 0u);
}

TEST_F(Order, NothingWaitsOnceACopyCouldNotBeSent)
{
  router.by_cell = true;
  acks(100, ms(0.5));
  router.added.reset();
  fixture.actions.bytes_each = 0;
  acks(50, ms(0.5), 50);
  const std::uint64_t kept = fixture.chain.stats().kept_in_order;
  EXPECT_GT(kept, 0u);
  EXPECT_LT(kept, 40u) << "until the first one was to leave";
  acks(50, ms(0.5));
  acks(50, ms(0.5), 50);
  EXPECT_EQ(fixture.chain.stats().kept_in_order, kept);
}

// Copies of a path validation: they say nothing that Wi-Fi has not said.
TEST_F(Order, NothingWaitsForCopies)
{
  router.by_cell = true;
  acks(1, ms(0.5));
  router.by_cell = false;
  for (int i = 0; i < 50; ++i)
  {
    fixture.chain.elsewhere(fixture.view(peers).id)->last = fixture.now(); // as of a copy
    acks(1, ms(0.5));
  }
  EXPECT_EQ(fixture.chain.stats().kept_in_order, 0u);
}

// offload: back by Wi-Fi, what leaves there leaves by cellular as well for two seconds. A wait that has begun was kept
// up by the copies, and every ACK came as late as by cellular.
TEST_F(Order, CopiesKeepNoWaitUp)
{
  router.by_cell = true;
  acks(100, ms(0.5));
  router.by_cell = false;
  router.copies = true;
  acks(100, ms(0.5));
  const std::uint64_t kept = fixture.chain.stats().kept_in_order;
  EXPECT_GT(kept, 10u);
  EXPECT_LE(kept, 60u) << "twice the added delay, then none waits";
  acks(100, ms(0.5));
  EXPECT_EQ(fixture.chain.stats().kept_in_order, kept);
  EXPECT_LE(largest_advance(), 12u);
  EXPECT_EQ(fixture.violations(), 0u);
}

// Whatever a module routes and injects, and whenever a hole shows: what one ACK tells the server stays within what may
// be kept back and the ACK's own.
TEST_F(Order, NoACKAdvancesTheServerMuchFurtherAtOnce)
{
  std::uint64_t kept = 0;
  for (std::uint32_t seed = 1; seed <= 200; ++seed)
  {
    OrderRun run {};
    run.router.chance = seed;
    for (int i = 0; i < 20; ++i)
    {
      run.acks(25, ms(0.5));
      run.acks(static_cast<int>(seed % 7), ms(0.5), 7);
    }
    EXPECT_LE(run.largest_advance(), 12u) << "seed " << seed;
    EXPECT_EQ(run.fixture.violations(), 0u);
    kept += run.fixture.chain.stats().kept_in_order;
  }
  EXPECT_GT(kept, 1000u);
}

} // namespace
} // namespace tandem::chain
