#include "src/chain/chain.h"
#include "src/chain/guard_fetch.h"
#include "tests/golden/harness/stand.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <stdexcept>

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
  std::array<Craft, 4> room {}; // where crafts of a plan live

private:
  std::string name_;
  int priority_;
};

// A craft that the guard lets pass: the newest ACK again.
Craft newest(const FlowView& flow, Link by, Tick at)
{
  return { .by = by,
           .at = at,
           .seq = flow.next_seq,
           .ack = flow.highest_ack,
           .window = flow.last_window,
           .timestamps = Timestamps { flow.last_ts_value, flow.last_ts_echo } };
}

bool is_ack(const Event& event)
{
  return event.kind == EventKind::segment && event.queued && event.segment->is_pure_ack();
}

// ---- what the packet gets ----

TEST(Chain, WithoutAnOpinionThePacketPassesAsItCame)
{
  Puppet puppet { "offload" };
  Stand stand { { &puppet } };
  Peers peers {};
  stand.open(peers);
  EXPECT_EQ(stand.download(peers, 50, ms(5), ms(20)), 0);
  EXPECT_TRUE(stand.actions.crafted.empty());
  EXPECT_EQ(stand.violations(), 0u);
}

TEST(Chain, ModulesSpeakByPriorityThenByName)
{
  Puppet late { "late", 150 }, zebra { "zebra" }, first { "zero", 10 }, apple { "apple" }, second { "mirror", 20 };
  Stand stand { { &late, &zebra, &first, &apple, &second } };
  std::string order {};
  for (std::size_t i = 0; i < stand.chain.module_count(); ++i)
    order += std::string { stand.chain.module(i).name() } + " ";
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
    stand.open(peers);
    stand.download(peers, 10, ms(5), ms(20));
    stand.data(peers, 1448, peers.local_ts(stand.now()));
  }
  Outcome both(Plan a, Plan b)
  {
    first.act = [a](const Event& event, const FlowView&) { return is_ack(event) ? a : Plan {}; };
    second.act = [b](const Event& event, const FlowView&) { return is_ack(event) ? b : Plan {}; };
    stand.run_for(ms(5));
    return stand.ack(peers);
  }
  Puppet first { "freeze" };
  Puppet second { "offload" };
  Stand stand { { &second, &first } };
  Peers peers {};
};

TEST_F(TwoModules, TheLowerAckWins)
{
  const Seq held = stand.view(peers).highest_ack;
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
  const TsClock own = peers.local_ts(stand.now() + ms(5));
  const TsClock echo = peers.recent;
  const Outcome outcome = both({ .edit = { .ts_echo = echo - 5, .ts_value = own } },
                               { .edit = { .ts_echo = echo - 3, .ts_value = own - 1 } });
  EXPECT_EQ(outcome.edit.ts_echo, echo - 5);
  EXPECT_EQ(outcome.edit.ts_value, own - 1);
}

TEST_F(TwoModules, CongestionExperiencedWins)
{
  Segment ack = peers.ack(stand.now());
  ack.ecn = Ecn::ect0;
  first.act = [](const Event&, const FlowView&) { return Plan { .edit = { .ecn = Ecn::ect1 } }; };
  second.act = [](const Event&, const FlowView&) { return Plan { .edit = { .ecn = Ecn::ce } }; };
  EXPECT_EQ(stand.show(ack)->edit.ecn, Ecn::ce);
}

TEST_F(TwoModules, TheFirstRouteWins)
{
  EXPECT_EQ(both({ .edit = { .route = Link::wifi } }, { .edit = { .route = Link::cell } }).edit.route, Link::wifi);
  EXPECT_EQ(both({}, { .edit = { .route = Link::cell } }).edit.route, Link::cell);
}

TEST_F(TwoModules, AnEditBeatsADropAndARouteDoesNot)
{
  EXPECT_EQ(both({ .verdict = Verdict::drop }, {}).verdict, Verdict::drop);
  stand.data(peers, 1448, peers.local_ts(stand.now()));
  EXPECT_EQ(both({ .verdict = Verdict::drop }, { .edit = { .window = std::uint16_t { 5 } } }).verdict, Verdict::pass);
  stand.data(peers, 1448, peers.local_ts(stand.now()));
  peers.window = 5; // as it left last, so that the next may be left out
  EXPECT_EQ(both({ .verdict = Verdict::drop }, { .edit = { .route = Link::cell } }).verdict, Verdict::drop);
}

TEST_F(TwoModules, TheFirstReasonIsShownAndBothAreCounted)
{
  EXPECT_EQ(both({ .why = "freeze: a" }, { .why = "offload: b" }).why, "freeze: a");
  EXPECT_EQ(stand.count("freeze: a"), 1u);
  EXPECT_EQ(stand.count("offload: b"), 1u);
}

TEST_F(TwoModules, WhatLeftIsRememberedAsItLeft)
{
  const TsClock own = peers.local_ts(stand.now() + ms(5));
  both({ .edit = { .window = std::uint16_t { 5 } } }, { .edit = { .ts_value = own - 1 } });
  EXPECT_EQ(stand.view(peers).sent_window, 5);
  EXPECT_EQ(stand.view(peers).last_window, peers.window) << "the kernel's own stays";
  EXPECT_EQ(stand.view(peers).sent_ts_value, own - 1);
  const Seq sent = stand.view(peers).sent_ack;
  peers.window = 5;
  stand.data(peers, 1448, peers.local_ts(stand.now()));
  both({ .verdict = Verdict::drop }, {});
  EXPECT_EQ(stand.view(peers).sent_ack, sent) << "a dropped ACK did not leave";
  EXPECT_EQ(stand.view(peers).highest_ack, sent + 1448);
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
    stand.run_for(ms(5));
    stand.ack(peers);
    first.act = {};
  }
  TsReservation::What reserved() { return stand.view(peers).ts_reserved.what; }
};

TEST_F(Reserving, NothingElseLeavesWithAReservedValue)
{
  reserve();
  const TsClock frozen = peers.local_ts(stand.now());
  ASSERT_EQ(reserved(), TsReservation::What::onward);
  stand.run_for(ms(7));
  EXPECT_EQ(stand.ack(peers).edit.ts_value, frozen) << "the kernel's own";
  second.act = [&](const Event& event, const FlowView& flow)
  {
    second.room[0] = newest(flow, Link::wifi, event.now);
    return Plan { .craft = std::span { second.room }.first(1) };
  };
  stand.ack(peers);
  ASSERT_EQ(stand.actions.crafted.size(), 1u);
  EXPECT_EQ(stand.actions.crafted[0].craft.timestamps->value, frozen) << "another module's";
  first.act = [&](const Event& event, const FlowView& flow)
  {
    first.room[0] = newest(flow, Link::cell, event.now);
    return Plan { .craft = std::span { first.room }.first(1) };
  };
  second.act = {};
  stand.ack(peers);
  ASSERT_EQ(stand.actions.crafted.size(), 2u);
  EXPECT_EQ(stand.actions.crafted[1].craft.timestamps->value, peers.local_ts(stand.now())) << "the owner's";
  EXPECT_EQ(stand.chain.stats().ts_lowered, 4u);
}

TEST_F(Reserving, ASecondModuleIsRefusedAndNeverTakenOut)
{
  reserve();
  second.act = [](const Event& event, const FlowView&)
  {
    return Plan { .reserve = TsReservation { .what = TsReservation::What::odd,
                                             .from = event.segment->timestamps->value + 1 } };
  };
  stand.ack(peers);
  EXPECT_EQ(reserved(), TsReservation::What::onward);
  EXPECT_EQ(stand.chain.stats(1).conflicts, 1u);
  EXPECT_EQ(stand.chain.stats(1).excluded, 0u);
}

TEST_F(Reserving, DataThatWaitsForItsAcknowledgementPreventsIt)
{
  peers.next += 100; // sent by Wi-Fi, seen by nobody
  reserve();
  EXPECT_EQ(reserved(), TsReservation::What::none) << "sent once more it could carry any TSval";
  stand.data(peers, 1448, peers.local_ts(stand.now())); // acknowledges it
  reserve();
  EXPECT_EQ(reserved(), TsReservation::What::onward);
}

TEST_F(Reserving, UnseenDataEndsIt)
{
  reserve();
  peers.next += 100;
  stand.data(peers, 1448, peers.local_ts(stand.now()));
  EXPECT_EQ(reserved(), TsReservation::What::none) << "its acknowledgement tells of it";
  EXPECT_EQ(stand.chain.stats().ts_spoiled, 1u);
}

TEST_F(Reserving, ItEndsWithItsModule)
{
  reserve();
  stand.chain.enable(0, false, stand.now());
  EXPECT_EQ(reserved(), TsReservation::What::none);
}

TEST_F(TwoModules, WhatCouldNotBeSentIsTakenBack)
{
  const Seq told = stand.view(peers).sent_ack;
  stand.actions.bytes_each = 0;
  second.act = [&](const Event& event, const FlowView& flow)
  {
    second.room[0] = newest(flow, Link::cell, event.now);
    return Plan { .verdict = Verdict::drop, .craft = std::span { second.room }.first(1) };
  };
  stand.run_for(ms(5));
  stand.ack(peers);
  EXPECT_EQ(stand.view(peers).sent_ack, told);
  EXPECT_EQ(stand.chain.stats().craft_failed, 1u);
}

// ---- faults of modules ----

TEST(ChainFaults, AThrowingModuleIsTakenOutOfThatFlowOnly)
{
  Puppet bad { "freeze" }, good { "offload" };
  Stand stand { { &bad, &good } };
  Peers one {}, other {};
  other.key.local_port = 40001;
  stand.open(one);
  stand.open(other);
  bad.act = [&](const Event&, const FlowView& flow) -> Plan
  {
    if (flow.key.local_port == 40000) throw std::runtime_error { "oops" };
    return {};
  };
  const auto calls = good.events.size();
  const Outcome outcome = stand.ack(one);
  EXPECT_EQ(outcome.verdict, Verdict::pass);
  EXPECT_TRUE(outcome.edit.empty());
  EXPECT_EQ(good.events.size(), calls + 1) << "the others go on";
  EXPECT_EQ(stand.chain.stats(0).faults, 1u);
  EXPECT_EQ(stand.chain.stats(0).excluded, 1u);

  bad.events.clear();
  stand.ack(one);
  EXPECT_TRUE(bad.events.empty()) << "never asked again on this flow";
  stand.ack(other);
  EXPECT_EQ(bad.events.size(), 1u) << "still asked on the other";
  EXPECT_EQ(stand.chain.stats(0).faults, 1u);
}

TEST(ChainFaults, AModuleThatCannotBeginIsTakenOut)
{
  Puppet bad { "freeze" };
  bad.begin_throws = true;
  {
    Stand stand { { &bad } };
    Peers peers {};
    EXPECT_NO_THROW(stand.open(peers));
    EXPECT_EQ(stand.chain.stats(0).faults, 1u);
    EXPECT_EQ(stand.chain.stats(0).flows, 0u);
    EXPECT_TRUE(bad.events.empty());
    EXPECT_NO_THROW(stand.ack(peers));
    EXPECT_EQ(stand.chain.stats(0).faults, 1u);
  }
  EXPECT_EQ(bad.ended, 0) << "what never began does not end";
}

TEST(ChainFaults, ASlowModuleIsTakenOut)
{
  Tick clock {};
  Puppet slow { "freeze" };
  Stand stand { { &slow }, { .call_limit = ms(5), .stopwatch = [&] { return clock; } } };
  Peers peers {};
  stand.open(peers);
  slow.act = [&](const Event&, const FlowView&)
  {
    clock += ms(5);
    return Plan { .edit = { .window = std::uint16_t { 1 } } };
  };
  EXPECT_EQ(stand.ack(peers).edit.window, 1) << "the limit itself is allowed";
  EXPECT_EQ(stand.chain.stats(0).faults, 0u);
  slow.act = [&](const Event&, const FlowView&)
  {
    clock += ms(5) + Duration { 1 };
    return Plan { .edit = { .window = std::uint16_t { 1 } } };
  };
  EXPECT_EQ(stand.ack(peers).edit.window, 1) << "the thread may have lost its core, once";
  EXPECT_EQ(stand.ack(peers).edit.window, 1) << "or twice";
  EXPECT_EQ(stand.chain.stats(0).excluded, 0u);
  EXPECT_TRUE(stand.ack(peers).edit.empty());
  EXPECT_EQ(stand.chain.stats(0).faults, 1u);
  EXPECT_EQ(stand.chain.stats(0).excluded, 1u);
}

TEST(ChainFaults, ALostCoreNowAndThenIsForgiven)
{
  Puppet module { "offload" };
  Tick clock {};
  Stand stand { { &module }, { .call_limit = ms(5), .stopwatch = [&] { return clock; } } };
  Peers peers {};
  stand.open(peers);
  int calls = 0;
  int every = 600;
  module.act = [&](const Event&, const FlowView&)
  {
    if (++calls % every == 0) clock += ms(50);
    return Plan {};
  };
  for (int i = 0; i < 6000; ++i)
    stand.ack(peers);
  EXPECT_EQ(stand.chain.stats(0).excluded, 0u) << "ten times in six thousand decisions";
  every = 100;
  for (int i = 0; i < 600; ++i)
    stand.ack(peers);
  EXPECT_EQ(stand.chain.stats(0).excluded, 1u);
}

TEST(ChainFaults, AnImpossiblePlanTakesTheModuleOut)
{
  Puppet bad { "freeze" }, good { "offload" };
  Stand stand { { &bad, &good } };
  Peers one {}, other {};
  other.key.local_port = 40001;
  stand.open(one);
  stand.open(other);
  good.act = [](const Event&, const FlowView&) { return Plan { .edit = { .window = std::uint16_t { 9 } } }; };
  bad.act = [&](const Event& event, const FlowView& flow)
  {
    bad.room[0] = newest(flow, Link::wifi, event.now);
    return Plan { .edit = { .ack = flow.highest_ack + 1 },
                  .craft = std::span { bad.room }.first(1),
                  .wake = event.now + ms(1),
                  .why = "mad" };
  };
  const Outcome outcome = stand.ack(one);
  EXPECT_EQ(outcome.edit.ack, std::nullopt);
  EXPECT_EQ(outcome.edit.window, 9) << "the plan of the sane module stands";
  EXPECT_TRUE(stand.actions.crafted.empty()) << "no part of the plan is carried out";
  EXPECT_EQ(stand.count("mad"), 0u);
  EXPECT_EQ(stand.chain.stats(0).violations[static_cast<std::size_t>(Violation::ack_beyond_received)], 1u);
  EXPECT_EQ(stand.chain.stats(0).excluded, 1u);
  bad.events.clear();
  stand.run_for(ms(10));
  stand.ack(one);
  EXPECT_TRUE(bad.events.empty()) << "neither segment nor alarm";
}

TEST(ChainFaults, ARefusalCostsThePlanOnly)
{
  Puppet puppet { "offload" };
  Stand stand { { &puppet } };
  Peers peers {};
  stand.open(peers);
  stand.links[static_cast<std::size_t>(Link::cell)].up = false;
  stand.chain.links(stand.links, stand.now());
  puppet.act = [](const Event& event, const FlowView&)
  {
    if (event.kind == EventKind::alarm) return Plan {};
    return Plan { .edit = { .route = Link::cell }, .wake = event.now + ms(3) };
  };
  puppet.events.clear();
  EXPECT_TRUE(stand.ack(peers).edit.empty());
  EXPECT_EQ(stand.chain.stats(0).violations[static_cast<std::size_t>(Violation::route_unusable)], 1u);
  EXPECT_EQ(stand.chain.stats(0).excluded, 0u);
  stand.run_for(ms(5));
  EXPECT_EQ(puppet.heard(EventKind::alarm), 1) << "it keeps its timer";
  stand.links[static_cast<std::size_t>(Link::cell)].up = true;
  stand.chain.links(stand.links, stand.now());
  EXPECT_EQ(stand.ack(peers).edit.route, Link::cell) << "and may go on";
}

// A dropped ACK must be followed by another. When the module that dropped it is taken out, the chain says it instead.
TEST(ChainFaults, WhatAFaultyModuleHeldBackIsSentByTheChain)
{
  Puppet puppet { "offload" };
  Stand stand { { &puppet } };
  Peers peers {};
  stand.open(peers);
  stand.download(peers, 3, ms(5), ms(20));
  puppet.act = [](const Event& event, const FlowView&) -> Plan
  {
    if (event.kind == EventKind::alarm) throw std::runtime_error { "oops" };
    return is_ack(event) ? Plan { .verdict = Verdict::drop, .wake = event.now + ms(3) } : Plan {};
  };
  EXPECT_EQ(stand.download(peers, 1, ms(5), ms(20)), 1);
  stand.run_for(ms(5));
  ASSERT_EQ(stand.actions.crafted.size(), 1u);
  EXPECT_EQ(stand.actions.crafted[0].craft.ack, stand.view(peers).highest_ack);
  EXPECT_EQ(stand.actions.crafted[0].craft.by, Link::wifi);
  EXPECT_EQ(stand.actions.crafted[0].why, "chain: ACK that a module withheld");
  EXPECT_EQ(stand.view(peers).sent_ack, stand.view(peers).highest_ack);
}

TEST(ChainFaults, WhatASwitchedOffModuleKeepsIsSentByTheChain)
{
  Puppet puppet { "offload" };
  Stand stand { { &puppet } };
  Peers peers {};
  stand.open(peers);
  stand.download(peers, 3, ms(5), ms(20));
  puppet.act = [](const Event& event, const FlowView&)
  { return is_ack(event) ? Plan { .verdict = Verdict::drop, .wake = event.now + ms(3'000) } : Plan {}; };
  stand.download(peers, 1, ms(5), ms(20));
  stand.chain.enable(0, false, stand.now());
  ASSERT_EQ(stand.actions.crafted.size(), 1u);
  EXPECT_EQ(stand.actions.crafted[0].craft.ack, stand.view(peers).highest_ack);
}

// With AccECN every ACK carries a counter. What is injected repeats it, whoever injects.
TEST(ChainFaults, InjectedAcksRepeatTheCounterOfAccurateEcn)
{
  for (const unsigned count : { 0u, 1u, 5u, 7u })
  {
    Puppet puppet { "offload" };
    Stand stand { { &puppet } };
    Peers peers {};
    peers.ace = static_cast<std::uint8_t>(count);
    stand.open(peers);
    stand.download(peers, 3, ms(5), ms(20));
    puppet.act = [&](const Event& event, const FlowView& flow) -> Plan
    {
      if (!is_ack(event)) return {};
      puppet.room[0] = newest(flow, Link::cell, event.now);
      puppet.room[1] = newest(flow, Link::cell, event.now + ms(2));
      puppet.room[0].window = puppet.room[1].window = 1;
      return { .edit = { .window = std::uint16_t { 1 } }, .craft = std::span { puppet.room }.first(2) };
    };
    stand.download(peers, 1, ms(5), ms(20));
    stand.run_for(ms(3));
    stand.chain.enable(0, false, stand.now()); // the window is opened again by the chain
    ASSERT_EQ(stand.actions.crafted.size(), 3u);
    for (const Crafted& one : stand.actions.crafted)
      EXPECT_EQ(one.craft.flags, static_cast<unsigned>(tcp_flag::ack) | count << 6) << one.why;
    EXPECT_EQ(stand.violations(), 0u);
  }
}

TEST(ChainFaults, WhatCouldNotLeaveByTheBudgetLeavesByTheHomeLink)
{
  Puppet puppet { "offload" };
  Stand stand { { &puppet }, { .cell_budget = 50 } };
  Peers peers {};
  stand.open(peers);
  stand.download(peers, 3, ms(5), ms(20));
  puppet.act = [&](const Event& event, const FlowView& flow) -> Plan
  {
    if (event.kind == EventKind::alarm)
    {
      puppet.room[0] = newest(flow, Link::cell, event.now);
      return { .craft = std::span { puppet.room }.first(1) };
    }
    return is_ack(event) ? Plan { .verdict = Verdict::drop, .wake = event.now + ms(3) } : Plan {};
  };
  stand.download(peers, 1, ms(5), ms(20));
  stand.run_for(ms(5));
  ASSERT_EQ(stand.actions.crafted.size(), 1u);
  EXPECT_EQ(stand.actions.crafted[0].craft.by, Link::wifi);
  EXPECT_EQ(stand.actions.crafted[0].craft.ack, stand.view(peers).highest_ack);
}

// ---- time ----

struct OneModule : ::testing::Test
{
  OneModule() { stand.open(peers); }
  // One ACK of new data with this plan; silent afterwards.
  Outcome once(std::function<Plan(const Event&, const FlowView&)> act)
  {
    stand.data(peers, 1448, peers.local_ts(stand.now()));
    puppet.act = [act](const Event& event, const FlowView& flow) { return is_ack(event) ? act(event, flow) : Plan {}; };
    const Outcome outcome = stand.ack(peers);
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
    stand.run_for(ms(500));
    return all;
  }
  Puppet puppet { "offload" };
  Stand stand { { &puppet } };
  Peers peers {};
};

TEST_F(OneModule, AnAlarmFiresOnceAtItsTime)
{
  const Tick due = stand.now() + ms(20);
  once([&](const Event&, const FlowView&) { return Plan { .wake = due }; });
  EXPECT_EQ(alarms(), std::vector<Tick> { due });
}

TEST_F(OneModule, ALaterWakeReplacesAnEarlierOne)
{
  const Tick early = stand.now() + ms(20), late = stand.now() + ms(40);
  once([&](const Event&, const FlowView&) { return Plan { .wake = early }; });
  once([&](const Event&, const FlowView&) { return Plan { .wake = late }; });
  EXPECT_EQ(alarms(), std::vector<Tick> { late });
}

TEST_F(OneModule, AnEarlierWakeReplacesALaterOne)
{
  const Tick early = stand.now() + ms(20), late = stand.now() + ms(40);
  once([&](const Event&, const FlowView&) { return Plan { .wake = late }; });
  once([&](const Event&, const FlowView&) { return Plan { .wake = early }; });
  EXPECT_EQ(alarms(), std::vector<Tick> { early });
}

TEST_F(OneModule, BackAndForthStillFiresOnce)
{
  const Tick begin = stand.now();
  for (const double due : { 40., 20., 60., 30., 50. })
    once([&](const Event&, const FlowView&) { return Plan { .wake = begin + ms(due) }; });
  EXPECT_EQ(alarms(), std::vector<Tick> { begin + ms(50) });
}

TEST_F(OneModule, APlanWithoutAWakeKeepsTheAlarm)
{
  const Tick due = stand.now() + ms(20);
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
  stand.ack(peers);
  stand.run_for(ms(10));
  EXPECT_GT(fired, 10);
  EXPECT_LE(fired, 101) << "at most one per 100 us";
}

TEST_F(OneModule, AdvanceSaysWhenItIsNeededNext)
{
  const Tick due = stand.now() + ms(20);
  once([&](const Event&, const FlowView&) { return Plan { .wake = due }; });
  EXPECT_EQ(stand.chain.advance(stand.now()), due);
  EXPECT_EQ(stand.chain.advance(due), due + ms(1000)) << "idle flows are looked for once a second";
}

TEST_F(OneModule, CraftsLeaveAtTheirTimesAndInOrder)
{
  const Tick begin = stand.now();
  stand.data(peers, 1448, peers.local_ts(begin)); // so that there is something to number them by
  once(
      [&](const Event& event, const FlowView& flow)
      {
        puppet.room[0] = newest(flow, Link::wifi, begin + ms(30));
        puppet.room[1] = newest(flow, Link::cell, event.now);
        puppet.room[2] = newest(flow, Link::wifi, begin + ms(10));
        puppet.room[3] = newest(flow, Link::cell, begin + ms(20));
        return Plan { .craft = puppet.room, .why = "four" };
      });
  ASSERT_EQ(stand.actions.crafted.size(), 1u) << "one at once";
  // The loop may be late for all three: they leave in the order of their times all the same.
  stand.actions.now = begin + ms(100);
  stand.chain.advance(stand.actions.now);
  ASSERT_EQ(stand.actions.crafted.size(), 4u);
  for (std::size_t i = 1; i < 4; ++i)
  {
    EXPECT_EQ(stand.actions.crafted[i].craft.at, begin + ms(10. * static_cast<double>(i)));
    EXPECT_EQ(stand.actions.crafted[i].why, "four");
  }
  EXPECT_EQ(stand.chain.stats().crafted, 4u);
  EXPECT_EQ(stand.chain.stats().cell_bytes, 104u);
}

TEST_F(OneModule, ADelayedCraftOfAModuleThatIsSwitchedOffStays)
{
  once(
      [&](const Event& event, const FlowView& flow)
      {
        puppet.room[0] = newest(flow, Link::wifi, event.now + ms(30));
        return Plan { .craft = std::span { puppet.room }.first(1) };
      });
  stand.chain.enable(0, false, stand.now());
  stand.run_for(ms(100));
  EXPECT_TRUE(stand.actions.crafted.empty());
}

TEST_F(OneModule, ADelayedCraftIsCheckedAgainWhenItLeaves)
{
  once(
      [&](const Event& event, const FlowView& flow)
      {
        puppet.room[0] = newest(flow, Link::wifi, event.now + ms(30));
        puppet.room[1] = newest(flow, Link::cell, event.now + ms(30));
        return Plan { .craft = std::span { puppet.room }.first(2) };
      });
  // Meanwhile younger timestamps have left, so that PAWS would reject the older ones.
  stand.run_for(ms(10));
  stand.ack(peers);
  stand.run_for(ms(100));
  EXPECT_TRUE(stand.actions.crafted.empty());
  EXPECT_EQ(stand.chain.stats().crafts_outdated, 2u);
  EXPECT_EQ(stand.chain.stats(0).excluded, 0u) << "the module is late, not wrong";
}

TEST_F(OneModule, ACraftThatCannotBeSentIsCounted)
{
  stand.actions.bytes_each = 0;
  once(
      [&](const Event& event, const FlowView& flow)
      {
        puppet.room[0] = newest(flow, Link::cell, event.now);
        return Plan { .craft = std::span { puppet.room }.first(1) };
      });
  EXPECT_EQ(stand.chain.stats().craft_failed, 1u);
  EXPECT_EQ(stand.chain.stats().crafted, 0u);
  EXPECT_EQ(stand.chain.stats().cell_bytes, 0u);
}

TEST(ChainBudget, IsSpentByRoutesAndCraftsAndThenRefuses)
{
  Puppet puppet { "offload" };
  Stand stand { { &puppet }, { .cell_budget = 300 } };
  Peers peers {};
  stand.open(peers);
  puppet.act = [](const Event&, const FlowView&) { return Plan { .edit = { .route = Link::cell } }; };
  int routed = 0;
  for (int i = 0; i < 10; ++i)
    routed += stand.ack(peers).edit.route ? 1 : 0;
  EXPECT_EQ(routed, 5) << "52 bytes each";
  EXPECT_EQ(stand.chain.stats().cell_bytes, 260u);
  EXPECT_EQ(stand.chain.link_states()[static_cast<std::size_t>(Link::cell)].bytes_out, 260u);
  EXPECT_EQ(stand.chain.stats(0).violations[static_cast<std::size_t>(Violation::budget)], 5u);
  EXPECT_EQ(stand.chain.stats(0).excluded, 0u);
}

TEST(ChainWishes, AreHandedOn)
{
  Puppet puppet { "ecn" };
  Stand stand { { &puppet } };
  Peers peers {};
  stand.open(peers);
  const std::array<Wish, 1> wish { { { .kind = WishKind::ce_rate, .value = 0.25 } } };
  puppet.act = [&](const Event&, const FlowView&) { return Plan { .wish = wish, .why = "ecn: mark" }; };
  stand.ack(peers);
  ASSERT_EQ(stand.actions.wishes.size(), 1u);
  EXPECT_EQ(stand.actions.wishes[0].first.value, 0.25);
  EXPECT_EQ(stand.actions.wishes[0].second, "ecn: mark");
}

// ---- several Wi-Fi links ----

TEST(ChainLinks, FlowsOfOtherLinksConcernOnlyWhoComparesLinks)
{
  Puppet deciding { "offload", 30 }, comparing { "ecn", 40 };
  comparing.wants = { .observe = traffic::egress_pure_ack | traffic::ingress_data, .every_link = true };
  Stand stand { { &deciding, &comparing } };
  EXPECT_TRUE(stand.chain.interest().every_link);
  Peers peers {};
  const auto by_second = [](Segment segment)
  {
    segment.link = wifi_link(1);
    return segment;
  };
  for (const Segment& one : { peers.syn(stand.now()), peers.syn_ack(stand.now()), peers.ack(stand.now()) })
    stand.chain.segment(by_second(one), false, stand.now());
  EXPECT_EQ(stand.flow(peers).view.link, wifi_link(1));
  EXPECT_EQ(deciding.begun, 0);
  EXPECT_EQ(comparing.begun, 1);
  EXPECT_FALSE(stand.chain.needs_queue(stand.now())) << "nothing of it is ever queued";
  Peers other {};
  other.key.local_port = static_cast<std::uint16_t>(peers.key.local_port + 1);
  stand.open(other);
  stand.ack(other);
  EXPECT_EQ(deciding.begun, 1);
  EXPECT_TRUE(stand.chain.needs_queue(stand.now()));
  stand.chain.enable(1, false, stand.now());
  EXPECT_FALSE(stand.chain.interest().every_link);
}

TEST(ChainLinks, CopiesOfAcksThatNobodyDecidesAboutGiveRoundTripTimes)
{
  for (const bool decides : { false, true })
  {
    Puppet puppet { "ecn" };
    puppet.wants = { .decide = decides ? traffic::egress_pure_ack : 0u,
                     .observe = traffic::egress_pure_ack | traffic::ingress_data,
                     .every_link = true };
    Stand stand { { &puppet } };
    Peers peers {};
    for (const Segment& one : { peers.syn(stand.now()), peers.syn_ack(stand.now()) })
      stand.chain.segment(one, false, stand.now());
    for (int i = 0; i < 5; ++i)
    {
      const TsClock sent = peers.local_ts(stand.now());
      stand.chain.segment(peers.ack(stand.now()), false, stand.now());
      stand.run_for(ms(40));
      stand.chain.segment(peers.data_in(stand.now(), 1000, sent), false, stand.now());
      peers.received += 1000;
    }
    EXPECT_EQ(stand.view(peers).rtt_smoothed, decides ? Duration {} : Duration { ms(40) })
        << "a copy of what is queued as well says nothing of when it left, or with which TSval";
  }
}

TEST(ChainLinks, ASilentSubflowIsKnownWhileItsConnectionLives)
{
  Puppet puppet { "ecn" };
  puppet.wants = { .observe = traffic::egress_pure_ack | traffic::ingress_data, .every_link = true };
  Stand stand { { &puppet }, { .table = { .idle = std::chrono::seconds { 10 } } } };
  Peers silent {}, living {}, stranger {};
  living.key.local_port = static_cast<std::uint16_t>(silent.key.local_port + 1);
  stranger.key.local_port = static_cast<std::uint16_t>(silent.key.local_port + 2);
  for (Peers* peers : { &silent, &living, &stranger })
  {
    Segment syn = peers->syn(stand.now());
    syn.options |= option::mptcp;
    syn.mptcp = MptcpSubtype::mp_join;
    syn.mptcp_token = peers == &stranger ? 8 : 7;
    stand.chain.segment(syn, false, stand.now());
    stand.chain.segment(peers->syn_ack(stand.now()), false, stand.now());
    stand.chain.segment(peers->ack(stand.now()), false, stand.now());
  }
  for (int i = 0; i < 60; ++i)
  {
    stand.run_for(ms(1000));
    stand.chain.segment(living.ack(stand.now()), false, stand.now());
    stand.chain.advance(stand.now());
  }
  EXPECT_NE(stand.chain.table().find(silent.key), nullptr);
  EXPECT_EQ(stand.chain.table().find(stranger.key), nullptr) << "it has no sibling";
  for (int i = 0; i < 40; ++i)
  {
    stand.run_for(ms(1000));
    stand.chain.advance(stand.now());
  }
  EXPECT_EQ(stand.chain.table().size(), 0u) << "silent siblings do not keep each other";
}

// ---- what could not be edited ----

// The wire refused the edit, so the segment left as it came. What is known of the server must say so.
TEST(ChainUnedited, TheServerKnowsWhatTheOriginalSaid)
{
  Puppet puppet { "offload" };
  Stand stand { { &puppet } };
  Peers peers {};
  stand.open(peers);
  stand.download(peers, 20, ms(5), ms(20));
  puppet.act = [](const Event& event, const FlowView&) -> Plan
  {
    if (!is_ack(event)) return {};
    return { .edit = { .ack = event.segment->ack - 2000u,
                       .window = std::uint16_t { 7 },
                       .ts_value = event.segment->timestamps->value - 3,
                       .route = Link::cell } };
  };
  stand.run_for(ms(5));
  stand.data(peers, 2896, peers.local_ts(stand.now() - ms(20)));
  const Segment ack = peers.ack(stand.now());
  const std::uint64_t cell_bytes = stand.chain.stats().cell_bytes;
  const Outcome outcome = *stand.show(ack);
  ASSERT_EQ(stand.view(peers).sent_ack, ack.ack - 2000u);
  EXPECT_GT(stand.chain.stats().cell_bytes, cell_bytes);

  stand.chain.unedited(ack, outcome, stand.now());
  EXPECT_EQ(stand.view(peers).sent_ack, ack.ack);
  EXPECT_EQ(stand.view(peers).sent_window, ack.window);
  EXPECT_EQ(stand.view(peers).sent_ts_value, ack.timestamps->value);
  EXPECT_EQ(stand.chain.stats().cell_bytes, cell_bytes) << "it left by its own link";
  EXPECT_EQ(stand.chain.link_states()[static_cast<std::size_t>(Link::cell)].bytes_out, cell_bytes);
  EXPECT_EQ(stand.flow(peers).holds[0].withheld, 0u) << "nothing is withheld any more";
  puppet.act = {};
  stand.chain.enable(0, false, stand.now());
  EXPECT_TRUE(stand.actions.crafted.empty()) << "there is nothing left to say";
}

TEST(ChainUnedited, TheOriginalsTimestampIsTimedAndTheEditsIsNot)
{
  for (const bool failed : { false, true })
  {
    Puppet puppet { "offload" };
    Stand stand { { &puppet } };
    Peers peers {};
    puppet.act = [](const Event& event, const FlowView&) -> Plan
    { return is_ack(event) ? Plan { .edit = { .ts_value = event.segment->timestamps->value - 1 } } : Plan {}; };
    stand.open(peers);
    stand.run_for(ms(1000));
    const Segment ack = peers.ack(stand.now());
    const Outcome outcome = *stand.show(ack);
    if (failed) stand.chain.unedited(ack, outcome, stand.now());
    stand.run_for(ms(40));
    const TsClock claimed = ack.timestamps->value - 1;
    stand.data(peers, 1000, failed ? ack.timestamps->value : claimed);
    EXPECT_EQ(stand.view(peers).rtt_latest, Duration { ms(40) }) << failed;
  }
}

TEST(ChainUnedited, AHigherNumberThatNeverLeftIsTakenBack)
{
  Puppet puppet { "offload" };
  Stand stand { { &puppet } };
  Peers peers {};
  stand.open(peers);
  stand.download(peers, 20, ms(5), ms(20));
  puppet.act = [](const Event& event, const FlowView&) -> Plan
  { return is_ack(event) ? Plan { .verdict = Verdict::drop } : Plan {}; };
  stand.run_for(ms(5));
  stand.data(peers, 2896, peers.local_ts(stand.now() - ms(20)));
  Segment old = peers.ack(stand.now());
  old.ack = old.ack - 1448u;
  stand.ack(peers); // held by this host, and left out
  puppet.act = [](const Event& event, const FlowView& flow) -> Plan
  { return is_ack(event) ? Plan { .edit = { .ack = flow.highest_ack } } : Plan {}; };
  const Outcome outcome = *stand.show(old);
  ASSERT_EQ(stand.view(peers).sent_ack, stand.view(peers).highest_ack);
  stand.chain.unedited(old, outcome, stand.now());
  EXPECT_EQ(stand.view(peers).sent_ack, old.ack);
}

// ---- what arrives and what is believed of it ----

// A copy is made before TCP looks at it, and anyone can send one. Outside the windows it decides nothing.
struct Believed : ::testing::Test
{
  Believed()
  {
    stand.open(peers);
    stand.download(peers, 100, ms(5), ms(20));
    shown = puppet.heard(EventKind::segment);
  }
  Segment arriving(std::int64_t seq, std::int64_t ack = 0)
  {
    Segment s = peers.data_in(stand.now(), 1448, peers.local_ts(stand.now() - ms(20)));
    s.seq = s.seq + static_cast<std::uint32_t>(seq);
    s.ack = s.ack + static_cast<std::uint32_t>(ack);
    return s;
  }
  bool believed(const Segment& s)
  {
    const int before = puppet.heard(EventKind::segment);
    const std::uint64_t refused = stand.chain.stats().unacceptable;
    stand.show(s);
    const bool heard = puppet.heard(EventKind::segment) > before;
    EXPECT_EQ(stand.chain.stats().unacceptable, refused + (heard ? 0 : 1)) << "either believed or counted";
    return heard;
  }

  Puppet puppet { "offload" };
  Stand stand { { &puppet } };
  Peers peers {}; // a window of 64,000 bytes; the server's are 500 << 7 as well
  int shown = 0;
};

TEST_F(Believed, WhatLiesInTheReceiveWindowOrNotFarBelow)
{
  EXPECT_TRUE(believed(arriving(0))) << "the next in order";
  EXPECT_TRUE(believed(arriving(60'000))) << "behind holes";
  EXPECT_TRUE(believed(arriving(-1448))) << "once more";
  EXPECT_TRUE(believed(arriving(-60'000))) << "a whole window once more: reported by D-SACK";
  EXPECT_FALSE(believed(arriving(1'000'000)));
  EXPECT_FALSE(believed(arriving(-1'000'000)));
  EXPECT_FALSE(believed(arriving(2'000'000'000)));
}

TEST_F(Believed, AMergedPacketThatReachesIntoTheWindow)
{
  Segment merged = arriving(-100'000);
  merged.payload_length = 64'000;
  EXPECT_TRUE(believed(merged));
  merged = arriving(0);
  merged.payload_length = 500'000; // big TCP
  EXPECT_TRUE(believed(merged));
}

TEST_F(Believed, WhatAcknowledgesSomethingThatThisHostMaySend)
{
  EXPECT_TRUE(believed(arriving(0, 0)));
  EXPECT_TRUE(believed(arriving(0, 5'000))) << "a request that no rule showed";
  EXPECT_TRUE(believed(arriving(0, -5'000))) << "an old one, overtaken";
  EXPECT_FALSE(believed(arriving(0, 100'000'000)));
  EXPECT_FALSE(believed(arriving(0, -100'000'000)));
}

TEST_F(Believed, NothingOfAnUnacceptableSegmentIsKept)
{
  const FlowView before = stand.view(peers);
  Segment forged = arriving(1'000'000'000, 500'000);
  forged.ecn = Ecn::ce;
  forged.timestamps->echo = before.sent_ts_value;
  forged.options |= option::md5;
  stand.run_for(ms(3));
  EXPECT_FALSE(believed(forged));
  const FlowView& after = stand.view(peers);
  EXPECT_EQ(after.rtt_at, before.rtt_at);
  EXPECT_EQ(after.ecn_seen, before.ecn_seen);
  EXPECT_EQ(after.snd_una, before.snd_una);
  EXPECT_EQ(after.hands_off, HandsOff::none);
  forged.flags = tcp_flag::rst;
  EXPECT_FALSE(believed(forged));
  EXPECT_FALSE(stand.flow(peers).closed);
  forged.flags = tcp_flag::syn;
  EXPECT_FALSE(believed(forged));
}

TEST_F(Believed, ASynAckThatDoesNotAnswerTheSynIsNone)
{
  Peers other {};
  other.key.local_port = 41'000;
  stand.show(other.syn(stand.now()));
  Segment forged = other.syn_ack(stand.now());
  forged.ack = forged.ack + 1u;
  stand.show(forged);
  EXPECT_EQ(stand.view(other).hands_off, HandsOff::mid_flow);
  stand.show(other.syn_ack(stand.now()));
  EXPECT_EQ(stand.view(other).hands_off, HandsOff::none);
}

TEST_F(Believed, ALargerWindowIsAsLargeAsItWasAdvertised)
{
  peers.window = 30'000; // 3.84 MB
  stand.ack(peers);
  EXPECT_TRUE(believed(arriving(3'000'000)));
  EXPECT_TRUE(believed(arriving(-3'000'000)));
  peers.window = 0;
  stand.ack(peers);
  EXPECT_TRUE(believed(arriving(3'000'000))) << "what was on its way when the window closed";
}

// While the queue is out of the way this host's ACKs are not seen: what arrives cannot be judged, and proves nothing,
// but is no sign of forgery either.
TEST_F(Believed, NothingIsKnownWhileTheQueueIsBypassed)
{
  stand.chain.queue_bypassed();
  peers.received += 300'000'000;
  const Tick measured = stand.view(peers).rtt_at;
  stand.run_for(ms(100));
  stand.data(peers, 1448, peers.local_ts(stand.now() - ms(20)));
  EXPECT_EQ(puppet.heard(EventKind::segment), shown);
  EXPECT_EQ(stand.view(peers).rtt_at, measured);
  EXPECT_EQ(stand.view(peers).last_seen, stand.now()) << "it says that the flow lives";
  stand.chain.queue_resumed();
  stand.data(peers, 1448, peers.local_ts(stand.now() - ms(20)));
  EXPECT_EQ(puppet.heard(EventKind::segment), shown) << "not before an ACK of this host";
  stand.ack(peers);
  stand.data(peers, 1448, peers.local_ts(stand.now() - ms(20)));
  EXPECT_EQ(puppet.heard(EventKind::segment), shown + 2);
  EXPECT_EQ(stand.chain.stats().unacceptable, 0u);
}

TEST(BelievedCopies, OwnAcksThatAreOnlyObservedTellTheNumbersToo)
{
  Puppet puppet { "ecn" };
  puppet.wants = { .observe = traffic::egress_pure_ack | traffic::ingress_data, .every_link = true };
  Stand stand { { &puppet } };
  Peers peers {};
  stand.open(peers);
  stand.download(peers, 10, ms(5), ms(20));
  stand.chain.queue_resumed(); // another module was switched on and off
  peers.received += 300'000'000;
  stand.ack(peers);
  const int shown = puppet.heard(EventKind::segment);
  stand.data(peers, 1448, peers.local_ts(stand.now() - ms(20)));
  EXPECT_EQ(puppet.heard(EventKind::segment), shown + 1);
}

// ---- the life of a flow ----

// Anyone can send SYNs. They cost nothing, and answered ones little.
TEST(ChainLife, AFloodOfSynsIsBoundedAndRunningFlowsAreKept)
{
  Puppet puppet { "offload" };
  Stand stand { { &puppet }, { .table = { .capacity = 256 } } };
  std::array<Peers, 100> running {};
  for (std::uint16_t i = 0; i < running.size(); ++i)
  {
    running[i].key.local_port = static_cast<std::uint16_t>(40'000 + i);
    stand.open(running[i]);
  }
  for (unsigned i = 0; i < 20'000; ++i)
  {
    Peers peer {};
    peer.key.local_port = 22;
    peer.key.remote_port = static_cast<std::uint16_t>(1024 + i);
    peer.key.remote.bytes[3] = static_cast<std::uint8_t>(i >> 12);
    Segment syn = peer.syn_ack(stand.now());
    syn.flags = tcp_flag::syn;
    stand.show(syn);
    if (i < 10'000) continue;
    Segment answer = peer.syn(stand.now());
    answer.flags = tcp_flag::syn | tcp_flag::ack;
    answer.ack = syn.end();
    stand.show(answer);
    if (i % 100 == 0) stand.run_for(ms(1));
  }
  EXPECT_LE(stand.chain.table().size(), running.size() + 64);
  for (Peers& one : running)
    ASSERT_NE(stand.chain.table().find(one.key), nullptr);
  Peers fresh {};
  fresh.key.local_port = 50'000;
  stand.open(fresh);
  EXPECT_EQ(stand.view(fresh).hands_off, HandsOff::none);
  stand.run_for(ms(6'000));
  EXPECT_EQ(stand.chain.table().size(), running.size() + 1) << "half-open ones go soon";
  EXPECT_EQ(stand.chain.stats().untracked, 0u);
}

TEST(ChainLife, WhatThisHostAnswersIsAFlow)
{
  for (const bool syn_seen : { false, true })
  {
    Puppet puppet { "offload" };
    Stand stand { { &puppet } };
    Peers peers {};
    Segment syn = peers.syn_ack(stand.now());
    syn.flags = tcp_flag::syn;
    if (syn_seen) stand.show(syn);
    EXPECT_EQ(stand.chain.table().size(), 0u) << "nobody knows yet whether it is answered";
    Segment answer = peers.syn(stand.now());
    answer.flags = tcp_flag::syn | tcp_flag::ack;
    answer.ack = syn.end();
    stand.show(answer);
    const FlowView& view = stand.view(peers);
    EXPECT_EQ(view.hands_off, HandsOff::none);
    EXPECT_TRUE(view.timestamps_ok);
    EXPECT_TRUE(view.sack_ok);
    EXPECT_EQ(view.local_window_scale, 7);
    EXPECT_EQ(view.highest_ack, syn.end());
    stand.run_for(ms(2'000));
    stand.ack(peers);
    EXPECT_EQ(puppet.begun, 1);
    stand.run_for(ms(60'000));
    EXPECT_EQ(stand.chain.table().size(), 1u) << "no longer half-open";
  }
}

TEST(ChainLife, AConnectionThatIsNotAnsweredGoesSoon)
{
  Puppet puppet { "offload" };
  Stand stand { { &puppet } };
  Peers silent {}, answered {};
  answered.key.local_port = 41'000;
  stand.show(silent.syn(stand.now()));
  stand.show(answered.syn(stand.now()));
  stand.show(answered.syn_ack(stand.now()));
  stand.run_for(ms(6'000));
  EXPECT_EQ(stand.chain.table().find(silent.key), nullptr);
  EXPECT_NE(stand.chain.table().find(answered.key), nullptr);
  stand.show(silent.syn(stand.now())); // once more
  stand.show(silent.syn_ack(stand.now()));
  EXPECT_EQ(stand.view(silent).hands_off, HandsOff::none);
}

TEST(ChainLife, AModuleStartsOffAndIsNotAsked)
{
  Puppet puppet { "offload" }, other { "other" };
  other.wants = { .observe = traffic::ingress_data }; // else nobody sees the handshake
  Stand stand { { &puppet, &other } };
  stand.chain.enable(0, false, stand.now());
  EXPECT_EQ(stand.chain.interest().decide, 0u);
  Peers peers {};
  stand.open(peers);
  EXPECT_EQ(puppet.begun, 0);
  stand.chain.enable(0, true, stand.now());
  EXPECT_EQ(stand.chain.interest().decide, puppet.wants.decide);
  stand.ack(peers);
  EXPECT_EQ(puppet.begun, 1);
}

TEST(ChainLife, AShortFlowCostsNoStateUntilItIsWorthIt)
{
  Puppet puppet { "offload" };
  Stand stand { { &puppet }, { .worth = 14'000 } };
  Peers peers {};
  stand.open(peers);
  const auto delivers = [&](std::uint32_t bytes)
  {
    peers.received += bytes;
    stand.show(peers.ack(stand.now()));
    stand.run_for(ms(10));
  };
  // Now and then a little, for ever.
  for (int i = 0; i < 20; ++i)
  {
    delivers(6'000);
    delivers(6'000);
    stand.run_for(ms(1000));
  }
  EXPECT_EQ(puppet.begun, 0);
  EXPECT_TRUE(puppet.events.empty());
  EXPECT_EQ(stand.chain.table().states(), 0u);
  EXPECT_TRUE(stand.chain.needs_queue(stand.now() - ms(1000))) << "its ACKs are needed to know what it delivers";
  delivers(6'000);
  delivers(7'999);
  EXPECT_EQ(puppet.begun, 0);
  delivers(1);
  EXPECT_EQ(puppet.begun, 1);
  EXPECT_EQ(puppet.heard(EventKind::segment), 1);
  EXPECT_EQ(stand.chain.table().states(), 1u);
  stand.run_for(ms(5000));
  delivers(1);
  EXPECT_EQ(puppet.heard(EventKind::segment), 2) << "once begun, a pause ends nothing";
}

TEST(ChainLife, SwitchingOffTellsEveryFlowAndEndsItOnce)
{
  Puppet puppet { "offload" };
  Peers one {}, other {};
  other.key.local_port = 40001;
  {
    Stand stand { { &puppet } };
    stand.open(one);
    stand.open(other);
    stand.ack(one);
    stand.ack(other);
    EXPECT_EQ(stand.chain.stats(0).flows, 2u);
    puppet.act = [&](const Event& event, const FlowView& flow)
    {
      if (event.kind != EventKind::switched_off) return Plan {};
      puppet.room[0] = newest(flow, Link::wifi, event.now);
      return Plan { .craft = std::span { puppet.room }.first(1), .why = "released" };
    };
    stand.chain.enable(0, false, stand.now());
    EXPECT_EQ(puppet.heard(EventKind::switched_off), 2);
    EXPECT_EQ(stand.actions.crafted.size(), 2u);
    EXPECT_EQ(stand.count("released"), 2u);
    EXPECT_EQ(puppet.ended, 2);
    EXPECT_EQ(stand.chain.stats(0).flows, 0u);
    stand.chain.enable(0, false, stand.now());
    EXPECT_EQ(puppet.ended, 2);
    puppet.events.clear();
    stand.ack(one);
    stand.run_for(ms(100));
    EXPECT_TRUE(puppet.events.empty());
    stand.chain.enable(0, true, stand.now());
    stand.ack(one);
    EXPECT_EQ(puppet.begun, 3);
  }
  EXPECT_EQ(puppet.ended, 3) << "the destructor ends what is left, once";
}

TEST(ChainLife, SwitchingOffAndOnGivesATakenOutModuleANewStart)
{
  Puppet puppet { "offload" };
  Stand stand { { &puppet } };
  Peers peers {};
  stand.open(peers);
  puppet.act = [](const Event&, const FlowView&) -> Plan { throw std::runtime_error { "once" }; };
  stand.ack(peers);
  puppet.act = {};
  puppet.events.clear();
  stand.chain.enable(0, false, stand.now());
  EXPECT_EQ(puppet.heard(EventKind::switched_off), 0) << "it is not trusted any more";
  EXPECT_EQ(puppet.ended, 1);
  stand.chain.enable(0, true, stand.now());
  stand.ack(peers);
  EXPECT_EQ(puppet.events.size(), 1u);
}

TEST(ChainLife, AnIdleFlowIsReleasedAndEndsOnce)
{
  Puppet puppet { "offload" };
  {
    Stand stand { { &puppet }, { .table = { .idle = std::chrono::seconds { 60 } } } };
    Peers peers {};
    stand.open(peers);
    stand.ack(peers);
    stand.run_for(ms(59'000));
    EXPECT_EQ(puppet.ended, 0);
    stand.run_for(ms(3'000));
    EXPECT_EQ(puppet.heard(EventKind::switched_off), 1);
    EXPECT_EQ(puppet.ended, 1);
    EXPECT_EQ(stand.chain.table().size(), 0u);
    EXPECT_EQ(stand.chain.stats(0).flows, 0u);
  }
  EXPECT_EQ(puppet.ended, 1);
}

TEST(ChainLife, AClosedFlowGoesSoon)
{
  for (const bool reset : { false, true })
  {
    Puppet puppet { "offload" };
    Stand stand { { &puppet } };
    Peers peers {};
    stand.open(peers);
    stand.show(peers.bare(reset ? Direction::ingress : Direction::egress,
                          tcp_flag::ack | (reset ? tcp_flag::rst : tcp_flag::fin), stand.now()));
    stand.run_for(ms(4'000));
    EXPECT_EQ(stand.chain.table().size(), 1u);
    stand.run_for(ms(3'000));
    EXPECT_EQ(stand.chain.table().size(), 0u);
    EXPECT_EQ(puppet.ended, puppet.begun);
  }
}

TEST(ChainLife, AResetThatTcpIgnoresEndsNothing)
{
  Puppet puppet { "offload" };
  Stand stand { { &puppet } };
  Peers peers {};
  stand.open(peers);
  stand.download(peers, 5, ms(5), ms(20));
  Segment reset = peers.bare(Direction::ingress, tcp_flag::rst, stand.now());
  reset.seq = stand.view(peers).highest_ack - 2;
  stand.show(reset);
  EXPECT_TRUE(stand.chain.needs_queue(stand.now()));
  reset.seq = stand.view(peers).highest_ack;
  stand.show(reset);
  EXPECT_FALSE(stand.chain.needs_queue(stand.now()));
}

TEST(ChainLife, AnAlarmDoesNotOutliveItsFlow)
{
  Puppet puppet { "offload" };
  Stand stand { { &puppet } };
  Peers peers {};
  stand.open(peers);
  puppet.act = [](const Event& event, const FlowView&) { return Plan { .wake = event.now + ms(30'000) }; };
  stand.ack(peers);
  stand.show(peers.bare(Direction::ingress, tcp_flag::rst, stand.now()));
  stand.run_for(ms(10'000));
  ASSERT_EQ(stand.chain.table().size(), 0u);
  // The room is taken by another flow before the alarm is due.
  Peers next {};
  next.key.local_port = 41000;
  stand.open(next);
  puppet.act = {};
  puppet.events.clear();
  stand.run_for(ms(25'000));
  EXPECT_EQ(puppet.heard(EventKind::alarm), 0);
}

TEST(ChainLife, PortsUsedAgainMakeANewFlow)
{
  for (const bool closed : { true, false })
  {
    Puppet puppet { "offload" };
    Stand stand { { &puppet } };
    Peers peers {};
    stand.open(peers);
    stand.download(peers, 5, ms(5), ms(20));
    const std::uint64_t id = stand.view(peers).id;
    if (closed) stand.show(peers.bare(Direction::ingress, tcp_flag::rst, stand.now()));

    Peers again {};
    again.local_isn = Seq { 3'000'000'000u };
    again.remote_isn = Seq { 5 };
    stand.open(again);
    EXPECT_EQ(stand.chain.table().size(), 1u);
    EXPECT_NE(stand.view(again).id, id) << (closed ? "closed" : "its end was not seen");
    EXPECT_EQ(stand.view(again).highest_ack, again.remote_isn + 1);
    EXPECT_EQ(stand.view(again).hands_off, HandsOff::none);
    EXPECT_EQ(stand.view(again).bytes_delivered, 0u);
    EXPECT_EQ(puppet.begun, 2);
    EXPECT_EQ(puppet.ended, 1);
  }
}

TEST(ChainLife, ASynSentAgainIsTheSameFlow)
{
  Puppet puppet { "offload" };
  Stand stand { { &puppet } };
  Peers peers {};
  stand.show(peers.syn(stand.now()));
  const std::uint64_t id = stand.view(peers).id;
  stand.run_for(ms(1000));
  stand.open(peers);
  EXPECT_EQ(stand.view(peers).id, id);
  EXPECT_EQ(stand.view(peers).hands_off, HandsOff::none);
}

TEST(ChainLife, AForgedSynDoesNotEndAFlow)
{
  Puppet puppet { "offload" };
  Stand stand { { &puppet } };
  Peers peers {};
  stand.open(peers);
  stand.download(peers, 5, ms(5), ms(20));
  const std::uint64_t id = stand.view(peers).id;
  Segment forged = peers.bare(Direction::ingress, tcp_flag::syn, stand.now());
  forged.seq = forged.seq + 77'000'000u;
  stand.show(forged);
  EXPECT_EQ(stand.view(peers).id, id);
  EXPECT_EQ(puppet.ended, 0);
}

TEST(ChainLife, AttachedMidFlowPassesUntouchedAndIsCounted)
{
  Puppet puppet { "offload" };
  puppet.act = [](const Event&, const FlowView&) { return Plan { .edit = { .window = std::uint16_t { 1 } } }; };
  Stand stand { { &puppet } };
  Peers peers {};
  const Outcome outcome = stand.ack(peers);
  EXPECT_TRUE(outcome.edit.empty());
  EXPECT_EQ(outcome.why, name(HandsOff::mid_flow));
  EXPECT_EQ(stand.chain.stats().mid_flow, 1u);
  stand.download(peers, 5, ms(5), ms(20));
  EXPECT_EQ(stand.chain.stats().mid_flow, 1u) << "counted once";
  EXPECT_TRUE(puppet.events.empty());
}

TEST(ChainLife, AuthenticatedFlowsPassUntouched)
{
  Puppet puppet { "offload" };
  Stand stand { { &puppet } };
  Peers peers {};
  peers.more_options = option::md5;
  stand.open(peers);
  EXPECT_EQ(stand.ack(peers).why, name(HandsOff::authenticated));
  EXPECT_TRUE(puppet.events.empty());
}

TEST(ChainLife, StrayCopiesMakeNoFlow)
{
  Puppet puppet { "offload" };
  Stand stand { { &puppet } };
  Peers peers {};
  stand.data(peers, 1448, {});
  EXPECT_EQ(stand.chain.table().size(), 0u);
}

TEST(ChainLife, AFullTablePassesNewFlowsUntouchedAndCounts)
{
  Puppet puppet { "offload" };
  puppet.act = [](const Event& event, const FlowView&)
  { return is_ack(event) ? Plan { .edit = { .window = std::uint16_t { 1 } } } : Plan {}; };
  Stand stand { { &puppet }, { .table = { .capacity = 2 } } };
  std::array<Peers, 3> peers {};
  for (std::uint16_t i = 0; i < 3; ++i)
  {
    peers[i].key.local_port = static_cast<std::uint16_t>(40000 + i);
    stand.open(peers[i]);
  }
  EXPECT_EQ(stand.ack(peers[1]).edit.window, 1);
  const Outcome outcome = stand.ack(peers[2]);
  EXPECT_EQ(outcome.verdict, Verdict::pass);
  EXPECT_TRUE(outcome.edit.empty());
  EXPECT_EQ(outcome.why, "flow table full");
  EXPECT_EQ(outcome.flow, nullptr);
  EXPECT_GE(stand.chain.stats().untracked, 2u);
  // Room is made by what has gone.
  stand.show(peers[0].bare(Direction::ingress, tcp_flag::rst, stand.now()));
  stand.actions.now += ms(6'000);
  stand.open(peers[2]);
  EXPECT_EQ(stand.ack(peers[2]).edit.window, 1);
}

TEST(ChainLife, TheDestructorEndsEveryState)
{
  Puppet a { "freeze" }, b { "offload" };
  {
    Stand stand { { &a, &b } };
    for (std::uint16_t i = 0; i < 20; ++i)
    {
      Peers peers {};
      peers.key.local_port = static_cast<std::uint16_t>(40000 + i);
      stand.open(peers);
    }
    EXPECT_EQ(a.begun, 20);
  }
  EXPECT_EQ(a.ended, 20);
  EXPECT_EQ(b.ended, 20);
}

TEST(ChainLife, LinkChangesReachEveryFlowWithState)
{
  Puppet puppet { "offload" };
  Stand stand { { &puppet } };
  Peers one {}, other {}, strange {};
  other.key.local_port = 40001;
  strange.key.local_port = 40002;
  stand.open(one);
  stand.open(other);
  stand.ack(strange); // mid-flow
  puppet.events.clear();
  stand.chain.links(stand.links, stand.now());
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
  Stand stand { { &curious, &content } };
  Peers peers {};
  stand.open(peers);
  curious.events.clear();
  content.events.clear();
  const RadioState first { .packet_time = 500us, .delivery = 0.8F, .confidence = 1 };
  stand.chain.radio(Link::wifi, first, stand.now());
  EXPECT_EQ(curious.heard(EventKind::radio), 1);
  EXPECT_EQ(found->packet_time, Duration { 500us });
  RadioState noise = first;
  noise.packet_time = 510us;
  stand.chain.radio(Link::wifi, noise, stand.now());
  EXPECT_EQ(curious.heard(EventKind::radio), 1);
  noise.packet_time = 600us;
  stand.chain.radio(Link::wifi, noise, stand.now());
  EXPECT_EQ(curious.heard(EventKind::radio), 2);
  stand.chain.radio(Link::wifi, {}, stand.now());
  EXPECT_EQ(curious.heard(EventKind::radio), 3) << "stale: what depends on it is off";
  EXPECT_FALSE(found);
  EXPECT_EQ(content.heard(EventKind::radio), 0);
}

TEST(ChainInterest, IsTheUnionOfWhatIsSwitchedOn)
{
  Puppet a { "freeze" }, b { "offload" };
  a.wants = { .decide = traffic::egress_data, .radio = true };
  b.wants = { .decide = traffic::egress_pure_ack, .observe = traffic::ingress_data };
  Stand stand { { &a, &b } };
  EXPECT_EQ(stand.chain.interest().decide, traffic::egress_data | traffic::egress_pure_ack);
  EXPECT_EQ(stand.chain.interest().observe, traffic::ingress_data);
  EXPECT_TRUE(stand.chain.interest().radio);
  stand.chain.enable(0, false, stand.now());
  EXPECT_EQ(stand.chain.interest().decide, traffic::egress_pure_ack);
  EXPECT_FALSE(stand.chain.interest().radio);
}

// ---- the queue out of the way ----

TEST(ChainQueue, IsNeededWhileAModuleMustSeeSomeFlow)
{
  Puppet puppet { "offload" };
  Stand stand { { &puppet } };
  EXPECT_FALSE(stand.chain.needs_queue(stand.now())) << "no flow";
  Peers peers {};
  stand.open(peers);
  EXPECT_TRUE(stand.chain.needs_queue(stand.now()));
  const Tick until = stand.now() + ms(300);
  puppet.act = [&](const Event&, const FlowView&) { return Plan { .quiet = until }; };
  stand.ack(peers);
  EXPECT_FALSE(stand.chain.needs_queue(stand.now()));
  EXPECT_TRUE(stand.chain.needs_queue(until));
  EXPECT_FALSE(stand.chain.needs_queue(stand.now() + ms(5'000))) << "not heard of for long";
}

TEST(ChainQueue, EveryModuleMustBeQuiet)
{
  Puppet a { "freeze" }, b { "offload" };
  Stand stand { { &a, &b } };
  Peers peers {};
  stand.open(peers);
  a.act = [&](const Event& event, const FlowView&) { return Plan { .quiet = event.now + ms(1000) }; };
  stand.ack(peers);
  EXPECT_TRUE(stand.chain.needs_queue(stand.now()));
  b.act = [&](const Event& event, const FlowView&) { return Plan { .quiet = event.now + ms(300) }; };
  stand.ack(peers);
  EXPECT_FALSE(stand.chain.needs_queue(stand.now()));
  EXPECT_TRUE(stand.chain.needs_queue(stand.now() + ms(300))) << "the first to wake counts";
}

TEST(ChainQueue, WhatPassedBesideItIsNotMistakenForProgress)
{
  Puppet puppet { "offload" };
  Stand stand { { &puppet } };
  Peers peers {};
  stand.open(peers);
  stand.download(peers, 100, ms(5), ms(20));
  const std::uint64_t before = stand.view(peers).bytes_delivered;
  peers.received += 3'000'000'000u; // more than half the sequence space, unseen
  stand.run_for(ms(1000));
  stand.chain.queue_resumed();
  stand.ack(peers);
  EXPECT_EQ(stand.view(peers).bytes_delivered, before);
  EXPECT_EQ(stand.view(peers).highest_ack, peers.remote_isn + peers.received);
  EXPECT_EQ(stand.view(peers).sent_ack, peers.remote_isn + peers.received);
  EXPECT_EQ(stand.view(peers).resumed, stand.now());
  EXPECT_EQ(stand.view(peers).hands_off, HandsOff::none);
}

TEST(ChainQueue, NothingWasSeenWhileEveryModuleWasOff)
{
  Puppet puppet { "offload" };
  Stand stand { { &puppet } };
  Peers peers {};
  stand.open(peers);
  stand.download(peers, 20, ms(5), ms(20));
  stand.chain.enable(0, false, stand.now());
  peers.received += 3'000'000'000u;
  stand.run_for(ms(1000));
  stand.chain.enable(0, true, stand.now());
  stand.ack(peers);
  EXPECT_EQ(stand.view(peers).highest_ack, peers.remote_isn + peers.received);
  EXPECT_EQ(stand.view(peers).sent_ack, peers.remote_isn + peers.received);
}

// ---- fetching ----

// A download with a hole of 1,000 bytes before 2,000 that are held, on a flow that somebody follows.
struct Fetching : ::testing::Test
{
  Fetching()
  {
    stand.open(peers);
    stand.download(peers, 10, ms(5), ms(20));
    stand.chain.content(peers.key, Content::http, {});
  }
  void duplicate_ack()
  {
    Segment ack = peers.ack(stand.now());
    ack.options |= option::sack;
    ack.sack_count = 1;
    ack.sack_blocks[0] = { ack.ack + 1000, ack.ack + 3000 };
    stand.show(ack);
  }
  Plan asks(const FlowView& flow)
  {
    fetch = { .from = flow.highest_ack, .to = flow.highest_ack + 1000, .deadline = stand.now() + ms(100) };
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
  Stand stand { { &puppet } };
  Peers peers {};
  Fetch fetch {};
  std::optional<FetchResult> heard {};
};

TEST_F(Fetching, TheAnswerGoesToWhoAsked)
{
  asks_at_the_hole();
  ASSERT_EQ(stand.actions.asked.size(), 1u);
  const Asked& asked = stand.actions.asked[0];
  EXPECT_EQ(asked.fetch.to - asked.fetch.from, 1000);
  EXPECT_FALSE(heard);
  stand.chain.fetched(asked.flow, asked.slot, { .from = asked.fetch.from, .to = asked.fetch.to, .ok = true }, 1700,
                      stand.now());
  ASSERT_TRUE(heard);
  EXPECT_TRUE(heard->ok);
  EXPECT_EQ(stand.chain.stats().cell_bytes, 1700u);
  EXPECT_EQ(stand.chain.stats().fetched, 1u);
  EXPECT_EQ(stand.violations(), 0u);
}

TEST_F(Fetching, WithoutAServiceTheModuleHearsSo)
{
  stand.actions.fetches = false;
  asks_at_the_hole();
  stand.run_for(ms(1));
  ASSERT_TRUE(heard);
  EXPECT_FALSE(heard->ok);
  EXPECT_EQ(heard->why, "no fetch service");
}

TEST_F(Fetching, AnAnswerForAFlowThatIsGoneIsDropped)
{
  asks_at_the_hole();
  stand.chain.fetched(stand.actions.asked[0].flow + 77, 0, { .ok = true }, 0, stand.now());
  EXPECT_FALSE(heard);
}

TEST_F(Fetching, AFillGoesOutOnlyWhileTheHoleIsThere)
{
  puppet.act = [this](const Event& event, const FlowView& flow) -> Plan
  {
    if (event.kind != EventKind::segment || event.segment->sack_count == 0) return {};
    puppet.room[0] = { .kind = CraftKind::fill,
                       .at = event.now + ms(10),
                       .seq = flow.highest_ack,
                       .timestamps = Timestamps { flow.last_ts_echo, {} },
                       .length = 1000 };
    return { .craft = std::span { puppet.room }.first(1), .why = "fill" };
  };
  duplicate_ack();
  stand.run_for(ms(20));
  ASSERT_EQ(stand.actions.crafted.size(), 1u);
  EXPECT_EQ(stand.actions.crafted[0].craft.kind, CraftKind::fill);
  EXPECT_EQ(stand.chain.stats().fills, 1u);

  duplicate_ack();
  peers.received += 3000; // the server's own retransmission was faster
  stand.show(peers.ack(stand.now()));
  stand.run_for(ms(20));
  EXPECT_EQ(stand.actions.crafted.size(), 1u);
  EXPECT_EQ(stand.chain.stats().crafts_outdated, 1u);
  EXPECT_EQ(stand.violations(), 0u);
}

TEST_F(Fetching, WhatIsUnderWayIsSetAsideOfTheBudget)
{
  Puppet greedy { "mirror" };
  Stand poor { { &greedy }, { .cell_budget = 2 * (1000 + fetch_overhead) } };
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
