#include "src/chain/chain.h"
#include "src/chain/guard_fetch.h"
#include "tests/golden/harness/fixture.h"
#include "tests/unit/flow/recorded.h"

#include <tandem/pure_ack.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <deque>
#include <functional>
#include <stdexcept>
#include <vector>

namespace tandem::chain
{
namespace
{

using namespace test;

// A module that does what the test says, and counts what is done to it.
class Puppet final : public Module
{
public:
  explicit Puppet(std::string name, int priority = 100) : name_ { std::move(name) }, priority_ { priority } {}

  std::string_view name() const override { return name_; }
  std::string_view summary() const override { return "does as told"; }
  std::string_view manual() const override { return ""; }
  std::span<const Knob> knobs() const override { return {}; }
  void set(std::string_view, double) override {}
  double get(std::string_view) const override { return 0; }
  Interest interest() const override { return wants; }
  int priority() const override { return priority_; }
  std::size_t flow_state_size() const override { return sizeof(int); }
  void flow_begin(std::byte* state, const FlowView&) override
  {
    if (begin_throws) throw std::runtime_error { "no" };
    new (state) int { 0 };
    ++begun;
  }
  void flow_end(std::byte*) noexcept override { ++ended; }
  Plan decide(const Event& event, const FlowView& flow, std::byte* state) override
  {
    ++*reinterpret_cast<int*>(state);
    events.push_back(event.kind);
    return act ? act(event, flow) : Plan {};
  }
  void describe(const FlowView&, const std::byte*, Facts&) const override {}

  int heard(EventKind kind) const { return static_cast<int>(std::count(events.begin(), events.end(), kind)); }

  std::function<Plan(const Event&, const FlowView&)> act {};
  Interest wants { .decide = traffic::egress_pure_ack | traffic::egress_data, .observe = traffic::ingress_data };
  bool begin_throws = false;
  int begun = 0, ended = 0;
  std::vector<EventKind> events {};
  std::array<InjectedSegment, 4> room {}; // where injected segments of a plan live

private:
  std::string name_;
  int priority_;
};

// An injected segment that the guard lets pass: the newest ACK again.
InjectedSegment newest(const FlowView& flow, Link by, Tick at)
{
  return { .by = by,
           .at = at,
           .seq = flow.snd_nxt,
           .ack = flow.rcv_nxt,
           .window = flow.last_window,
           .timestamps = Timestamps { flow.last_ts_value, flow.ts_recent } };
}

bool is_ack(const Event& event)
{
  return event.kind == EventKind::segment && event.queued && event.segment->is_pure_ack();
}

// ---- what the packet gets ----

TEST(Chain, WithoutAnOpinionThePacketPassesAsItCame)
{
  Puppet puppet { "offload" };
  Fixture fixture { { &puppet } };
  Peers peers {};
  fixture.open(peers);
  EXPECT_EQ(fixture.download(peers, 50, ms(5), ms(20)), 0);
  EXPECT_TRUE(fixture.actions.injected.empty());
  EXPECT_EQ(fixture.violations(), 0u);
}

TEST(Chain, ModulesSpeakByPriorityThenByName)
{
  Puppet late { "late", 150 }, zebra { "zebra" }, first { "zero", 10 }, apple { "apple" }, second { "mirror", 20 };
  Fixture fixture { { &late, &zebra, &first, &apple, &second } };
  std::string order {};
  for (std::size_t i = 0; i < fixture.chain.module_count(); ++i)
    order += std::string { fixture.chain.module(i).name() } + " ";
  EXPECT_EQ(order, "zero mirror apple zebra late ");
}

TEST(Chain, MoreModulesThanRoomAreRefusedAtTheStart)
{
  std::deque<Puppet> puppets {};
  std::vector<Module*> modules {};
  for (std::size_t i = 0; i <= flow::max_modules; ++i)
    modules.push_back(&puppets.emplace_back("m" + std::to_string(i)));
  EXPECT_THROW((Chain { {}, modules }), std::length_error);
  modules.pop_back();
  EXPECT_NO_THROW((Chain { {}, modules }));
}

struct TwoModules : ::testing::Test
{
  TwoModules()
  {
    fixture.open(peers);
    fixture.download(peers, 10, ms(5), ms(20));
    fixture.data(peers, 1448, peers.local_ts(fixture.now()));
  }
  Outcome both(Plan a, Plan b)
  {
    first.act = [a](const Event& event, const FlowView&) { return is_ack(event) ? a : Plan {}; };
    second.act = [b](const Event& event, const FlowView&) { return is_ack(event) ? b : Plan {}; };
    fixture.run_for(ms(5));
    return fixture.ack(peers);
  }
  Puppet first { "freeze" };
  Puppet second { "offload" };
  Fixture fixture { { &second, &first } };
  Peers peers {};
};

TEST_F(TwoModules, TheLowerAckWins)
{
  const Seq held = fixture.view(peers).rcv_nxt;
  EXPECT_EQ(both({ .edit = { .ack = held } }, { .edit = { .ack = held - 10u } }).edit.ack, held - 10u);
  EXPECT_EQ(both({ .edit = { .ack = held - 20u } }, { .edit = { .ack = held - 10u } }).edit.ack, held - 20u);
}

TEST_F(TwoModules, TheSmallerWindowWins)
{
  EXPECT_EQ(
      both({ .edit = { .window = std::uint16_t { 7 } } }, { .edit = { .window = std::uint16_t { 3 } } }).edit.window,
      3);
  EXPECT_EQ(
      both({ .edit = { .window = std::uint16_t { 0 } } }, { .edit = { .window = std::uint16_t { 3 } } }).edit.window,
      0);
}

TEST_F(TwoModules, TheOlderTimestampsWin)
{
  const TsClock own = peers.local_ts(fixture.now() + ms(5));
  const TsClock echo = peers.recent;
  const Outcome outcome = both({ .edit = { .ts_echo = echo - 5, .ts_value = own } },
                               { .edit = { .ts_echo = echo - 3, .ts_value = own - 1 } });
  EXPECT_EQ(outcome.edit.ts_echo, echo - 5);
  EXPECT_EQ(outcome.edit.ts_value, own - 1);
}

TEST_F(TwoModules, CongestionExperiencedWins)
{
  Segment ack = peers.ack(fixture.now());
  ack.ecn = Ecn::ect0;
  first.act = [](const Event&, const FlowView&) { return Plan { .edit = { .ecn = Ecn::ect1 } }; };
  second.act = [](const Event&, const FlowView&) { return Plan { .edit = { .ecn = Ecn::ce } }; };
  EXPECT_EQ(fixture.show(ack)->edit.ecn, Ecn::ce);
}

TEST_F(TwoModules, TheFirstRouteWins)
{
  EXPECT_EQ(both({ .edit = { .route = Link::wifi } }, { .edit = { .route = Link::cell } }).edit.route, Link::wifi);
  EXPECT_EQ(both({}, { .edit = { .route = Link::cell } }).edit.route, Link::cell);
}

TEST_F(TwoModules, AnEditBeatsADropAndARouteDoesNot)
{
  EXPECT_EQ(both({ .verdict = Verdict::drop }, {}).verdict, Verdict::drop);
  fixture.data(peers, 1448, peers.local_ts(fixture.now()));
  EXPECT_EQ(both({ .verdict = Verdict::drop }, { .edit = { .window = std::uint16_t { 5 } } }).verdict, Verdict::pass);
  fixture.data(peers, 1448, peers.local_ts(fixture.now()));
  peers.window = 5; // as it left last, so that the next may be left out
  EXPECT_EQ(both({ .verdict = Verdict::drop }, { .edit = { .route = Link::cell } }).verdict, Verdict::drop);
}

TEST_F(TwoModules, TheFirstReasonIsShownAndBothAreCounted)
{
  EXPECT_EQ(both({ .why = "freeze: a" }, { .why = "offload: b" }).why, "freeze: a");
  EXPECT_EQ(fixture.count("freeze: a"), 1u);
  EXPECT_EQ(fixture.count("offload: b"), 1u);
}

TEST_F(TwoModules, WhatLeftIsRememberedAsItLeft)
{
  const TsClock own = peers.local_ts(fixture.now() + ms(5));
  both({ .edit = { .window = std::uint16_t { 5 } } }, { .edit = { .ts_value = own - 1 } });
  EXPECT_EQ(fixture.view(peers).sent_window, 5);
  EXPECT_EQ(fixture.view(peers).last_window, peers.window) << "the kernel's own stays";
  EXPECT_EQ(fixture.view(peers).sent_ts_value, own - 1);
  const Seq sent = fixture.view(peers).sent_ack;
  peers.window = 5;
  fixture.data(peers, 1448, peers.local_ts(fixture.now()));
  both({ .verdict = Verdict::drop }, {});
  EXPECT_EQ(fixture.view(peers).sent_ack, sent) << "a dropped ACK did not leave";
  EXPECT_EQ(fixture.view(peers).rcv_nxt, sent + 1448);
}

// It was to be left out, and left in full because another edit asked for that.
TEST_F(TwoModules, WhoseAckLeftAfterAllKeepsNothingBackAnyMore)
{
  const auto more = [&] { fixture.data(peers, 1448, peers.local_ts(fixture.now())); };
  const Seq now = peers.remote_isn + peers.received;
  both({ .edit = { .ack = now - 1448u } }, {});
  ASSERT_EQ(fixture.view(peers).sent_ack, now - 1448u);
  more();
  const Outcome outcome = both({ .edit = { .ts_echo = peers.recent } }, { .verdict = Verdict::drop });
  ASSERT_EQ(outcome.verdict, Verdict::pass);
  ASSERT_EQ(fixture.view(peers).sent_ack, now + 1448u);
  more();
  first.act = {};
  second.act = [&](const Event& event, const FlowView& flow) -> Plan
  {
    if (is_ack(event)) return { .verdict = Verdict::drop, .wake = event.now + ms(3) };
    if (event.kind != EventKind::alarm) return {};
    second.room[0] = newest(flow, Link::wifi, event.now);
    return { .inject = std::span { second.room }.first(1) };
  };
  fixture.run_for(ms(1));
  ASSERT_EQ(fixture.ack(peers).verdict, Verdict::drop);
  fixture.run_for(ms(5));
  EXPECT_EQ(fixture.view(peers).sent_ack, fixture.view(peers).rcv_nxt) << "nobody will say the rest";
}

// ---- one owner for TSval ----

struct Reserving : TwoModules
{
  // The first module asks for the TSvals after that of the ACK at hand.
  void reserve()
  {
    first.act = [](const Event& event, const FlowView&)
    {
      if (!is_ack(event)) return Plan {};
      return Plan { .reserve = TsReservation { .what = TsReservation::What::onward,
                                               .from = event.segment->timestamps->value + 1 } };
    };
    fixture.run_for(ms(5));
    fixture.ack(peers);
    first.act = {};
  }
  TsReservation::What reserved() { return fixture.view(peers).ts_reserved.what; }
};

TEST_F(Reserving, NothingElseLeavesWithAReservedValue)
{
  reserve();
  const TsClock frozen = peers.local_ts(fixture.now());
  ASSERT_EQ(reserved(), TsReservation::What::onward);
  fixture.run_for(ms(7));
  EXPECT_EQ(fixture.ack(peers).edit.ts_value, frozen) << "the kernel's own";
  second.act = [&](const Event& event, const FlowView& flow)
  {
    second.room[0] = newest(flow, Link::wifi, event.now);
    return Plan { .inject = std::span { second.room }.first(1) };
  };
  fixture.ack(peers);
  ASSERT_EQ(fixture.actions.injected.size(), 1u);
  EXPECT_EQ(fixture.actions.injected[0].segment.timestamps->value, frozen) << "another module's";
  first.act = [&](const Event& event, const FlowView& flow)
  {
    first.room[0] = newest(flow, Link::cell, event.now);
    return Plan { .inject = std::span { first.room }.first(1) };
  };
  second.act = {};
  fixture.ack(peers);
  ASSERT_EQ(fixture.actions.injected.size(), 2u);
  EXPECT_EQ(fixture.actions.injected[1].segment.timestamps->value, peers.local_ts(fixture.now())) << "the owner's";
  EXPECT_EQ(fixture.chain.stats().ts_lowered, 4u);
}

// The server's clock is another one: its values say nothing of what is reserved, whatever they are.
TEST_F(Reserving, DataOfTheServersThatWaitsForAVerdictKeepsItsTsval)
{
  reserve();
  const TsClock from = fixture.view(peers).ts_reserved.from;
  for (const TsReservation::What what : { TsReservation::What::onward, TsReservation::What::odd })
  {
    fixture.flow(peers).view.ts_reserved.what = what;
    for (const TsClock value : { from, from + 1, from + 1'000'000, from - 1 })
    {
      Segment arrives = peers.data_in(fixture.now(), 1448, peers.local_ts(fixture.now()));
      arrives.timestamps->value = value;
      EXPECT_EQ(fixture.chain.segment(arrives, true, fixture.now()).edit.ts_value, std::nullopt);
    }
  }
  EXPECT_EQ(fixture.chain.stats().ts_lowered, 0u);
}

TEST_F(Reserving, ASecondModuleIsRefusedAndNeverTakenOut)
{
  reserve();
  second.act = [](const Event& event, const FlowView&)
  {
    return Plan { .reserve = TsReservation { .what = TsReservation::What::odd,
                                             .from = event.segment->timestamps->value + 1 } };
  };
  fixture.ack(peers);
  EXPECT_EQ(reserved(), TsReservation::What::onward);
  EXPECT_EQ(fixture.chain.stats(1).conflicts, 1u);
  EXPECT_EQ(fixture.chain.stats(1).excluded, 0u);
}

TEST_F(Reserving, DataThatWaitsForItsAcknowledgementPreventsIt)
{
  peers.next += 100; // sent by Wi-Fi, seen by nobody
  reserve();
  EXPECT_EQ(reserved(), TsReservation::What::none) << "sent once more it could carry any TSval";
  fixture.data(peers, 1448, peers.local_ts(fixture.now())); // acknowledges it
  reserve();
  EXPECT_EQ(reserved(), TsReservation::What::onward);
}

TEST_F(Reserving, UnseenDataEndsIt)
{
  reserve();
  peers.next += 100;
  fixture.data(peers, 1448, peers.local_ts(fixture.now()));
  EXPECT_EQ(reserved(), TsReservation::What::none) << "its acknowledgement tells of it";
  EXPECT_EQ(fixture.chain.stats().ts_spoiled, 1u);
}

TEST_F(Reserving, ItMayChangeWhileQueuedDataWaits)
{
  reserve();
  fixture.run_for(ms(5));
  const TsClock frozen = fixture.view(peers).sent_ts_value;
  const Outcome outcome = *fixture.show(peers.data_out(fixture.now(), 100));
  EXPECT_EQ(outcome.edit.ts_value, frozen) << "queued data leaves with a free value";
  peers.next += 100;
  ASSERT_EQ(reserved(), TsReservation::What::onward);
  first.act = [](const Event& event, const FlowView&)
  {
    return Plan { .reserve = TsReservation { .what = TsReservation::What::odd,
                                             .from = event.segment->timestamps->value + 1 } };
  };
  fixture.ack(peers);
  EXPECT_EQ(reserved(), TsReservation::What::odd) << "else what follows would leave with an ever older value";
}

TEST_F(Reserving, ItEndsWithItsModule)
{
  reserve();
  fixture.chain.enable(0, false, fixture.now());
  EXPECT_EQ(reserved(), TsReservation::What::none);
}

TEST_F(TwoModules, WhatCouldNotBeSentIsTakenBack)
{
  const Seq told = fixture.view(peers).sent_ack;
  fixture.actions.bytes_each = 0;
  second.act = [&](const Event& event, const FlowView& flow)
  {
    second.room[0] = newest(flow, Link::cell, event.now);
    return Plan { .verdict = Verdict::drop, .inject = std::span { second.room }.first(1) };
  };
  fixture.run_for(ms(5));
  fixture.ack(peers);
  EXPECT_EQ(fixture.view(peers).sent_ack, told);
  EXPECT_EQ(fixture.chain.stats().injected_failed, 1u);
}

// ---- faults of modules ----

TEST(ChainFaults, AThrowingModuleIsTakenOutOfThatFlowOnly)
{
  Puppet bad { "freeze" }, good { "offload" };
  Fixture fixture { { &bad, &good } };
  Peers one {}, other {};
  other.key.local_port = 40001;
  fixture.open(one);
  fixture.open(other);
  bad.act = [&](const Event&, const FlowView& flow) -> Plan
  {
    if (flow.key.local_port == 40000) throw std::runtime_error { "oops" };
    return {};
  };
  const auto calls = good.events.size();
  const Outcome outcome = fixture.ack(one);
  EXPECT_EQ(outcome.verdict, Verdict::pass);
  EXPECT_TRUE(outcome.edit.empty());
  EXPECT_EQ(good.events.size(), calls + 1) << "the others go on";
  EXPECT_EQ(fixture.chain.stats(0).faults, 1u);
  EXPECT_EQ(fixture.chain.stats(0).excluded, 1u);

  bad.events.clear();
  fixture.ack(one);
  EXPECT_TRUE(bad.events.empty()) << "never asked again on this flow";
  fixture.ack(other);
  EXPECT_EQ(bad.events.size(), 1u) << "still asked on the other";
  EXPECT_EQ(fixture.chain.stats(0).faults, 1u);
}

TEST(ChainFaults, AModuleThatCannotBeginIsTakenOut)
{
  Puppet bad { "freeze" };
  bad.begin_throws = true;
  {
    Fixture fixture { { &bad } };
    Peers peers {};
    EXPECT_NO_THROW(fixture.open(peers));
    EXPECT_EQ(fixture.chain.stats(0).faults, 1u);
    EXPECT_EQ(fixture.chain.stats(0).flows, 0u);
    EXPECT_TRUE(bad.events.empty());
    EXPECT_NO_THROW(fixture.ack(peers));
    EXPECT_EQ(fixture.chain.stats(0).faults, 1u);
  }
  EXPECT_EQ(bad.ended, 0) << "what never began does not end";
}

TEST(ChainFaults, ASlowModuleIsTakenOut)
{
  Tick clock {};
  Puppet slow { "freeze" };
  Fixture fixture { { &slow }, { .call_limit = ms(5), .stopwatch = [&] { return clock; } } };
  Peers peers {};
  fixture.open(peers);
  slow.act = [&](const Event&, const FlowView&)
  {
    clock += ms(5);
    return Plan { .edit = { .window = std::uint16_t { 1 } } };
  };
  EXPECT_EQ(fixture.ack(peers).edit.window, 1) << "the limit itself is allowed";
  EXPECT_EQ(fixture.chain.stats(0).faults, 0u);
  slow.act = [&](const Event&, const FlowView&)
  {
    clock += ms(5) + Duration { 1 };
    return Plan { .edit = { .window = std::uint16_t { 1 } } };
  };
  EXPECT_EQ(fixture.ack(peers).edit.window, 1) << "the thread may have lost its core, once";
  EXPECT_EQ(fixture.ack(peers).edit.window, 1) << "or twice";
  EXPECT_EQ(fixture.chain.stats(0).excluded, 0u);
  EXPECT_TRUE(fixture.ack(peers).edit.empty());
  EXPECT_EQ(fixture.chain.stats(0).faults, 1u);
  EXPECT_EQ(fixture.chain.stats(0).excluded, 1u);
}

TEST(ChainFaults, ALostCoreNowAndThenIsForgiven)
{
  Puppet module { "offload" };
  Tick clock {};
  Fixture fixture { { &module }, { .call_limit = ms(5), .stopwatch = [&] { return clock; } } };
  Peers peers {};
  fixture.open(peers);
  int calls = 0;
  int every = 600;
  module.act = [&](const Event&, const FlowView&)
  {
    if (++calls % every == 0) clock += ms(50);
    return Plan {};
  };
  for (int i = 0; i < 6000; ++i)
    fixture.ack(peers);
  EXPECT_EQ(fixture.chain.stats(0).excluded, 0u) << "ten times in six thousand decisions";
  every = 100;
  for (int i = 0; i < 600; ++i)
    fixture.ack(peers);
  EXPECT_EQ(fixture.chain.stats(0).excluded, 1u);
}

TEST(ChainFaults, AnImpossiblePlanTakesTheModuleOut)
{
  Puppet bad { "freeze" }, good { "offload" };
  Fixture fixture { { &bad, &good } };
  Peers one {}, other {};
  other.key.local_port = 40001;
  fixture.open(one);
  fixture.open(other);
  good.act = [](const Event&, const FlowView&) { return Plan { .edit = { .window = std::uint16_t { 9 } } }; };
  bad.act = [&](const Event& event, const FlowView& flow)
  {
    bad.room[0] = newest(flow, Link::wifi, event.now);
    return Plan { .edit = { .ack = flow.rcv_nxt + 1 },
                  .inject = std::span { bad.room }.first(1),
                  .wake = event.now + ms(1),
                  .why = "mad" };
  };
  const Outcome outcome = fixture.ack(one);
  EXPECT_EQ(outcome.edit.ack, std::nullopt);
  EXPECT_EQ(outcome.edit.window, 9) << "the plan of the sane module stands";
  EXPECT_TRUE(fixture.actions.injected.empty()) << "no part of the plan is carried out";
  EXPECT_EQ(fixture.count("mad"), 0u);
  EXPECT_EQ(fixture.chain.stats(0).violations[static_cast<std::size_t>(Violation::ack_beyond_received)], 1u);
  EXPECT_EQ(fixture.chain.stats(0).excluded, 1u);
  bad.events.clear();
  fixture.run_for(ms(10));
  fixture.ack(one);
  EXPECT_TRUE(bad.events.empty()) << "neither segment nor alarm";
}

TEST(ChainFaults, ARefusalCostsThePlanOnly)
{
  Puppet puppet { "offload" };
  Fixture fixture { { &puppet } };
  Peers peers {};
  fixture.open(peers);
  fixture.links[static_cast<std::size_t>(Link::cell)].up = false;
  fixture.chain.links(fixture.links, fixture.now());
  puppet.act = [](const Event& event, const FlowView&)
  {
    if (event.kind == EventKind::alarm) return Plan {};
    return Plan { .edit = { .route = Link::cell }, .wake = event.now + ms(3) };
  };
  puppet.events.clear();
  EXPECT_TRUE(fixture.ack(peers).edit.empty());
  EXPECT_EQ(fixture.chain.stats(0).violations[static_cast<std::size_t>(Violation::route_unusable)], 1u);
  EXPECT_EQ(fixture.chain.stats(0).excluded, 0u);
  fixture.run_for(ms(5));
  EXPECT_EQ(puppet.heard(EventKind::alarm), 1) << "it keeps its timer";
  fixture.links[static_cast<std::size_t>(Link::cell)].up = true;
  fixture.chain.links(fixture.links, fixture.now());
  EXPECT_EQ(fixture.ack(peers).edit.route, Link::cell) << "and may go on";
}

// One module lets all of it go with an ACK that another leaves out: what that one says later says all.
TEST(ChainHolds, WhatIsWithheldNoMoreIsSaidByWhoeverLeavesTheAckOut)
{
  Puppet moves { "a" }, withholds { "b" };
  Fixture fixture { { &moves, &withholds } };
  Peers peers {};
  fixture.open(peers);
  fixture.download(peers, 20, ms(5), ms(20));
  moves.act = [](const Event& event, const FlowView&)
  { return is_ack(event) ? Plan { .edit = { .ack = event.segment->ack - 2u } } : Plan {}; };
  fixture.download(peers, 1, ms(5), ms(20));
  ASSERT_EQ(fixture.flow(peers).holds[0].withheld, 2u);
  moves.act = {};
  withholds.act = [&](const Event& event, const FlowView& flow) -> Plan
  {
    if (event.kind == EventKind::alarm)
    {
      withholds.room[0] = latest_ack(flow, Link::wifi);
      return { .inject = std::span { withholds.room }.first(1) };
    }
    return is_ack(event) ? Plan { .verdict = Verdict::drop, .wake = event.now + ms(3) } : Plan {};
  };
  fixture.download(peers, 1, ms(5), ms(20));
  fixture.run_for(ms(5));
  ASSERT_EQ(fixture.actions.injected.size(), 1u);
  EXPECT_EQ(fixture.actions.injected[0].segment.ack, fixture.view(peers).rcv_nxt);
}

// A block at or above the number of its ACK is one beyond a hole (RFC 2883).
TEST(ChainHolds, ADuplicateIsNotReportedAboveANumberThatAnotherModuleKeepsDown)
{
  Puppet withholds { "a" }, reports { "b" };
  Fixture fixture { { &withholds, &reports } };
  Peers peers {};
  fixture.open(peers);
  fixture.download(peers, 20, ms(5), ms(20));
  withholds.act = [](const Event& event, const FlowView&)
  { return is_ack(event) ? Plan { .edit = { .ack = event.segment->ack - 2000u } } : Plan {}; };
  reports.act = [&](const Event& event, const FlowView& flow) -> Plan
  {
    if (!is_ack(event)) return {};
    reports.room[0] = newest(flow, Link::wifi, event.now);
    reports.room[0].sack_blocks = { { { flow.rcv_nxt - 1448u, flow.rcv_nxt },
                                      { flow.rcv_nxt - 9000u, flow.rcv_nxt - 7552u } } };
    reports.room[0].sack_count = 2;
    return { .inject = std::span { reports.room }.first(1) };
  };
  fixture.download(peers, 1, ms(5), ms(20));
  ASSERT_EQ(fixture.actions.injected.size(), 1u);
  const InjectedSegment& injected = fixture.actions.injected[0].segment;
  const Seq held = fixture.view(peers).rcv_nxt;
  ASSERT_EQ(injected.ack, held - 2000u);
  ASSERT_EQ(injected.sack_count, 1);
  EXPECT_EQ(injected.sack_blocks[0], (SackBlock { held - 9000u, held - 7552u }));
  EXPECT_EQ(fixture.violations(), 0u);
}

// An ACK of its own, 3 ms after whatever was last.
void speak_after_a_while(Puppet& puppet)
{
  puppet.act = [&puppet](const Event& event, const FlowView& flow) -> Plan
  {
    if (event.kind != EventKind::alarm) return { .wake = event.now + ms(3) };
    puppet.room[0] = latest_ack(flow, Link::wifi);
    return { .inject = std::span { puppet.room }.first(1) };
  };
}

// A router may choose a way by the flow label (RFC 6437), and a load balancer the server.
TEST(ChainInject, WhatIsInjectedIsOfTheClassOfTheFlowsOwnPackets)
{
  Puppet puppet { "freeze" };
  Fixture fixture { { &puppet } };
  Peers peers { .key = key_v6() };
  fixture.open(peers);
  fixture.download(peers, 3, ms(5), ms(20));
  speak_after_a_while(puppet);
  Segment ack = peers.ack(fixture.now());
  ack.ip_class = 0x0201'2345;
  fixture.show(ack);
  Segment data = peers.data_in(fixture.now(), 1000, peers.local_ts(fixture.now()));
  data.ip_class = 0x0005'4321; // the server's own
  fixture.show(data);
  fixture.run_for(ms(5));
  ASSERT_EQ(fixture.actions.injected.size(), 1u);
  EXPECT_EQ(fixture.actions.injected[0].ip_class, 0x0201'2345u);
}

// A request left beside the queue, and the server has acknowledged it: with the number of before the server would take
// nothing of an ACK (RFC 9293 3.10.7.4).
TEST(ChainInject, WhatIsInjectedBeginsWhereTheServerWaits)
{
  Puppet puppet { "freeze" };
  Fixture fixture { { &puppet } };
  Peers peers {};
  fixture.open(peers);
  fixture.download(peers, 3, ms(5), ms(20));
  speak_after_a_while(puppet);
  fixture.ack(peers);
  for (const std::uint32_t unseen : { 0u, 300u })
  {
    peers.next += unseen;
    fixture.show(peers.data_in(fixture.now(), 1000, peers.local_ts(fixture.now())));
    fixture.run_for(ms(5));
    ASSERT_FALSE(fixture.actions.injected.empty());
    EXPECT_EQ(fixture.actions.injected.back().segment.seq, peers.local_isn + peers.next) << unseen;
    fixture.actions.injected.clear();
  }
}

// A dropped ACK must be followed by another. When the module that dropped it is taken out, the chain sends it instead.
TEST(ChainFaults, WhatAFaultyModuleHeldBackIsSentByTheChain)
{
  Puppet puppet { "offload" };
  Fixture fixture { { &puppet } };
  Peers peers {};
  fixture.open(peers);
  fixture.download(peers, 3, ms(5), ms(20));
  puppet.act = [](const Event& event, const FlowView&) -> Plan
  {
    if (event.kind == EventKind::alarm) throw std::runtime_error { "oops" };
    return is_ack(event) ? Plan { .verdict = Verdict::drop, .wake = event.now + ms(3) } : Plan {};
  };
  EXPECT_EQ(fixture.download(peers, 1, ms(5), ms(20)), 1);
  fixture.run_for(ms(5));
  ASSERT_EQ(fixture.actions.injected.size(), 1u);
  EXPECT_EQ(fixture.actions.injected[0].segment.ack, fixture.view(peers).rcv_nxt);
  EXPECT_EQ(fixture.actions.injected[0].segment.by, Link::wifi);
  EXPECT_EQ(fixture.actions.injected[0].why, "chain: ACK that a module withheld");
  EXPECT_EQ(fixture.view(peers).sent_ack, fixture.view(peers).rcv_nxt);
}

// A segment of this host that waits for its verdict tells the server by itself; one of the server's does not.
TEST(ChainFaults, WhatIsHeldBackIsSentWhenAModuleFailsOverAnArrival)
{
  for (const bool queued : { false, true })
  {
    Puppet puppet { "offload" };
    Fixture fixture { { &puppet } };
    Peers peers {};
    fixture.open(peers);
    fixture.download(peers, 3, ms(5), ms(20));
    puppet.act = [](const Event& event, const FlowView&)
    { return is_ack(event) ? Plan { .verdict = Verdict::drop, .wake = event.now + ms(3'000) } : Plan {}; };
    EXPECT_EQ(fixture.download(peers, 1, ms(5), ms(20)), 1);
    puppet.act = [](const Event&, const FlowView&) -> Plan { throw std::runtime_error { "oops" }; };
    const Segment arrives = peers.data_in(fixture.now(), 1448, peers.local_ts(fixture.now()));
    fixture.chain.segment(arrives, queued, fixture.now());
    ASSERT_EQ(fixture.actions.injected.size(), 1u) << "queued: " << queued;
    EXPECT_EQ(fixture.actions.injected[0].segment.ack, fixture.view(peers).rcv_nxt);
  }
}

TEST(ChainFaults, WhatASwitchedOffModuleKeepsIsSentByTheChain)
{
  Puppet puppet { "offload" };
  Fixture fixture { { &puppet } };
  Peers peers {};
  fixture.open(peers);
  fixture.download(peers, 3, ms(5), ms(20));
  puppet.act = [](const Event& event, const FlowView&)
  { return is_ack(event) ? Plan { .verdict = Verdict::drop, .wake = event.now + ms(3'000) } : Plan {}; };
  fixture.download(peers, 1, ms(5), ms(20));
  fixture.chain.enable(0, false, fixture.now());
  ASSERT_EQ(fixture.actions.injected.size(), 1u);
  EXPECT_EQ(fixture.actions.injected[0].segment.ack, fixture.view(peers).rcv_nxt);
}

// With AccECN every ACK carries a counter. What is injected repeats it, whoever injects.
TEST(ChainFaults, InjectedAcksRepeatTheCounterOfAccurateEcn)
{
  for (const unsigned count : { 0u, 1u, 5u, 7u })
  {
    Puppet puppet { "offload" };
    Fixture fixture { { &puppet } };
    Peers peers {};
    peers.ace = static_cast<std::uint8_t>(count);
    fixture.open(peers);
    fixture.download(peers, 3, ms(5), ms(20));
    puppet.act = [&](const Event& event, const FlowView& flow) -> Plan
    {
      if (!is_ack(event)) return {};
      puppet.room[0] = newest(flow, Link::cell, event.now);
      puppet.room[1] = newest(flow, Link::cell, event.now + ms(2));
      puppet.room[0].window = puppet.room[1].window = 1;
      return { .edit = { .window = std::uint16_t { 1 } }, .inject = std::span { puppet.room }.first(2) };
    };
    fixture.download(peers, 1, ms(5), ms(20));
    fixture.run_for(ms(3));
    fixture.chain.enable(0, false, fixture.now()); // the window is opened again by the chain
    ASSERT_EQ(fixture.actions.injected.size(), 3u);
    for (const InjectedRecord& one : fixture.actions.injected)
      EXPECT_EQ(one.segment.flags, static_cast<unsigned>(tcp_flag::ack) | count << 6) << one.why;
    EXPECT_EQ(fixture.violations(), 0u);
  }
}

TEST(ChainFaults, WhatCouldNotLeaveByTheBudgetLeavesByTheHomeLink)
{
  Puppet puppet { "offload" };
  Fixture fixture { { &puppet }, { .cell_budget = 50 } };
  Peers peers {};
  fixture.open(peers);
  fixture.download(peers, 3, ms(5), ms(20));
  puppet.act = [&](const Event& event, const FlowView& flow) -> Plan
  {
    if (event.kind == EventKind::alarm)
    {
      puppet.room[0] = newest(flow, Link::cell, event.now);
      return { .inject = std::span { puppet.room }.first(1) };
    }
    return is_ack(event) ? Plan { .verdict = Verdict::drop, .wake = event.now + ms(3) } : Plan {};
  };
  fixture.download(peers, 1, ms(5), ms(20));
  fixture.run_for(ms(5));
  ASSERT_EQ(fixture.actions.injected.size(), 1u);
  EXPECT_EQ(fixture.actions.injected[0].segment.by, Link::wifi);
  EXPECT_EQ(fixture.actions.injected[0].segment.ack, fixture.view(peers).rcv_nxt);
}

// ---- time ----

struct OneModule : ::testing::Test
{
  OneModule() { fixture.open(peers); }
  // One ACK of new data with this plan; silent afterwards.
  Outcome once(std::function<Plan(const Event&, const FlowView&)> act)
  {
    fixture.data(peers, 1448, peers.local_ts(fixture.now()));
    puppet.act = [act](const Event& event, const FlowView& flow) { return is_ack(event) ? act(event, flow) : Plan {}; };
    const Outcome outcome = fixture.ack(peers);
    puppet.act = {};
    puppet.events.clear();
    return outcome;
  }
  std::vector<Tick> alarms()
  {
    std::vector<Tick> all {};
    puppet.act = [&](const Event& event, const FlowView&)
    {
      if (event.kind == EventKind::alarm) all.push_back(event.now);
      return Plan {};
    };
    fixture.run_for(ms(500));
    return all;
  }
  Puppet puppet { "offload" };
  Fixture fixture { { &puppet } };
  Peers peers {};
};

TEST_F(OneModule, AnAlarmFiresOnceAtItsTime)
{
  const Tick due = fixture.now() + ms(20);
  once([&](const Event&, const FlowView&) { return Plan { .wake = due }; });
  EXPECT_EQ(alarms(), std::vector<Tick> { due });
}

TEST_F(OneModule, ALaterWakeReplacesAnEarlierOne)
{
  const Tick early = fixture.now() + ms(20), late = fixture.now() + ms(40);
  once([&](const Event&, const FlowView&) { return Plan { .wake = early }; });
  once([&](const Event&, const FlowView&) { return Plan { .wake = late }; });
  EXPECT_EQ(alarms(), std::vector<Tick> { late });
}

TEST_F(OneModule, AnEarlierWakeReplacesALaterOne)
{
  const Tick early = fixture.now() + ms(20), late = fixture.now() + ms(40);
  once([&](const Event&, const FlowView&) { return Plan { .wake = late }; });
  once([&](const Event&, const FlowView&) { return Plan { .wake = early }; });
  EXPECT_EQ(alarms(), std::vector<Tick> { early });
}

TEST_F(OneModule, BackAndForthStillFiresOnce)
{
  const Tick begin = fixture.now();
  for (const double due : { 40., 20., 60., 30., 50. })
    once([&](const Event&, const FlowView&) { return Plan { .wake = begin + ms(due) }; });
  EXPECT_EQ(alarms(), std::vector<Tick> { begin + ms(50) });
}

TEST_F(OneModule, APlanWithoutAWakeKeepsTheAlarm)
{
  const Tick due = fixture.now() + ms(20);
  once([&](const Event&, const FlowView&) { return Plan { .wake = due }; });
  once([&](const Event&, const FlowView&) { return Plan {}; });
  EXPECT_EQ(alarms(), std::vector<Tick> { due });
}

TEST_F(OneModule, AnAlarmInThePastCannotSpin)
{
  int fired = 0;
  puppet.act = [&](const Event& event, const FlowView&)
  {
    fired += event.kind == EventKind::alarm ? 1 : 0;
    return Plan { .wake = event.now - ms(100) };
  };
  fixture.ack(peers);
  fixture.run_for(ms(10));
  EXPECT_GT(fired, 10);
  EXPECT_LE(fired, 101) << "at most one per 100 us";
}

TEST_F(OneModule, AdvanceSaysWhenItIsNeededNext)
{
  const Tick due = fixture.now() + ms(20);
  once([&](const Event&, const FlowView&) { return Plan { .wake = due }; });
  EXPECT_EQ(fixture.chain.advance(fixture.now()), due);
  // Nothing to do but to forget the flow, when it has been idle for two minutes.
  EXPECT_GT(fixture.chain.advance(due), due + ms(100'000));
  EXPECT_LE(fixture.chain.advance(due), due + ms(120'000));
  EXPECT_EQ(fixture.chain.advance(due + ms(119'900)), due + ms(120'900))
      << "idle flows are looked for once a second at most";
}

TEST_F(OneModule, InjectedSegmentsLeaveAtTheirTimesAndInOrder)
{
  const Tick begin = fixture.now();
  fixture.data(peers, 1448, peers.local_ts(begin)); // so that there is something to number them by
  once(
      [&](const Event& event, const FlowView& flow)
      {
        puppet.room[0] = newest(flow, Link::wifi, begin + ms(30));
        puppet.room[1] = newest(flow, Link::cell, event.now);
        puppet.room[2] = newest(flow, Link::wifi, begin + ms(10));
        puppet.room[3] = newest(flow, Link::cell, begin + ms(20));
        return Plan { .inject = puppet.room, .why = "four" };
      });
  ASSERT_EQ(fixture.actions.injected.size(), 1u) << "one at once";
  // The loop may be late for all three: they leave in the order of their times all the same.
  fixture.actions.now = begin + ms(100);
  fixture.chain.advance(fixture.actions.now);
  ASSERT_EQ(fixture.actions.injected.size(), 4u);
  for (std::size_t i = 1; i < 4; ++i)
  {
    EXPECT_EQ(fixture.actions.injected[i].segment.at, begin + ms(10. * static_cast<double>(i)));
    EXPECT_EQ(fixture.actions.injected[i].why, "four");
  }
  EXPECT_EQ(fixture.chain.stats().injected, 4u);
  EXPECT_EQ(fixture.chain.stats().cell_bytes, 104u);
}

TEST_F(OneModule, ADelayedInjectedOfAModuleThatIsSwitchedOffStays)
{
  once(
      [&](const Event& event, const FlowView& flow)
      {
        puppet.room[0] = newest(flow, Link::wifi, event.now + ms(30));
        return Plan { .inject = std::span { puppet.room }.first(1) };
      });
  fixture.chain.enable(0, false, fixture.now());
  fixture.run_for(ms(100));
  EXPECT_TRUE(fixture.actions.injected.empty());
}

TEST_F(OneModule, NoDelayedInjectedSpeaksForAnAddressThatIsGone)
{
  once(
      [&](const Event&, const FlowView& flow)
      {
        puppet.room[0] = newest(flow, Link::wifi, fixture.now() + ms(10));
        return Plan { .inject = std::span { puppet.room }.first(1) };
      });
  fixture.chain.links(fixture.links, fixture.now(), [](const Address&) { return Link::other; });
  fixture.run_for(ms(100));
  EXPECT_TRUE(fixture.actions.injected.empty());
  EXPECT_EQ(fixture.chain.stats().injected_outdated, 1u);
}

// The user blames Tandem, and switches it off before the network is back.
TEST_F(OneModule, WhatWasSwitchedOffWhileTheAddressWasAwayLetsGoWhenItIsBack)
{
  puppet.act = [](const Event& event, const FlowView& flow)
  { return is_ack(event) ? Plan { .edit = { .ack = flow.sent_ack, .window = 0 } } : Plan {}; };
  fixture.data(peers, 1448, peers.local_ts(fixture.now()));
  fixture.ack(peers);
  const Seq received = fixture.view(peers).rcv_nxt;
  ASSERT_TRUE(received.after(fixture.view(peers).sent_ack));
  fixture.links[0].up = false;
  fixture.chain.links(fixture.links, fixture.now(), [](const Address&) { return Link::other; });
  fixture.run_for(ms(1000));
  fixture.chain.enable(0, false, fixture.now());
  fixture.run_for(ms(1000));
  EXPECT_TRUE(fixture.actions.injected.empty()) << "in the name of an address that is not here";
  fixture.links[0].up = true;
  fixture.chain.links(fixture.links, fixture.now(), [](const Address&) { return Link::wifi; });
  ASSERT_EQ(fixture.actions.injected.size(), 1u);
  EXPECT_EQ(fixture.actions.injected[0].segment.ack, received);
  EXPECT_EQ(fixture.actions.injected[0].segment.window, peers.window);
  fixture.chain.links(fixture.links, fixture.now(), [](const Address&) { return Link::wifi; });
  EXPECT_EQ(fixture.actions.injected.size(), 1u);
}

TEST_F(OneModule, AnAlarmThatIsDueWhileTheAddressIsAwayFiresWhenItIsBack)
{
  for (const double away : { 10., 200. })
  {
    const Tick begin = fixture.now(), due = begin + ms(20);
    once([&](const Event&, const FlowView&) { return Plan { .wake = due }; });
    fixture.chain.links(fixture.links, fixture.now(), [](const Address&) { return Link::other; });
    std::vector<Tick> all {};
    puppet.act = [&](const Event& event, const FlowView&)
    {
      if (event.kind == EventKind::alarm) all.push_back(event.now);
      return Plan {};
    };
    fixture.run_for(ms(away));
    EXPECT_TRUE(all.empty());
    fixture.chain.links(fixture.links, fixture.now(), [](const Address&) { return Link::wifi; });
    fixture.run_for(ms(500));
    ASSERT_EQ(all.size(), 1u);
    EXPECT_GE(all[0], std::max(due, begin + ms(away)));
    EXPECT_LE(all[0], std::max(due, begin + ms(away)) + ms(1));
  }
}

TEST_F(OneModule, AnAddressThatGoesIsALinkThatIsDown)
{
  std::vector<bool> told {};
  puppet.act = [&](const Event& event, const FlowView& flow)
  {
    if (event.kind != EventKind::link) return Plan {};
    told.push_back((*event.links)[static_cast<std::size_t>(flow.link)].up);
    puppet.room[0] = newest(flow, Link::cell, event.now);
    return told.back() ? Plan {} : Plan { .inject = std::span { puppet.room }.first(1) };
  };
  const auto links = [&](Link owner)
  { fixture.chain.links(fixture.links, fixture.now(), [owner](const Address&) { return owner; }); };
  links(Link::other);
  links(Link::other);
  links(Link::wifi);
  EXPECT_EQ(told, (std::vector<bool> { false, true }));
  EXPECT_TRUE(fixture.actions.injected.empty()) << "in the name of an address that is gone";
}

TEST_F(OneModule, ADelayedInjectedIsCheckedAgainWhenItLeaves)
{
  once(
      [&](const Event& event, const FlowView& flow)
      {
        puppet.room[0] = newest(flow, Link::wifi, event.now + ms(30));
        puppet.room[1] = newest(flow, Link::cell, event.now + ms(30));
        return Plan { .inject = std::span { puppet.room }.first(2) };
      });
  // Meanwhile younger timestamps have left, so that PAWS would reject the older ones.
  fixture.run_for(ms(10));
  fixture.ack(peers);
  fixture.run_for(ms(100));
  EXPECT_TRUE(fixture.actions.injected.empty());
  EXPECT_EQ(fixture.chain.stats().injected_outdated, 2u);
  EXPECT_EQ(fixture.chain.stats(0).excluded, 0u) << "the module is late, not wrong";
}

TEST_F(OneModule, AInjectedThatCannotBeSentIsCounted)
{
  fixture.actions.bytes_each = 0;
  once(
      [&](const Event& event, const FlowView& flow)
      {
        puppet.room[0] = newest(flow, Link::cell, event.now);
        return Plan { .inject = std::span { puppet.room }.first(1) };
      });
  EXPECT_EQ(fixture.chain.stats().injected_failed, 1u);
  EXPECT_EQ(fixture.chain.stats().injected, 0u);
  EXPECT_EQ(fixture.chain.stats().cell_bytes, 0u);
}

TEST(ChainBudget, IsSpentByRoutesAndInjectedSegmentsAndThenRefuses)
{
  Puppet puppet { "offload" };
  Fixture fixture { { &puppet }, { .cell_budget = 300 } };
  Peers peers {};
  fixture.open(peers);
  puppet.act = [](const Event&, const FlowView&) { return Plan { .edit = { .route = Link::cell } }; };
  int routed = 0;
  for (int i = 0; i < 10; ++i)
    routed += fixture.ack(peers).edit.route ? 1 : 0;
  EXPECT_EQ(routed, 5) << "52 bytes each";
  EXPECT_EQ(fixture.chain.stats().cell_bytes, 260u);
  EXPECT_EQ(fixture.chain.link_states()[static_cast<std::size_t>(Link::cell)].bytes_out, 260u);
  EXPECT_EQ(fixture.chain.stats(0).violations[static_cast<std::size_t>(Violation::budget)], 5u);
  EXPECT_EQ(fixture.chain.stats(0).excluded, 0u);
}

// MPTCP's own subflow on the cellular link: the kernel sends, on the request of a module.
TEST(ChainBudget, IsSpentByTheCellularSubflowThatAModuleRequests)
{
  Puppet puppet { "rate" };
  puppet.wants = { .observe = traffic::egress_pure_ack | traffic::ingress_data, .every_link = true };
  Fixture fixture { { &puppet }, { .cell_budget = 100'000 } };
  Peers peers {};
  const auto by_cell = [&](Segment segment, bool subflow = true)
  {
    segment.link = Link::cell;
    if (subflow) segment.options |= option::mptcp;
    if (subflow && segment.has(tcp_flag::syn)) segment.mptcp = MptcpSubtype::mp_join;
    fixture.chain.segment(segment, false, fixture.now());
  };
  const auto download = [&](Peers& one, int count)
  {
    for (int i = 0; i < count; ++i)
    {
      by_cell(one.data_in(fixture.now(), 1448, one.local_ts(fixture.now())));
      one.received += 1448;
      by_cell(one.ack(fixture.now()));
    }
  };
  by_cell(peers.syn(fixture.now()));
  by_cell(peers.syn_ack(fixture.now()));
  by_cell(peers.ack(fixture.now()));
  download(peers, 10);
  EXPECT_EQ(fixture.chain.stats().cell_bytes, 0u) << "nobody requested it";

  const std::array<LinkRequest, 1> request { { { .kind = RequestKind::mptcp_backup, .link = Link::cell } } };
  puppet.act = [&](const Event&, const FlowView&) { return Plan { .request = request, .why = "rate: cellular" }; };
  download(peers, 1); // from here on
  const std::uint64_t before = fixture.chain.stats().cell_bytes;
  download(peers, 10);
  const std::uint64_t each = 1448 + 72 * 3 / 2; // headers, and half an ACK
  EXPECT_NEAR(static_cast<double>(fixture.chain.stats().cell_bytes - before), 10. * static_cast<double>(each), 30);
  EXPECT_EQ(fixture.chain.stats(0).cell_bytes, fixture.chain.stats().cell_bytes);
  EXPECT_EQ(fixture.chain.link_states()[static_cast<std::size_t>(Link::cell)].bytes_out,
            fixture.chain.stats().cell_bytes);
  download(peers, 60);
  EXPECT_TRUE(fixture.chain.budget_spent());

  const std::uint64_t spent = fixture.chain.stats().cell_bytes;
  fixture.chain.enable(0, false, fixture.now());
  download(peers, 10);
  EXPECT_EQ(fixture.chain.stats().cell_bytes, spent) << "its request lapsed with it";
}

TEST(ChainRequests, AreHandedOn)
{
  Puppet puppet { "ecn" };
  Fixture fixture { { &puppet } };
  Peers peers {};
  fixture.open(peers);
  const std::array<LinkRequest, 1> request { { { .kind = RequestKind::ce_rate, .value = 0.25 } } };
  puppet.act = [&](const Event&, const FlowView&) { return Plan { .request = request, .why = "ecn: mark" }; };
  fixture.ack(peers);
  ASSERT_EQ(fixture.actions.requests.size(), 1u);
  EXPECT_EQ(fixture.actions.requests[0].first.value, 0.25);
  EXPECT_EQ(fixture.actions.requests[0].second, "ecn: mark");
}

// ---- several Wi-Fi links ----

TEST(ChainLinks, FlowsOfOtherLinksConcernOnlyWhoComparesLinks)
{
  Puppet deciding { "offload", 30 }, comparing { "ecn", 40 };
  comparing.wants = { .observe = traffic::egress_pure_ack | traffic::ingress_data, .every_link = true };
  Fixture fixture { { &deciding, &comparing } };
  EXPECT_TRUE(fixture.chain.interest().every_link);
  Peers peers {};
  const auto by_second = [](Segment segment)
  {
    segment.link = wifi_link(1);
    return segment;
  };
  for (const Segment& one : { peers.syn(fixture.now()), peers.syn_ack(fixture.now()), peers.ack(fixture.now()) })
    fixture.chain.segment(by_second(one), false, fixture.now());
  EXPECT_EQ(fixture.flow(peers).view.link, wifi_link(1));
  EXPECT_EQ(deciding.begun, 0);
  EXPECT_EQ(comparing.begun, 1);
  EXPECT_FALSE(fixture.chain.needs_queue(fixture.now())) << "nothing of it is ever queued";
  Peers other {};
  other.key.local_port = static_cast<std::uint16_t>(peers.key.local_port + 1);
  fixture.open(other);
  fixture.ack(other);
  EXPECT_EQ(deciding.begun, 1);
  EXPECT_TRUE(fixture.chain.needs_queue(fixture.now()));
  fixture.chain.enable(1, false, fixture.now());
  EXPECT_FALSE(fixture.chain.interest().every_link);
}

TEST(ChainLinks, CopiesOfAcksThatNobodyDecidesAboutGiveRoundTripTimes)
{
  for (const bool decides : { false, true })
  {
    Puppet puppet { "ecn" };
    puppet.wants = { .decide = decides ? traffic::egress_pure_ack : 0u,
                     .observe = traffic::egress_pure_ack | traffic::ingress_data,
                     .every_link = true };
    Fixture fixture { { &puppet } };
    Peers peers {};
    for (const Segment& one : { peers.syn(fixture.now()), peers.syn_ack(fixture.now()) })
      fixture.chain.segment(one, false, fixture.now());
    for (int i = 0; i < 5; ++i)
    {
      const TsClock sent = peers.local_ts(fixture.now());
      fixture.chain.segment(peers.ack(fixture.now()), false, fixture.now());
      fixture.run_for(ms(40));
      fixture.chain.segment(peers.data_in(fixture.now(), 1000, sent), false, fixture.now());
      peers.received += 1000;
    }
    EXPECT_EQ(fixture.view(peers).rtt_smoothed, decides ? Duration {} : Duration { ms(40) })
        << "a copy of what is queued as well does not tell when it left, or with which TSval";
  }
}

TEST(ChainLinks, ASilentSubflowIsKnownWhileItsConnectionLives)
{
  Puppet puppet { "ecn" };
  puppet.wants = { .observe = traffic::egress_pure_ack | traffic::ingress_data, .every_link = true };
  Fixture fixture { { &puppet }, { .table = { .idle = std::chrono::seconds { 10 } } } };
  Peers silent {}, living {}, stranger {};
  living.key.local_port = static_cast<std::uint16_t>(silent.key.local_port + 1);
  stranger.key.local_port = static_cast<std::uint16_t>(silent.key.local_port + 2);
  for (Peers* peers : { &silent, &living, &stranger })
  {
    Segment syn = peers->syn(fixture.now());
    syn.options |= option::mptcp;
    syn.mptcp = MptcpSubtype::mp_join;
    syn.mptcp_token = peers == &stranger ? 8 : 7;
    fixture.chain.segment(syn, false, fixture.now());
    fixture.chain.segment(peers->syn_ack(fixture.now()), false, fixture.now());
    fixture.chain.segment(peers->ack(fixture.now()), false, fixture.now());
  }
  for (int i = 0; i < 60; ++i)
  {
    fixture.run_for(ms(1000));
    fixture.chain.segment(living.ack(fixture.now()), false, fixture.now());
    fixture.chain.advance(fixture.now());
  }
  EXPECT_NE(fixture.chain.table().find(silent.key), nullptr);
  EXPECT_EQ(fixture.chain.table().find(stranger.key), nullptr) << "it has no sibling";
  for (int i = 0; i < 40; ++i)
  {
    fixture.run_for(ms(1000));
    fixture.chain.advance(fixture.now());
  }
  EXPECT_EQ(fixture.chain.table().size(), 0u) << "silent siblings do not keep each other";
}

// Each time a link goes and comes back the kernel makes another subflow by it, and says nothing of the one before.
TEST(ChainLinks, ASubflowWithASuccessorIsNotKeptByItsConnection)
{
  Puppet puppet { "ecn" };
  puppet.wants = { .observe = traffic::egress_pure_ack | traffic::ingress_data, .every_link = true };
  Fixture fixture { { &puppet }, { .table = { .idle = std::chrono::seconds { 10 } } } };
  std::array<Peers, 5> peers {};
  for (std::size_t i = 0; i < peers.size(); ++i)
  {
    Peers& one = peers[i];
    one.key.local_port = static_cast<std::uint16_t>(one.key.local_port + i);
    if (i > 0) one.key.local.bytes = { 10, 9, 9, 9 }; // the first one is by the other link
    Segment syn = one.syn(fixture.now());
    syn.options |= option::mptcp;
    syn.mptcp = MptcpSubtype::mp_join;
    syn.mptcp_token = 7;
    fixture.chain.segment(syn, false, fixture.now());
    fixture.chain.segment(one.syn_ack(fixture.now()), false, fixture.now());
    fixture.chain.segment(one.ack(fixture.now()), false, fixture.now());
    for (int second = 0; second < 30; ++second)
    {
      fixture.run_for(ms(1000));
      fixture.chain.segment(peers[0].ack(fixture.now()), false, fixture.now());
      fixture.chain.advance(fixture.now());
    }
  }
  EXPECT_NE(fixture.chain.table().find(peers[0].key), nullptr);
  EXPECT_NE(fixture.chain.table().find(peers[4].key), nullptr) << "the newest one is there, though silent";
  EXPECT_EQ(fixture.chain.table().size(), 2u) << "the others went when their link did";
}

// Of 4,000 connections with two subflows each one subflow is silent. A look at all flows for each of these had taken
// 1.6 s of the packet thread with 10,000 flows.
TEST(ChainLinks, SilentSubflowsCostNoLookAtAllFlowsEach)
{
  constexpr unsigned flows = 8000;
  Puppet puppet { "ecn" };
  puppet.wants = { .observe = traffic::egress_pure_ack | traffic::ingress_data, .every_link = true };
  Fixture fixture { { &puppet }, { .table = { .capacity = flows, .idle = std::chrono::seconds { 10 } } } };
  std::vector<Peers> living {};
  for (unsigned i = 0; i < flows; ++i)
  {
    Peers peers {};
    peers.key.local_port = static_cast<std::uint16_t>(1024 + i);
    if (i % 2 == 0) peers.key.local.bytes = { 10, 9, 9, 9 };
    Segment syn = peers.syn(fixture.now());
    syn.options |= option::mptcp;
    syn.mptcp = MptcpSubtype::mp_join;
    syn.mptcp_token = 1 + i / 2;
    fixture.chain.segment(syn, false, fixture.now());
    fixture.chain.segment(peers.syn_ack(fixture.now()), false, fixture.now());
    fixture.chain.segment(peers.ack(fixture.now()), false, fixture.now());
    if (i % 2 == 1) living.push_back(peers);
  }
  fixture.run_for(ms(6000));
  for (const Peers& peers : living)
    fixture.chain.segment(peers.ack(fixture.now()), false, fixture.now());
  const auto takes = [](const auto& work)
  {
    const auto spent = []
    {
      timespec time {};
      clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
      return std::chrono::seconds { time.tv_sec } + std::chrono::nanoseconds { time.tv_nsec };
    };
    const Duration begin = spent();
    work();
    return spent() - begin;
  };
  const Duration all_once = takes([&] { static_cast<void>(fixture.chain.needs_queue(fixture.now())); });
  const Duration silent = takes([&] { fixture.run_for(ms(6000)); });
  EXPECT_EQ(fixture.chain.table().size(), flows);
  EXPECT_LT(silent, flows / 40 * all_once) << seconds(silent) << " s, all flows once " << seconds(all_once) << " s";
}

// ---- what could not be edited ----

// The wire refused the edit, so the segment left as it came. What is known of the server must say so.
TEST(ChainUnedited, TheServerKnowsWhatTheOriginalSaid)
{
  Puppet puppet { "offload" };
  Fixture fixture { { &puppet } };
  Peers peers {};
  fixture.open(peers);
  fixture.download(peers, 20, ms(5), ms(20));
  puppet.act = [](const Event& event, const FlowView&) -> Plan
  {
    if (!is_ack(event)) return {};
    return { .edit = { .ack = event.segment->ack - 2000u,
                       .window = std::uint16_t { 7 },
                       .ts_value = event.segment->timestamps->value - 3,
                       .route = Link::cell } };
  };
  fixture.run_for(ms(5));
  fixture.data(peers, 2896, peers.local_ts(fixture.now() - ms(20)));
  const Segment ack = peers.ack(fixture.now());
  const std::uint64_t cell_bytes = fixture.chain.stats().cell_bytes;
  const Outcome outcome = *fixture.show(ack);
  ASSERT_EQ(fixture.view(peers).sent_ack, ack.ack - 2000u);
  EXPECT_GT(fixture.chain.stats().cell_bytes, cell_bytes);

  fixture.chain.unedited(ack, outcome, fixture.now());
  EXPECT_EQ(fixture.view(peers).sent_ack, ack.ack);
  EXPECT_EQ(fixture.view(peers).sent_window, ack.window);
  EXPECT_EQ(fixture.view(peers).sent_ts_value, ack.timestamps->value);
  EXPECT_EQ(fixture.chain.stats().cell_bytes, cell_bytes) << "it left by its own link";
  EXPECT_EQ(fixture.chain.link_states()[static_cast<std::size_t>(Link::cell)].bytes_out, cell_bytes);
  EXPECT_EQ(fixture.flow(peers).holds[0].withheld, 0u) << "nothing is withheld any more";
  puppet.act = {};
  fixture.chain.enable(0, false, fixture.now());
  EXPECT_TRUE(fixture.actions.injected.empty()) << "there is nothing left to say";
}

TEST(ChainUnedited, TheOriginalsTimestampIsTimedAndTheEditsIsNot)
{
  for (const bool failed : { false, true })
  {
    Puppet puppet { "offload" };
    Fixture fixture { { &puppet } };
    Peers peers {};
    puppet.act = [](const Event& event, const FlowView&) -> Plan
    { return is_ack(event) ? Plan { .edit = { .ts_value = event.segment->timestamps->value - 1 } } : Plan {}; };
    fixture.open(peers);
    fixture.run_for(ms(1000));
    const Segment ack = peers.ack(fixture.now());
    const Outcome outcome = *fixture.show(ack);
    if (failed) fixture.chain.unedited(ack, outcome, fixture.now());
    fixture.run_for(ms(40));
    const TsClock claimed = ack.timestamps->value - 1;
    fixture.data(peers, 1000, failed ? ack.timestamps->value : claimed);
    EXPECT_EQ(fixture.view(peers).rtt_latest, Duration { ms(40) }) << failed;
  }
}

TEST(ChainUnedited, AHigherNumberThatNeverLeftIsTakenBack)
{
  Puppet puppet { "offload" };
  Fixture fixture { { &puppet } };
  Peers peers {};
  fixture.open(peers);
  fixture.download(peers, 20, ms(5), ms(20));
  puppet.act = [](const Event& event, const FlowView&) -> Plan
  { return is_ack(event) ? Plan { .verdict = Verdict::drop } : Plan {}; };
  fixture.run_for(ms(5));
  fixture.data(peers, 2896, peers.local_ts(fixture.now() - ms(20)));
  Segment old = peers.ack(fixture.now());
  old.ack = old.ack - 1448u;
  fixture.ack(peers); // held by this host, and left out
  puppet.act = [](const Event& event, const FlowView& flow) -> Plan
  { return is_ack(event) ? Plan { .edit = { .ack = flow.rcv_nxt } } : Plan {}; };
  const Outcome outcome = *fixture.show(old);
  ASSERT_EQ(fixture.view(peers).sent_ack, fixture.view(peers).rcv_nxt);
  fixture.chain.unedited(old, outcome, fixture.now());
  EXPECT_EQ(fixture.view(peers).sent_ack, old.ack);
}

// ---- what arrives and which of it is acceptable (RFC 9293 3.10.7.4) ----

// A copy is made before TCP looks at it, and anyone can send one. Outside the windows it decides nothing.
struct Acceptable : ::testing::Test
{
  Acceptable()
  {
    fixture.open(peers);
    fixture.download(peers, 100, ms(5), ms(20));
    shown = puppet.heard(EventKind::segment);
  }
  Segment arriving(std::int64_t seq, std::int64_t ack = 0)
  {
    Segment s = peers.data_in(fixture.now(), 1448, peers.local_ts(fixture.now() - ms(20)));
    s.seq = s.seq + static_cast<std::uint32_t>(seq);
    s.ack = s.ack + static_cast<std::uint32_t>(ack);
    return s;
  }
  bool accepted(const Segment& s)
  {
    const int before = puppet.heard(EventKind::segment);
    const std::uint64_t refused = fixture.chain.stats().unacceptable;
    fixture.show(s);
    const bool heard = puppet.heard(EventKind::segment) > before;
    EXPECT_EQ(fixture.chain.stats().unacceptable, refused + (heard ? 0 : 1)) << "either accepted or counted";
    return heard;
  }

  Puppet puppet { "offload" };
  Fixture fixture { { &puppet } };
  Peers peers {}; // a window of 64,000 bytes; the server's are 500 << 7 as well
  int shown = 0;
};

TEST_F(Acceptable, WhatLiesInTheReceiveWindowOrNotFarBelow)
{
  EXPECT_TRUE(accepted(arriving(0))) << "the next in order";
  EXPECT_TRUE(accepted(arriving(60'000))) << "behind holes";
  EXPECT_TRUE(accepted(arriving(-1448))) << "once more";
  EXPECT_TRUE(accepted(arriving(-60'000))) << "a whole window once more: reported by D-SACK";
  EXPECT_FALSE(accepted(arriving(1'000'000)));
  EXPECT_FALSE(accepted(arriving(-1'000'000)));
  EXPECT_FALSE(accepted(arriving(2'000'000'000)));
}

TEST_F(Acceptable, AMergedPacketThatReachesIntoTheWindow)
{
  Segment merged = arriving(-100'000);
  merged.payload_length = 64'000;
  EXPECT_TRUE(accepted(merged));
  merged = arriving(0);
  merged.payload_length = 500'000; // big TCP
  EXPECT_TRUE(accepted(merged));
}

TEST_F(Acceptable, WhatAcknowledgesSomethingThatThisHostMaySend)
{
  EXPECT_TRUE(accepted(arriving(0, 0)));
  EXPECT_TRUE(accepted(arriving(0, 5'000))) << "a request that no rule showed";
  EXPECT_TRUE(accepted(arriving(0, -5'000))) << "an old one, overtaken";
  EXPECT_FALSE(accepted(arriving(0, 100'000'000)));
  EXPECT_FALSE(accepted(arriving(0, -100'000'000)));
}

TEST_F(Acceptable, NothingOfAnUnacceptableSegmentIsKept)
{
  const FlowView before = fixture.view(peers);
  Segment forged = arriving(1'000'000'000, 500'000);
  forged.ecn = Ecn::ce;
  forged.timestamps->echo = before.sent_ts_value;
  forged.options |= option::md5;
  fixture.run_for(ms(3));
  EXPECT_FALSE(accepted(forged));
  const FlowView& after = fixture.view(peers);
  EXPECT_EQ(after.rtt_at, before.rtt_at);
  EXPECT_EQ(after.ecn_seen, before.ecn_seen);
  EXPECT_EQ(after.snd_una, before.snd_una);
  EXPECT_EQ(after.bypass, Bypass::none);
  forged.flags = tcp_flag::rst;
  EXPECT_FALSE(accepted(forged));
  EXPECT_FALSE(fixture.flow(peers).closed);
  forged.flags = tcp_flag::syn;
  EXPECT_FALSE(accepted(forged));
}

TEST_F(Acceptable, ASynAckThatDoesNotAnswerTheSynIsNone)
{
  Peers other {};
  other.key.local_port = 41'000;
  fixture.show(other.syn(fixture.now()));
  Segment forged = other.syn_ack(fixture.now());
  forged.ack = forged.ack + 1u;
  fixture.show(forged);
  EXPECT_EQ(fixture.view(other).bypass, Bypass::mid_flow);
  fixture.show(other.syn_ack(fixture.now()));
  EXPECT_EQ(fixture.view(other).bypass, Bypass::none);
}

TEST_F(Acceptable, ALargerWindowIsAsLargeAsItWasAdvertised)
{
  peers.window = 30'000; // 3.84 MB
  fixture.ack(peers);
  EXPECT_TRUE(accepted(arriving(3'000'000)));
  EXPECT_TRUE(accepted(arriving(-3'000'000)));
  peers.window = 0;
  fixture.ack(peers);
  EXPECT_TRUE(accepted(arriving(3'000'000))) << "what was on its way when the window closed";
}

// While the queue is out of the way this host's ACKs are not seen: what arrives cannot be judged, and proves nothing,
// but is no sign of forgery either.
TEST_F(Acceptable, NothingIsKnownWhileTheQueueIsBypassed)
{
  fixture.chain.queue_bypassed();
  peers.received += 300'000'000;
  const Tick measured = fixture.view(peers).rtt_at;
  fixture.run_for(ms(100));
  fixture.data(peers, 1448, peers.local_ts(fixture.now() - ms(20)));
  EXPECT_EQ(puppet.heard(EventKind::segment), shown);
  EXPECT_EQ(fixture.view(peers).rtt_at, measured);
  EXPECT_EQ(fixture.view(peers).last_seen, fixture.now()) << "it shows that the flow lives";
  fixture.chain.queue_resumed();
  fixture.data(peers, 1448, peers.local_ts(fixture.now() - ms(20)));
  EXPECT_EQ(puppet.heard(EventKind::segment), shown) << "not before an ACK of this host";
  fixture.ack(peers);
  fixture.data(peers, 1448, peers.local_ts(fixture.now() - ms(20)));
  EXPECT_EQ(puppet.heard(EventKind::segment), shown + 2);
  EXPECT_EQ(fixture.chain.stats().unacceptable, 0u);
}

TEST(AcceptableCopies, OwnAcksThatAreOnlyObservedTellTheNumbersToo)
{
  Puppet puppet { "ecn" };
  puppet.wants = { .observe = traffic::egress_pure_ack | traffic::ingress_data, .every_link = true };
  Fixture fixture { { &puppet } };
  Peers peers {};
  fixture.open(peers);
  fixture.download(peers, 10, ms(5), ms(20));
  fixture.chain.queue_resumed(); // another module was switched on and off
  peers.received += 300'000'000;
  fixture.ack(peers);
  const int shown = puppet.heard(EventKind::segment);
  fixture.data(peers, 1448, peers.local_ts(fixture.now() - ms(20)));
  EXPECT_EQ(puppet.heard(EventKind::segment), shown + 1);
}

// ---- the life of a flow ----

// Anyone can send SYNs. They cost nothing, and answered ones little.
TEST(ChainLife, AFloodOfSynsIsBoundedAndRunningFlowsAreKept)
{
  Puppet puppet { "offload" };
  Fixture fixture { { &puppet }, { .table = { .capacity = 256 } } };
  std::array<Peers, 100> running {};
  for (std::uint16_t i = 0; i < running.size(); ++i)
  {
    running[i].key.local_port = static_cast<std::uint16_t>(40'000 + i);
    fixture.open(running[i]);
  }
  for (unsigned i = 0; i < 20'000; ++i)
  {
    Peers peer {};
    peer.key.local_port = 22;
    peer.key.remote_port = static_cast<std::uint16_t>(1024 + i);
    peer.key.remote.bytes[3] = static_cast<std::uint8_t>(i >> 12);
    Segment syn = peer.syn_ack(fixture.now());
    syn.flags = tcp_flag::syn;
    fixture.show(syn);
    if (i < 10'000) continue;
    Segment answer = peer.syn(fixture.now());
    answer.flags = tcp_flag::syn | tcp_flag::ack;
    answer.ack = syn.end();
    fixture.show(answer);
    if (i % 100 == 0) fixture.run_for(ms(1));
  }
  EXPECT_LE(fixture.chain.table().size(), running.size() + 64);
  for (Peers& one : running)
    ASSERT_NE(fixture.chain.table().find(one.key), nullptr);
  Peers fresh {};
  fresh.key.local_port = 50'000;
  fixture.open(fresh);
  EXPECT_EQ(fixture.view(fresh).bypass, Bypass::none);
  fixture.run_for(ms(6'000));
  EXPECT_EQ(fixture.chain.table().size(), running.size() + 1) << "half-open ones go soon";
  EXPECT_EQ(fixture.chain.stats().untracked, 0u);
}

TEST(ChainLife, WhatThisHostAnswersIsAFlow)
{
  for (const bool syn_seen : { false, true })
  {
    Puppet puppet { "offload" };
    Fixture fixture { { &puppet } };
    Peers peers {};
    Segment syn = peers.syn_ack(fixture.now());
    syn.flags = tcp_flag::syn;
    if (syn_seen) fixture.show(syn);
    EXPECT_EQ(fixture.chain.table().size(), 0u) << "nobody knows yet whether it is answered";
    Segment answer = peers.syn(fixture.now());
    answer.flags = tcp_flag::syn | tcp_flag::ack;
    answer.ack = syn.end();
    fixture.show(answer);
    const FlowView& view = fixture.view(peers);
    EXPECT_EQ(view.bypass, Bypass::none);
    EXPECT_TRUE(view.timestamps_ok);
    EXPECT_TRUE(view.sack_ok);
    EXPECT_EQ(view.local_window_scale, 7);
    EXPECT_EQ(view.rcv_nxt, syn.end());
    fixture.run_for(ms(2'000));
    fixture.ack(peers);
    EXPECT_EQ(puppet.begun, 1);
    fixture.run_for(ms(60'000));
    EXPECT_EQ(fixture.chain.table().size(), 1u) << "no longer half-open";
  }
}

TEST(ChainLife, AConnectionThatIsNotAnsweredGoesSoon)
{
  Puppet puppet { "offload" };
  Fixture fixture { { &puppet } };
  Peers silent {}, answered {};
  answered.key.local_port = 41'000;
  fixture.show(silent.syn(fixture.now()));
  fixture.show(answered.syn(fixture.now()));
  fixture.show(answered.syn_ack(fixture.now()));
  fixture.run_for(ms(6'000));
  EXPECT_EQ(fixture.chain.table().find(silent.key), nullptr);
  EXPECT_NE(fixture.chain.table().find(answered.key), nullptr);
  fixture.show(silent.syn(fixture.now())); // once more
  fixture.show(silent.syn_ack(fixture.now()));
  EXPECT_EQ(fixture.view(silent).bypass, Bypass::none);
}

TEST(ChainLife, AModuleStartsOffAndIsNotAsked)
{
  Puppet puppet { "offload" }, other { "other" };
  other.wants = { .observe = traffic::ingress_data }; // else nobody sees the handshake
  Fixture fixture { { &puppet, &other } };
  fixture.chain.enable(0, false, fixture.now());
  EXPECT_EQ(fixture.chain.interest().decide, 0u);
  Peers peers {};
  fixture.open(peers);
  EXPECT_EQ(puppet.begun, 0);
  fixture.chain.enable(0, true, fixture.now());
  EXPECT_EQ(fixture.chain.interest().decide, puppet.wants.decide);
  fixture.ack(peers);
  EXPECT_EQ(puppet.begun, 1);
}

// Of those that go by losses nothing is expected: decision 0040.
TEST(ChainSenders, EarlierConnectionsTellWhatKindOfSenderAServerHas)
{
  struct Expected
  {
    const char* file;
    SenderKind kind;
  };
  for (const Expected& one :
       { Expected { "bbr", SenderKind::rate_based }, Expected { "gvisor", SenderKind::unresponsive },
         Expected { "cubic", SenderKind::unknown } })
  {
    Puppet puppet { "offload" };
    Fixture fixture { { &puppet } };
    Peers before {}, same {}, other {};
    for (int connection = 0; connection < 2; ++connection)
    {
      ++before.key.local_port;
      flow::test::Recorded recorded { one.file };
      ASSERT_TRUE(recorded.readable()) << one.file;
      const Tick began = fixture.now(), zero = recorded.now;
      recorded.also = [&](Segment segment)
      {
        const Segment form = before.bare(segment.direction, segment.flags, fixture.now());
        segment.link = form.link;
        segment.key = form.key;
        segment.bytes = form.bytes;
        segment.ip_header_length = form.ip_header_length;
        segment.tcp_header_length = form.tcp_header_length;
        fixture.run(began + (recorded.now - zero));
        fixture.show(segment);
      };
      recorded.play();
      EXPECT_NE(fixture.view(before).sender.kind, SenderKind::unknown) << one.file;
    }
    same.key.local_port = 41'000;
    other.key.local_port = 41'001;
    other.key.remote.bytes[3] ^= 1;
    fixture.open(same);
    fixture.open(other);
    EXPECT_EQ(fixture.view(same).sender.kind, one.kind) << one.file;
    EXPECT_EQ(fixture.view(other).sender.kind, SenderKind::unknown) << one.file;
  }
}

TEST(ChainLife, AShortFlowCostsNoStateUntilItIsWorthIt)
{
  Puppet puppet { "offload" };
  Fixture fixture { { &puppet }, { .worth = 14'000 } };
  Peers peers {};
  fixture.open(peers);
  const auto delivers = [&](std::uint32_t bytes)
  {
    peers.received += bytes;
    fixture.show(peers.ack(fixture.now()));
    fixture.run_for(ms(10));
  };
  // Now and then a little, for ever.
  for (int i = 0; i < 20; ++i)
  {
    delivers(6'000);
    delivers(6'000);
    fixture.run_for(ms(1000));
  }
  EXPECT_EQ(puppet.begun, 0);
  EXPECT_TRUE(puppet.events.empty());
  EXPECT_EQ(fixture.chain.table().states(), 0u);
  EXPECT_TRUE(fixture.chain.needs_queue(fixture.now() - ms(1000))) << "its ACKs are needed to know what it delivers";
  delivers(6'000);
  delivers(7'999);
  EXPECT_EQ(puppet.begun, 0);
  delivers(1);
  EXPECT_EQ(puppet.begun, 1);
  EXPECT_EQ(puppet.heard(EventKind::segment), 1);
  EXPECT_EQ(fixture.chain.table().states(), 1u);
  fixture.run_for(ms(5000));
  delivers(1);
  EXPECT_EQ(puppet.heard(EventKind::segment), 2) << "once begun, a pause ends nothing";
}

TEST(ChainLife, AHoleInTheFirstFlightIsWorthIt)
{
  Puppet puppet { "mirror" };
  Fixture fixture { { &puppet }, { .worth = 14'000 } };
  Peers peers {};
  fixture.open(peers);
  peers.received += 1'448;
  fixture.show(peers.ack(fixture.now()));
  EXPECT_EQ(puppet.begun, 0);
  Segment ack = peers.ack(fixture.now());
  ack.sack_blocks[0] = { ack.ack + 1'448, ack.ack + 2 * 1'448 };
  ack.sack_count = 1;
  fixture.show(ack);
  EXPECT_EQ(puppet.begun, 1);
  EXPECT_EQ(puppet.heard(EventKind::segment), 1) << "about the ACK that shows it";
}

TEST(ChainLife, SwitchingOffTellsEveryFlowAndEndsItOnce)
{
  Puppet puppet { "offload" };
  Peers one {}, other {};
  other.key.local_port = 40001;
  {
    Fixture fixture { { &puppet } };
    fixture.open(one);
    fixture.open(other);
    fixture.ack(one);
    fixture.ack(other);
    EXPECT_EQ(fixture.chain.stats(0).flows, 2u);
    puppet.act = [&](const Event& event, const FlowView& flow)
    {
      if (event.kind != EventKind::switched_off) return Plan {};
      puppet.room[0] = newest(flow, Link::wifi, event.now);
      return Plan { .inject = std::span { puppet.room }.first(1), .why = "released" };
    };
    fixture.chain.enable(0, false, fixture.now());
    EXPECT_EQ(puppet.heard(EventKind::switched_off), 2);
    EXPECT_EQ(fixture.actions.injected.size(), 2u);
    EXPECT_EQ(fixture.count("released"), 2u);
    EXPECT_EQ(puppet.ended, 2);
    EXPECT_EQ(fixture.chain.stats(0).flows, 0u);
    fixture.chain.enable(0, false, fixture.now());
    EXPECT_EQ(puppet.ended, 2);
    puppet.events.clear();
    fixture.ack(one);
    fixture.run_for(ms(100));
    EXPECT_TRUE(puppet.events.empty());
    fixture.chain.enable(0, true, fixture.now());
    fixture.ack(one);
    EXPECT_EQ(puppet.begun, 3);
  }
  EXPECT_EQ(puppet.ended, 3) << "the destructor ends what is left, once";
}

TEST(ChainLife, SwitchingOffAndOnGivesATakenOutModuleANewStart)
{
  Puppet puppet { "offload" };
  Fixture fixture { { &puppet } };
  Peers peers {};
  fixture.open(peers);
  puppet.act = [](const Event&, const FlowView&) -> Plan { throw std::runtime_error { "once" }; };
  fixture.ack(peers);
  puppet.act = {};
  puppet.events.clear();
  fixture.chain.enable(0, false, fixture.now());
  EXPECT_EQ(puppet.heard(EventKind::switched_off), 0) << "it is not asked any more";
  EXPECT_EQ(puppet.ended, 1);
  fixture.chain.enable(0, true, fixture.now());
  fixture.ack(peers);
  EXPECT_EQ(puppet.events.size(), 1u);
}

TEST(ChainLife, AnIdleFlowIsReleasedAndEndsOnce)
{
  Puppet puppet { "offload" };
  {
    Fixture fixture { { &puppet }, { .table = { .idle = std::chrono::seconds { 60 } } } };
    Peers peers {};
    fixture.open(peers);
    fixture.ack(peers);
    fixture.run_for(ms(59'000));
    EXPECT_EQ(puppet.ended, 0);
    fixture.run_for(ms(3'000));
    EXPECT_EQ(puppet.heard(EventKind::switched_off), 1);
    EXPECT_EQ(puppet.ended, 1);
    EXPECT_EQ(fixture.chain.table().size(), 0u);
    EXPECT_EQ(fixture.chain.stats(0).flows, 0u);
  }
  EXPECT_EQ(puppet.ended, 1);
}

// Not every module says so itself: what it holds back leaves as at a switch-off, and the server may answer the next
// request with a whole window again.
TEST(ChainLife, WhatAnIdleFlowHoldsBackLeavesAtItsEnd)
{
  Puppet puppet { "rate" };
  Fixture fixture { { &puppet }, { .table = { .idle = std::chrono::seconds { 60 } } } };
  Peers peers {};
  fixture.open(peers);
  fixture.download(peers, 20, ms(5), ms(20));
  puppet.act = [](const Event& event, const FlowView& flow)
  { return is_ack(event) ? Plan { .edit = { .ack = flow.sent_ack, .window = 100 } } : Plan {}; };
  fixture.download(peers, 1, ms(5), ms(20));
  const Seq received = fixture.view(peers).rcv_nxt;
  ASSERT_EQ(fixture.view(peers).sent_window, 100);
  ASSERT_TRUE(received.after(fixture.view(peers).sent_ack));
  ASSERT_TRUE(fixture.actions.injected.empty());
  fixture.run_for(ms(62'000));
  EXPECT_EQ(fixture.chain.table().size(), 0u);
  ASSERT_EQ(fixture.actions.injected.size(), 1u);
  EXPECT_EQ(fixture.actions.injected[0].segment.ack, received);
  EXPECT_EQ(fixture.actions.injected[0].segment.window, peers.window);
}

TEST(ChainLife, AClosedFlowGoesSoon)
{
  for (const bool reset : { false, true })
  {
    Puppet puppet { "offload" };
    Fixture fixture { { &puppet } };
    Peers peers {};
    fixture.open(peers);
    fixture.show(peers.bare(reset ? Direction::ingress : Direction::egress,
                            tcp_flag::ack | (reset ? tcp_flag::rst : tcp_flag::fin), fixture.now()));
    fixture.run_for(ms(4'000));
    EXPECT_EQ(fixture.chain.table().size(), 1u);
    fixture.run_for(ms(3'000));
    EXPECT_EQ(fixture.chain.table().size(), 0u);
    EXPECT_EQ(puppet.ended, puppet.begun);
  }
}

TEST(ChainLife, AResetThatTcpIgnoresEndsNothing)
{
  Puppet puppet { "offload" };
  Fixture fixture { { &puppet } };
  Peers peers {};
  fixture.open(peers);
  fixture.download(peers, 5, ms(5), ms(20));
  Segment reset = peers.bare(Direction::ingress, tcp_flag::rst, fixture.now());
  reset.seq = fixture.view(peers).rcv_nxt - 2;
  fixture.show(reset);
  EXPECT_TRUE(fixture.chain.needs_queue(fixture.now()));
  reset.seq = fixture.view(peers).rcv_nxt;
  fixture.show(reset);
  EXPECT_FALSE(fixture.chain.needs_queue(fixture.now()));
}

// Within the window, and not the number that TCP waits for: it answers, and goes on (RFC 5961 3.2).
TEST(ChainLife, AResetThatTcpChallengesEndsNothing)
{
  for (const bool fin : { false, true })
  {
    Puppet puppet { "offload" };
    Fixture fixture { { &puppet } };
    Peers peers {};
    fixture.open(peers);
    fixture.download(peers, 5, ms(5), ms(20));
    if (fin) fixture.show(peers.bare(Direction::egress, tcp_flag::ack | tcp_flag::fin, fixture.now()));
    Segment reset = peers.bare(Direction::ingress, tcp_flag::rst, fixture.now());
    reset.seq = fixture.view(peers).rcv_nxt + 2'000;
    fixture.show(reset);
    EXPECT_TRUE(fixture.flow(peers).closed) << "until it is known better";
    fixture.ack(peers);
    EXPECT_EQ(fixture.chain.needs_queue(fixture.now()), !fin) << "what it has closed itself stays so";
    fixture.run_for(ms(10'000));
    EXPECT_EQ(fixture.chain.table().size(), fin ? 0u : 1u);
  }
}

// An ACK that waits for its verdict is overtaken by a reset, of which a copy is shown.
TEST(ChainLife, WhatThisHostHasResetIsOver)
{
  Puppet puppet { "offload" };
  Fixture fixture { { &puppet } };
  Peers peers {};
  fixture.open(peers);
  fixture.download(peers, 5, ms(5), ms(20));
  fixture.show(peers.bare(Direction::egress, tcp_flag::rst | tcp_flag::ack, fixture.now()));
  fixture.ack(peers);
  EXPECT_TRUE(fixture.flow(peers).closed);
  Segment reset = peers.bare(Direction::ingress, tcp_flag::rst, fixture.now());
  reset.seq = fixture.view(peers).rcv_nxt;
  fixture.show(reset); // the server's answer
  fixture.ack(peers);
  EXPECT_FALSE(fixture.chain.needs_queue(fixture.now()));
  fixture.run_for(ms(10'000));
  EXPECT_EQ(fixture.chain.table().size(), 0u);
}

TEST(ChainLife, NobodySpeaksForAConnectionWhosePortsAreUsedAgain)
{
  Puppet puppet { "offload" };
  Fixture fixture { { &puppet } };
  Peers peers {};
  fixture.open(peers);
  fixture.download(peers, 5, ms(5), ms(20));
  puppet.act = [&](const Event& event, const FlowView& flow)
  {
    if (event.kind != EventKind::switched_off) return Plan {};
    puppet.room[0] = newest(flow, Link::wifi, event.now);
    return Plan { .inject = std::span { puppet.room }.first(1), .why = "released" };
  };
  Peers again {};
  again.local_isn = Seq { 3'000'000'000u };
  fixture.open(again); // the end of the old one was not seen
  EXPECT_EQ(puppet.ended, 1);
  EXPECT_TRUE(fixture.actions.injected.empty());
}

TEST(ChainLife, AnAlarmDoesNotOutliveItsFlow)
{
  Puppet puppet { "offload" };
  Fixture fixture { { &puppet } };
  Peers peers {};
  fixture.open(peers);
  puppet.act = [](const Event& event, const FlowView&) { return Plan { .wake = event.now + ms(30'000) }; };
  fixture.ack(peers);
  fixture.show(peers.bare(Direction::ingress, tcp_flag::rst, fixture.now()));
  fixture.run_for(ms(10'000));
  ASSERT_EQ(fixture.chain.table().size(), 0u);
  // The room is taken by another flow before the alarm is due.
  Peers next {};
  next.key.local_port = 41000;
  fixture.open(next);
  puppet.act = {};
  puppet.events.clear();
  fixture.run_for(ms(25'000));
  EXPECT_EQ(puppet.heard(EventKind::alarm), 0);
}

TEST(ChainLife, PortsUsedAgainMakeANewFlow)
{
  for (const bool closed : { true, false })
  {
    Puppet puppet { "offload" };
    Fixture fixture { { &puppet } };
    Peers peers {};
    fixture.open(peers);
    fixture.download(peers, 5, ms(5), ms(20));
    const std::uint64_t id = fixture.view(peers).id;
    if (closed) fixture.show(peers.bare(Direction::ingress, tcp_flag::rst, fixture.now()));

    Peers again {};
    again.local_isn = Seq { 3'000'000'000u };
    again.remote_isn = Seq { 5 };
    fixture.open(again);
    EXPECT_EQ(fixture.chain.table().size(), 1u);
    EXPECT_NE(fixture.view(again).id, id) << (closed ? "closed" : "its end was not seen");
    EXPECT_EQ(fixture.view(again).rcv_nxt, again.remote_isn + 1);
    EXPECT_EQ(fixture.view(again).bypass, Bypass::none);
    EXPECT_EQ(fixture.view(again).bytes_delivered, 0u);
    EXPECT_EQ(puppet.begun, 2);
    EXPECT_EQ(puppet.ended, 1);
  }
}

TEST(ChainLife, ASynSentAgainIsTheSameFlow)
{
  Puppet puppet { "offload" };
  Fixture fixture { { &puppet } };
  Peers peers {};
  fixture.show(peers.syn(fixture.now()));
  const std::uint64_t id = fixture.view(peers).id;
  fixture.run_for(ms(1000));
  fixture.open(peers);
  EXPECT_EQ(fixture.view(peers).id, id);
  EXPECT_EQ(fixture.view(peers).bypass, Bypass::none);
}

TEST(ChainLife, AForgedSynDoesNotEndAFlow)
{
  Puppet puppet { "offload" };
  Fixture fixture { { &puppet } };
  Peers peers {};
  fixture.open(peers);
  fixture.download(peers, 5, ms(5), ms(20));
  const std::uint64_t id = fixture.view(peers).id;
  Segment forged = peers.bare(Direction::ingress, tcp_flag::syn, fixture.now());
  forged.seq = forged.seq + 77'000'000u;
  fixture.show(forged);
  EXPECT_EQ(fixture.view(peers).id, id);
  EXPECT_EQ(puppet.ended, 0);
}

TEST(ChainLife, AttachedMidFlowPassesUntouchedAndIsCounted)
{
  Puppet puppet { "offload" };
  puppet.act = [](const Event&, const FlowView&) { return Plan { .edit = { .window = std::uint16_t { 1 } } }; };
  Fixture fixture { { &puppet } };
  Peers peers {};
  const Outcome outcome = fixture.ack(peers);
  EXPECT_TRUE(outcome.edit.empty());
  EXPECT_EQ(outcome.why, name(Bypass::mid_flow));
  EXPECT_EQ(fixture.chain.stats().mid_flow, 1u);
  fixture.download(peers, 5, ms(5), ms(20));
  EXPECT_EQ(fixture.chain.stats().mid_flow, 1u) << "counted once";
  EXPECT_TRUE(puppet.events.empty());
}

TEST(ChainLife, AuthenticatedFlowsPassUntouched)
{
  Puppet puppet { "offload" };
  Fixture fixture { { &puppet } };
  Peers peers {};
  peers.more_options = option::md5;
  fixture.open(peers);
  EXPECT_EQ(fixture.ack(peers).why, name(Bypass::authenticated));
  EXPECT_TRUE(puppet.events.empty());
}

TEST(ChainLife, StrayCopiesMakeNoFlow)
{
  Puppet puppet { "offload" };
  Fixture fixture { { &puppet } };
  Peers peers {};
  fixture.data(peers, 1448, {});
  EXPECT_EQ(fixture.chain.table().size(), 0u);
}

TEST(ChainLife, AFullTablePassesNewFlowsUntouchedAndCounts)
{
  Puppet puppet { "offload" };
  puppet.act = [](const Event& event, const FlowView&)
  { return is_ack(event) ? Plan { .edit = { .window = std::uint16_t { 1 } } } : Plan {}; };
  Fixture fixture { { &puppet }, { .table = { .capacity = 2 } } };
  std::array<Peers, 3> peers {};
  for (std::uint16_t i = 0; i < 3; ++i)
  {
    peers[i].key.local_port = static_cast<std::uint16_t>(40000 + i);
    fixture.open(peers[i]);
  }
  EXPECT_EQ(fixture.ack(peers[1]).edit.window, 1);
  const Outcome outcome = fixture.ack(peers[2]);
  EXPECT_EQ(outcome.verdict, Verdict::pass);
  EXPECT_TRUE(outcome.edit.empty());
  EXPECT_EQ(outcome.why, "flow table full");
  EXPECT_EQ(outcome.flow, nullptr);
  EXPECT_GE(fixture.chain.stats().untracked, 2u);
  // Room is made by what has gone.
  fixture.show(peers[0].bare(Direction::ingress, tcp_flag::rst, fixture.now()));
  fixture.actions.now += ms(6'000);
  fixture.open(peers[2]);
  EXPECT_EQ(fixture.ack(peers[2]).edit.window, 1);
}

TEST(ChainLife, TheDestructorEndsEveryState)
{
  Puppet a { "freeze" }, b { "offload" };
  {
    Fixture fixture { { &a, &b } };
    for (std::uint16_t i = 0; i < 20; ++i)
    {
      Peers peers {};
      peers.key.local_port = static_cast<std::uint16_t>(40000 + i);
      fixture.open(peers);
    }
    EXPECT_EQ(a.begun, 20);
  }
  EXPECT_EQ(a.ended, 20);
  EXPECT_EQ(b.ended, 20);
}

TEST(ChainLife, LinkChangesReachEveryFlowWithState)
{
  Puppet puppet { "offload" };
  Fixture fixture { { &puppet } };
  Peers one {}, other {}, strange {};
  other.key.local_port = 40001;
  strange.key.local_port = 40002;
  fixture.open(one);
  fixture.open(other);
  fixture.ack(strange); // mid-flow
  puppet.events.clear();
  fixture.chain.links(fixture.links, fixture.now());
  EXPECT_EQ(puppet.heard(EventKind::link), 2);
}

TEST(ChainLife, RadioNewsReachesWhoWantsItAndNoiseDoesNot)
{
  Puppet curious { "freeze" }, content { "offload" };
  curious.wants.radio = true;
  std::optional<RadioState> found {};
  curious.act = [&](const Event& event, const FlowView&) -> Plan
  {
    found = (*event.links)[static_cast<std::size_t>(Link::wifi)].radio;
    return {};
  };
  Fixture fixture { { &curious, &content } };
  Peers peers {};
  fixture.open(peers);
  curious.events.clear();
  content.events.clear();
  const RadioState first { .packet_time = 500us, .delivery = 0.8F, .confidence = 1 };
  fixture.chain.radio(Link::wifi, first, fixture.now());
  EXPECT_EQ(curious.heard(EventKind::radio), 1);
  EXPECT_EQ(found->packet_time, Duration { 500us });
  RadioState noise = first;
  noise.packet_time = 510us;
  fixture.chain.radio(Link::wifi, noise, fixture.now());
  EXPECT_EQ(curious.heard(EventKind::radio), 1);
  noise.packet_time = 600us;
  fixture.chain.radio(Link::wifi, noise, fixture.now());
  EXPECT_EQ(curious.heard(EventKind::radio), 2);
  noise.candidate = -60.F;
  fixture.chain.radio(Link::wifi, noise, fixture.now());
  EXPECT_EQ(curious.heard(EventKind::radio), 3);
  EXPECT_EQ(found->candidate, -60.F);
  noise.candidate = -61.F;
  fixture.chain.radio(Link::wifi, noise, fixture.now());
  EXPECT_EQ(curious.heard(EventKind::radio), 3);
  fixture.chain.radio(Link::wifi, {}, fixture.now());
  EXPECT_EQ(curious.heard(EventKind::radio), 4) << "stale: what depends on it is off";
  EXPECT_FALSE(found);
  EXPECT_EQ(content.heard(EventKind::radio), 0);
}

TEST(ChainInterest, IsTheUnionOfWhatIsSwitchedOn)
{
  Puppet a { "freeze" }, b { "offload" };
  a.wants = { .decide = traffic::egress_data, .radio = true };
  b.wants = { .decide = traffic::egress_pure_ack, .observe = traffic::ingress_data };
  Fixture fixture { { &a, &b } };
  EXPECT_EQ(fixture.chain.interest().decide, traffic::egress_data | traffic::egress_pure_ack);
  EXPECT_EQ(fixture.chain.interest().observe, traffic::ingress_data);
  EXPECT_TRUE(fixture.chain.interest().radio);
  fixture.chain.enable(0, false, fixture.now());
  EXPECT_EQ(fixture.chain.interest().decide, traffic::egress_pure_ack);
  EXPECT_FALSE(fixture.chain.interest().radio);
}

// ---- the queue out of the way ----

TEST(ChainQueue, IsNeededWhileAModuleMustSeeSomeFlow)
{
  Puppet puppet { "offload" };
  Fixture fixture { { &puppet } };
  EXPECT_FALSE(fixture.chain.needs_queue(fixture.now())) << "no flow";
  Peers peers {};
  fixture.open(peers);
  EXPECT_TRUE(fixture.chain.needs_queue(fixture.now()));
  const Tick until = fixture.now() + ms(300);
  puppet.act = [&](const Event&, const FlowView&) { return Plan { .quiet = until }; };
  fixture.ack(peers);
  EXPECT_FALSE(fixture.chain.needs_queue(fixture.now()));
  EXPECT_TRUE(fixture.chain.needs_queue(until));
  EXPECT_FALSE(fixture.chain.needs_queue(fixture.now() + ms(5'000))) << "not heard of for long";
}

TEST(ChainQueue, AModuleThatIsSwitchedOnSeesWhatOthersHadNoNeedOf)
{
  Puppet quiet { "a" }, late { "b" };
  Fixture fixture { { &quiet, &late } };
  fixture.chain.enable(1, false, fixture.now());
  Peers peers {};
  fixture.open(peers);
  quiet.act = [](const Event& event, const FlowView&) { return Plan { .quiet = event.now + ms(60'000) }; };
  fixture.ack(peers);
  ASSERT_FALSE(fixture.chain.needs_queue(fixture.now()));
  fixture.chain.enable(1, true, fixture.now());
  EXPECT_TRUE(fixture.chain.needs_queue(fixture.now()));
}

// All is silent while a window is closed. What comes when it opens is answered by ACKs that must not open it wider.
TEST(ChainQueue, IsNeededWhileAWindowIsClosed)
{
  for (const std::uint16_t window : { std::uint16_t { 0 }, std::uint16_t { 200 } })
  {
    Puppet puppet { "freeze" };
    Fixture fixture { { &puppet } };
    Peers peers {};
    fixture.run_for(ms(3000)); // since the link came
    fixture.open(peers);
    fixture.download(peers, 20, ms(5), ms(20));
    puppet.act = [&](const Event& event, const FlowView&)
    { return is_ack(event) ? Plan { .edit = { .window = window } } : Plan {}; };
    fixture.ack(peers);
    EXPECT_TRUE(fixture.chain.needs_queue(fixture.now()));
    EXPECT_EQ(fixture.chain.needs_queue(fixture.now() + ms(1000)), window == 0) << window;
    EXPECT_FALSE(fixture.chain.needs_queue(fixture.now() + ms(60'000))) << "not for ever";
  }
}

TEST(ChainQueue, EveryModuleMustBeQuiet)
{
  Puppet a { "freeze" }, b { "offload" };
  Fixture fixture { { &a, &b } };
  Peers peers {};
  fixture.open(peers);
  a.act = [&](const Event& event, const FlowView&) { return Plan { .quiet = event.now + ms(1000) }; };
  fixture.ack(peers);
  EXPECT_TRUE(fixture.chain.needs_queue(fixture.now()));
  b.act = [&](const Event& event, const FlowView&) { return Plan { .quiet = event.now + ms(300) }; };
  fixture.ack(peers);
  EXPECT_FALSE(fixture.chain.needs_queue(fixture.now()));
  EXPECT_TRUE(fixture.chain.needs_queue(fixture.now() + ms(300))) << "the first to wake counts";
}

TEST(ChainQueue, WhoOnlyObservesNeedsNone)
{
  Puppet decides { "freeze" }, observes { "ecn" };
  observes.wants = { .observe = traffic::egress_pure_ack | traffic::ingress_data };
  Fixture fixture { { &decides, &observes } };
  Peers peers {};
  fixture.open(peers);
  decides.act = [&](const Event& event, const FlowView&) { return Plan { .quiet = event.now + ms(1000) }; };
  fixture.ack(peers);
  EXPECT_FALSE(fixture.chain.needs_queue(fixture.now()));
}

// What all flows of the Wi-Fi link deliver together, and what that says to modules.
struct FastLink : testing::Test
{
  Puppet module { "freeze" };
  Fixture fixture { { &module }, { .worth = 14'000 } };
  Peers first {}, second { .key = key_v4(40'001) };

  double rate() const { return fixture.chain.link_states()[static_cast<std::size_t>(Link::wifi)].delivery_rate; }
  // Both acknowledge so many bytes every millisecond.
  void download(std::uint32_t bytes, int rounds)
  {
    for (int i = 0; i < rounds; ++i)
    {
      first.received += bytes;
      second.received += bytes;
      fixture.ack(first);
      fixture.ack(second);
      fixture.run_for(ms(1));
    }
  }
};

TEST_F(FastLink, ItsRateIsThatOfAllFlows)
{
  fixture.open(first);
  fixture.open(second);
  EXPECT_EQ(rate(), 0);
  download(10'000, 250);
  EXPECT_NEAR(rate(), 20e6, 0.5e6);
  download(1'000, 250);
  EXPECT_NEAR(rate(), 2e6, 0.1e6);
  fixture.run_for(ms(3'000));
  download(1'000, 20);
  EXPECT_EQ(rate(), 0) << "what a pause hid is not known";
}

TEST_F(FastLink, BesideItAShortFlowKeepsNoQueue)
{
  fixture.open(first);
  fixture.open(second);
  Peers third { .key = key_v4(40'002) };
  module.act = [](const Event& event, const FlowView& flow)
  {
    return Plan { .quiet =
                      faster_than_wifi(flow, *event.links) ? std::optional { event.now + look_again } : std::nullopt };
  };
  download(200'000, 150);
  fixture.open(third);
  EXPECT_FALSE(fixture.chain.needs_queue(fixture.now())) << "3.2 Gb/s together, each less than 2";
  download(10'000, 150);
  EXPECT_TRUE(fixture.chain.needs_queue(fixture.now())) << "160 Mb/s";
}

TEST_F(FastLink, WhatIsSeenNoMoreIsNotFastForEver)
{
  fixture.open(first);
  fixture.open(second);
  module.act = [](const Event& event, const FlowView&) { return Plan { .quiet = event.now + look_again }; };
  download(200'000, 150);
  fixture.run_for(ms(20'000));
  Peers third { .key = key_v4(40'002) };
  fixture.open(third);
  EXPECT_TRUE(fixture.chain.needs_queue(fixture.now()));
}

TEST(ChainQueue, WhatPassedBesideItIsNotMistakenForProgress)
{
  Puppet puppet { "offload" };
  Fixture fixture { { &puppet } };
  Peers peers {};
  fixture.open(peers);
  fixture.download(peers, 100, ms(5), ms(20));
  const std::uint64_t before = fixture.view(peers).bytes_delivered;
  peers.received += 3'000'000'000u; // more than half the sequence space, unseen
  fixture.run_for(ms(1000));
  fixture.chain.queue_resumed();
  fixture.ack(peers);
  EXPECT_EQ(fixture.view(peers).bytes_delivered, before);
  EXPECT_EQ(fixture.view(peers).rcv_nxt, peers.remote_isn + peers.received);
  EXPECT_EQ(fixture.view(peers).sent_ack, peers.remote_isn + peers.received);
  EXPECT_EQ(fixture.view(peers).resumed, fixture.now());
  EXPECT_EQ(fixture.view(peers).bypass, Bypass::none);
}

// With daemon.flow_idle at hours. A TSval of microseconds (Linux's tcp_usec_ts) has gone half round after 36 minutes:
// the one that left before looks like the younger one, and a server that is told it refuses all that follows (PAWS).
TEST(ChainLife, AfterAVeryLongPauseNothingOldIsTakenForNew)
{
  Puppet puppet { "offload" };
  Fixture fixture { { &puppet }, { .table = { .idle = std::chrono::hours { 24 } } } };
  Peers peers {};
  fixture.open(peers);
  const auto by_microseconds = [&](Segment segment)
  {
    segment.timestamps->value = { static_cast<std::uint32_t>(fixture.now().time_since_epoch().count() / 1000) };
    return segment;
  };
  fixture.run_for(ms(70'000));
  fixture.show(by_microseconds(peers.ack(fixture.now())));
  fixture.run_for(std::chrono::minutes { 40 });
  peers.received += 1448;
  const Segment ack = by_microseconds(peers.ack(fixture.now()));
  ASSERT_TRUE(ack.timestamps->value.before(fixture.view(peers).sent_ts_value));
  fixture.show(ack);
  EXPECT_EQ(fixture.view(peers).sent_ts_value, ack.timestamps->value);
  EXPECT_EQ(fixture.view(peers).resumed, fixture.now()) << "modules begin anew as well";
  EXPECT_EQ(fixture.view(peers).bypass, Bypass::none);
}

TEST(ChainLife, AfterAVeryLongPauseWhatArrivesFirstProvesNothing)
{
  Puppet puppet { "offload" };
  Fixture fixture { { &puppet }, { .table = { .idle = std::chrono::hours { 24 } } } };
  Peers peers {};
  fixture.open(peers);
  fixture.download(peers, 10, ms(5), ms(20));
  fixture.run_for(std::chrono::minutes { 40 });
  const Tick measured = fixture.view(peers).rtt_at;
  fixture.data(peers, 1448, fixture.view(peers).sent_ts_value);
  EXPECT_EQ(fixture.view(peers).rtt_at, measured);
  fixture.ack(peers);
  EXPECT_EQ(fixture.view(peers).resumed, fixture.now());
  EXPECT_EQ(fixture.chain.stats().unacceptable, 0u);
}

// Nor is what is echoed then taken for older than what was echoed before.
TEST(ChainLife, AfterAVeryLongPauseRoundTripsAreMeasuredAgain)
{
  Puppet puppet { "offload" };
  Fixture fixture { { &puppet }, { .table = { .idle = std::chrono::hours { 24 } } } };
  Peers peers {};
  fixture.open(peers);
  const auto round_trip = [&](Duration rtt)
  {
    Segment ack = peers.ack(fixture.now());
    ack.timestamps->value = { static_cast<std::uint32_t>(fixture.now().time_since_epoch().count() / 1000) };
    fixture.show(ack);
    fixture.run_for(rtt);
    fixture.data(peers, 1448, ack.timestamps->value);
  };
  fixture.run_for(ms(70'000));
  for (int i = 0; i < 10; ++i)
    round_trip(ms(20));
  EXPECT_EQ(fixture.view(peers).rtt_latest, ms(20));
  fixture.run_for(std::chrono::minutes { 40 });
  for (int i = 0; i < 10; ++i)
    round_trip(ms(90));
  EXPECT_EQ(fixture.view(peers).rtt_latest, ms(90));
}

TEST(ChainQueue, NothingWasSeenWhileEveryModuleWasOff)
{
  Puppet puppet { "offload" };
  Fixture fixture { { &puppet } };
  Peers peers {};
  fixture.open(peers);
  fixture.download(peers, 20, ms(5), ms(20));
  fixture.chain.enable(0, false, fixture.now());
  peers.received += 3'000'000'000u;
  fixture.run_for(ms(1000));
  fixture.chain.enable(0, true, fixture.now());
  fixture.ack(peers);
  EXPECT_EQ(fixture.view(peers).rcv_nxt, peers.remote_isn + peers.received);
  EXPECT_EQ(fixture.view(peers).sent_ack, peers.remote_isn + peers.received);
}

// ---- fetching ----

// A download with a hole of 1,000 bytes before 2,000 that are held, on a flow that somebody follows.
struct Fetching : ::testing::Test
{
  Fetching()
  {
    fixture.open(peers);
    fixture.download(peers, 10, ms(5), ms(20));
    fixture.chain.content(peers.key, Content::http, {});
  }
  void duplicate_ack()
  {
    Segment ack = peers.ack(fixture.now());
    ack.options |= option::sack;
    ack.sack_count = 1;
    ack.sack_blocks[0] = { ack.ack + 1000, ack.ack + 3000 };
    fixture.show(ack);
  }
  Plan asks(const FlowView& flow)
  {
    fetch = { .from = flow.rcv_nxt, .to = flow.rcv_nxt + 1000, .deadline = fixture.now() + ms(100) };
    return { .fetch = std::span { &fetch, 1 }, .why = "fetch" };
  }
  void asks_at_the_hole()
  {
    puppet.act = [this](const Event& event, const FlowView& flow) -> Plan
    {
      if (event.kind == EventKind::fetched)
      {
        heard = *event.fetched;
        return {};
      }
      return event.kind == EventKind::segment && event.segment->sack_count > 0 ? asks(flow) : Plan {};
    };
    duplicate_ack();
  }

  Puppet puppet { "mirror" };
  Fixture fixture { { &puppet } };
  Peers peers {};
  Fetch fetch {};
  std::optional<FetchResult> heard {};
};

TEST_F(Fetching, TheAnswerGoesToWhoAsked)
{
  asks_at_the_hole();
  ASSERT_EQ(fixture.actions.asked.size(), 1u);
  const Asked& asked = fixture.actions.asked[0];
  EXPECT_EQ(asked.fetch.to - asked.fetch.from, 1000);
  EXPECT_FALSE(heard);
  fixture.chain.fetched(asked.flow, asked.slot, { .from = asked.fetch.from, .to = asked.fetch.to, .ok = true }, 1700,
                        fixture.now());
  ASSERT_TRUE(heard);
  EXPECT_TRUE(heard->ok);
  EXPECT_EQ(fixture.chain.stats().cell_bytes, 1700u);
  EXPECT_EQ(fixture.chain.stats().fetched, 1u);
  EXPECT_EQ(fixture.violations(), 0u);
}

TEST_F(Fetching, WithoutAServiceTheModuleHearsSo)
{
  fixture.actions.fetches = false;
  asks_at_the_hole();
  fixture.run_for(ms(1));
  ASSERT_TRUE(heard);
  EXPECT_FALSE(heard->ok);
  EXPECT_EQ(heard->why, "no fetch service");
}

TEST_F(Fetching, AnAnswerForAFlowThatIsGoneIsDropped)
{
  asks_at_the_hole();
  fixture.chain.fetched(fixture.actions.asked[0].flow + 77, 0, { .ok = true }, 0, fixture.now());
  EXPECT_FALSE(heard);
}

TEST_F(Fetching, AFillGoesOutOnlyWhileTheHoleIsThere)
{
  puppet.act = [this](const Event& event, const FlowView& flow) -> Plan
  {
    if (event.kind != EventKind::segment || event.segment->sack_count == 0) return {};
    puppet.room[0] = { .kind = InjectedKind::fill,
                       .at = event.now + ms(10),
                       .seq = flow.rcv_nxt,
                       .timestamps = Timestamps { flow.ts_recent, {} },
                       .length = 1000 };
    return { .inject = std::span { puppet.room }.first(1), .why = "fill" };
  };
  duplicate_ack();
  fixture.run_for(ms(20));
  ASSERT_EQ(fixture.actions.injected.size(), 1u);
  EXPECT_EQ(fixture.actions.injected[0].segment.kind, InjectedKind::fill);
  EXPECT_EQ(fixture.chain.stats().fills, 1u);

  duplicate_ack();
  peers.received += 3000; // the server's own retransmission was faster
  fixture.show(peers.ack(fixture.now()));
  fixture.run_for(ms(20));
  EXPECT_EQ(fixture.actions.injected.size(), 1u);
  EXPECT_EQ(fixture.chain.stats().injected_outdated, 1u);
  EXPECT_EQ(fixture.violations(), 0u);
}

TEST_F(Fetching, WhatIsUnderWayIsSetAsideOfTheBudget)
{
  Puppet greedy { "mirror" };
  Fixture poor { { &greedy }, { .cell_budget = 2 * (1000 + fetch_overhead) } };
  Peers other {};
  poor.open(other);
  poor.download(other, 10, ms(5), ms(20));
  poor.chain.content(other.key, Content::http, {});
  greedy.act = [this](const Event& event, const FlowView& flow)
  { return event.kind == EventKind::segment && event.segment->sack_count > 0 ? asks(flow) : Plan {}; };
  const auto hole = [&]
  {
    Segment ack = other.ack(poor.now());
    ack.sack_count = 1;
    ack.sack_blocks[0] = { ack.ack + 1000, ack.ack + 3000 };
    poor.show(ack);
  };
  hole();
  hole();
  hole();
  EXPECT_EQ(poor.actions.asked.size(), 2u);
  const Asked first = poor.actions.asked[0];
  poor.chain.fetched(first.flow, first.slot, { .from = first.fetch.from, .to = first.fetch.to, .ok = true }, 0,
                     poor.now());
  hole();
  EXPECT_EQ(poor.actions.asked.size(), 3u) << "it cost nothing after all";
}

} // namespace
} // namespace tandem::chain
