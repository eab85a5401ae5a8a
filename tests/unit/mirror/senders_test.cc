// What mirror does to senders of each kind.
#include "modules/mirror/undo.h"

#include <gtest/gtest.h>

namespace tandem::mirror
{
namespace
{

using namespace std::chrono_literals;

// As one that fetches what is missing: it wants to be woken at this time, too.
struct Waking : Undo
{
  void repair_too(const Event&, const FlowView&, State&, Plan& plan) override { plan.wake = at; }
  std::optional<Tick> at {};
};

// A download of which one segment is lost and repaired.
struct Lossy
{
  explicit Lossy(SenderKind kind)
  {
    flow.link = Link::wifi;
    flow.sender.kind = kind;
    flow.sack_ok = flow.timestamps_ok = flow.sent_any = true;
    flow.mss = 1448;
    flow.rtt_min = flow.rtt_smoothed = 20ms;
    flow.bytes_delivered = 1'000'000;
    for (LinkState& link : links)
      link = { .present = true, .up = true, .route = true };
  }

  Plan ack(std::uint32_t number, std::uint32_t echo, std::uint32_t left = 0, std::uint32_t right = 0)
  {
    Segment segment { .flags = tcp_flag::ack, .window = 500 };
    segment.ack = { number };
    segment.timestamps = Timestamps { { 1 }, { echo } };
    if (right > 0) segment.sack_blocks[segment.sack_count++] = { { left }, { right } };
    const Event event { .now = now, .segment = &segment, .queued = true, .links = &links, .damage = radio };
    Plan plan = undo.decide(event, flow, state);
    flow.rcv_nxt = segment.ack;
    if (plan.verdict == Verdict::pass)
    {
      flow.sent_ack = segment.ack;
      flow.sent_sacked = later(flow.sent_sacked, { std::max(number, right) });
      flow.sent_window = flow.told_window = segment.window;
    }
    now += 20ms;
    clock += 20;
    return plan;
  }
  // Data arrive, so much later than usual.
  void data(int milliseconds, Duration queued = {})
  {
    for (int i = 0; i < milliseconds; ++i)
    {
      Segment segment { .direction = Direction::ingress, .flags = tcp_flag::ack, .payload_length = 1448 };
      segment.timestamps = Timestamps { { ++clock }, { 1 } };
      undo.decide({ .now = now + queued, .segment = &segment, .links = &links }, flow, state);
      now += 1ms;
    }
  }
  // The segment that begins here is lost and repaired; the last ACK of the episode.
  Plan episode(std::uint32_t from = 10'000)
  {
    ack(from, 100);
    ack(from, 100, from + 1448, from + 2896);
    return ack(from + 2896, 140);
  }

  // So many segments are lost from here on, and two behind them are not.
  Plan at_once(int lost, std::uint32_t from)
  {
    const std::uint32_t held = from + static_cast<std::uint32_t>(lost) * 1448;
    ack(from, 100);
    ack(from, 100, held, held + 2896);
    return ack(held + 2896, 140);
  }

  Waking undo {};
  Undo::State state {};
  FlowView flow {};
  LinkStates links {};
  const DamageLog* radio = nullptr;
  Tick now { 1s };
  std::uint32_t clock = 50'000;
};

TEST(MirrorSenders, ALossIsHiddenFromThoseWhoMayTakeTheirReactionBack)
{
  for (const SenderKind kind : { SenderKind::loss_based, SenderKind::unknown })
  {
    Lossy lossy { kind };
    EXPECT_EQ(lossy.episode().edit.ts_echo, TsClock { 139 }) << name(kind);
    EXPECT_EQ(lossy.state.hidden, 1);
  }
}

TEST(MirrorSenders, WhoTakesNothingBackIsLeftAlone)
{
  for (const SenderKind kind : { SenderKind::rate_based, SenderKind::unresponsive })
  {
    Lossy lossy { kind };
    const Plan plan = lossy.episode();
    EXPECT_TRUE(plan.edit.empty()) << name(kind);
    EXPECT_EQ(plan.verdict, Verdict::pass);
    EXPECT_EQ(lossy.state.hidden, 0);
  }
}

// While a flow is faster than any Wi-Fi it is not looked at, though another module may keep it in the queue.
TEST(MirrorLongDownloads, WhatWentByMeanwhileIsNotTakenForOld)
{
  Lossy lossy { SenderKind::loss_based };
  lossy.episode();
  lossy.flow.delivery_rate = 1e9;
  std::uint32_t number = 20'000;
  for (int i = 0; i < 300; ++i)
    EXPECT_TRUE(lossy.ack(number += 10'000'000, 160).edit.empty());
  lossy.flow.delivery_rate = 0;
  EXPECT_EQ(lossy.episode(number + 10'000).edit.ts_echo, TsClock { 139 });
  EXPECT_EQ(lossy.state.steering.edge(), Seq { number + 12'896 });
}

// Nor for arrived without a loss: the gap between two numbers may even be negative.
TEST(MirrorLongDownloads, WhatWentByMeanwhileIsNoEvidenceOfThePolicer)
{
  for (const bool left_alone : { false, true })
  {
    Lossy lossy { SenderKind::loss_based };
    lossy.episode();
    LoadWatch& load = lossy.state.load;
    for (int i = 0; i < 12; ++i)
    {
      load.arrived(100, lossy.now);
      load.lost();
    }
    load.answered(lossy.now);
    load.arrived(3000, lossy.now);
    load.lost();
    ASSERT_TRUE(load.tells());
    std::uint32_t number = 20'000;
    if (left_alone)
      lossy.flow.sender.kind = SenderKind::rate_based; // by mistake
    else
      lossy.flow.delivery_rate = 1e9;
    for (int i = 0; i < 300; ++i)
      lossy.ack(number += left_alone ? 1448 : 10'000'000, 160);
    lossy.flow.sender.kind = SenderKind::loss_based;
    lossy.flow.delivery_rate = 0;
    lossy.ack(number + 1448, 160);
    EXPECT_TRUE(load.tells()) << left_alone;
  }
}

// Four gigabytes are no bytes to a count of 32 bits, of which one lost segment would be a large share.
TEST(MirrorLongDownloads, TheShareThatTheAirLosesIsOfAllThatCame)
{
  Lossy lossy { SenderKind::loss_based };
  lossy.data(300);
  lossy.episode();
  ASSERT_GT(lossy.state.loss_rate, 0);
  lossy.data(300);
  lossy.flow.bytes_delivered += (std::uint64_t { 1 } << 32) + 3 * 1448;
  lossy.episode(3'000'000);
  EXPECT_EQ(lossy.state.hidden, 2);
  EXPECT_LT(lossy.state.loss_rate, 1e-3F);
}

// A tick of a second, or a TSval that never moves: nothing will ever be known of its queue, which may well be what
// loses. Until it has delivered a little it is as young as others.
TEST(MirrorSenders, LossesAreLeftToOneWhoseClockTellsNothing)
{
  Lossy lossy { SenderKind::loss_based };
  for (int second = 0; second < 3; ++second)
  {
    lossy.data(1);
    lossy.now += 1s;
  }
  ASSERT_FALSE(lossy.state.delay.known());
  EXPECT_EQ(lossy.episode().why, "mirror: hidden, young flow");
  lossy.flow.bytes_delivered = 3'000'000;
  const Plan plan = lossy.episode(30'000);
  EXPECT_EQ(plan.why, "mirror: kept, nothing known of the queue");
  EXPECT_FALSE(plan.edit.ts_echo);
  lossy.data(300);
  ASSERT_TRUE(lossy.state.delay.known());
  EXPECT_TRUE(lossy.episode(60'000).edit.ts_echo) << "as soon as it is known";
}

// So much comes in a tenth of a second, and no tick is looked for sooner: one window halved in slow start would cost
// the rest of the download.
TEST(MirrorSenders, AFastDownloadIsYoungUntilItsClockCanBeKnown)
{
  Lossy lossy { SenderKind::loss_based };
  lossy.flow.first_seen = lossy.now;
  lossy.data(50);
  lossy.flow.bytes_delivered = 5'000'000;
  ASSERT_FALSE(lossy.state.delay.known());
  const Plan plan = lossy.episode();
  EXPECT_EQ(plan.why, "mirror: hidden, young flow");
  EXPECT_TRUE(plan.edit.ts_echo);
}

// What the radio heard while the connection was idle, or before anything was known of it, tells nothing of a hole that
// is shown now.
TEST(MirrorSenders, AFrameDamagedBeforeAPauseIsNotTheOneThatIsMissing)
{
  for (const bool seen_before : { true, false })
    for (const Duration ago : { Duration { 5s }, Duration { 10ms } })
    {
      Lossy lossy { SenderKind::loss_based };
      lossy.flow.bytes_delivered = 3'000'000;
      lossy.now = Tick { 100s };
      if (seen_before) lossy.ack(10'000, 100);
      lossy.now += 10s;
      DamageLog heard { .listening = true };
      heard.add(lossy.now - ago);
      lossy.radio = &heard;
      lossy.ack(10'000, 100, 11'448, 12'896);
      EXPECT_EQ(lossy.ack(12'896, 140).why,
                ago > 1s ? "mirror: kept, no damaged frame heard" : "mirror: hidden, damaged frames heard")
          << seen_before;
    }
}

TEST(MirrorSenders, WhenTheKindIsKnownTheCapEnds)
{
  Lossy unknown { SenderKind::unknown };
  unknown.episode();
  EXPECT_FALSE(unknown.state.steering.lossy()) << "and does not begin before";
  Lossy lossy { SenderKind::loss_based };
  lossy.episode();
  EXPECT_TRUE(lossy.state.steering.lossy());
  lossy.flow.sender.kind = SenderKind::rate_based;
  EXPECT_TRUE(lossy.ack(20'000, 160).edit.empty());
  EXPECT_FALSE(lossy.state.steering.lossy());
  lossy.flow.sender.kind = SenderKind::loss_based; // it was a mistake
  lossy.ack(30'000, 180);
  lossy.ack(30'000, 180, 31'448, 32'896);
  EXPECT_EQ(lossy.ack(32'896, 220).edit.ts_echo, TsClock { 219 });
}

TEST(MirrorSenders, TheCapDoesNotBeginWhenTheKindIsKnownLate)
{
  for (const int before : { 3, 4 })
  {
    Lossy lossy { SenderKind::unknown };
    std::uint32_t from = 0;
    for (int i = 0; i < before; ++i)
      lossy.episode(from += 10'000);
    lossy.flow.sender.kind = SenderKind::loss_based;
    lossy.episode(from += 10'000);
    EXPECT_EQ(lossy.state.hidden, before + 1);
    EXPECT_EQ(lossy.state.steering.lossy(), before == 3);
  }
}

// The next download of the same host by the same link.
struct Next : Lossy
{
  explicit Next(Lossy& before, SenderKind kind = SenderKind::unknown) : Lossy { kind }
  {
    undo = before.undo;
    now = before.now + 10s;
    flow.slow_start = true;
    ack(50'000, 300);
  }
};

// A download with losses of the air that a full link's queue was seen in, or not.
Lossy after_losses(SenderKind kind, int losses, bool filled = true)
{
  Lossy lossy { kind };
  lossy.data(200);
  for (std::uint32_t number = 1000; filled && number < 9000; number += 2000)
  {
    lossy.data(20, 5ms);
    lossy.ack(number, 90);
  }
  lossy.data(40);
  for (std::uint32_t from = 10'000; losses > 0; from += 10'000, --losses)
  {
    lossy.episode(from);
    lossy.flow.bytes_delivered += 100'000;
  }
  return lossy;
}

TEST(MirrorSenders, LossesAreExpectedOfTheNextDownloadFromALossBasedSender)
{
  Lossy three = after_losses(SenderKind::loss_based, 3);
  EXPECT_FALSE((Next { three }).state.steering.lossy()) << "may be chance";
  Lossy four = after_losses(SenderKind::loss_based, 4);
  EXPECT_EQ(four.state.hidden, 4);
  EXPECT_TRUE((Next { four }).state.steering.lossy());
  EXPECT_GT((Next { four }).state.loss_rate, 0);
  EXPECT_FALSE((Next { four, SenderKind::rate_based }).state.steering.lossy());
}

TEST(MirrorSenders, NothingIsExpectedAfterAnUnknownSenderOrALinkThatWasNeverFull)
{
  for (Lossy lossy : { after_losses(SenderKind::unknown, 8), after_losses(SenderKind::loss_based, 8, false) })
  {
    EXPECT_EQ(lossy.state.hidden, 8);
    EXPECT_FALSE((Next { lossy }).state.steering.lossy());
  }
}

// The six connections of a page meet a queue of 34 packets: 35 episodes were hidden a run, a fifth more was sent again,
// and there were 35 timeouts for 20 (docs/results/drawn.md).
TEST(MirrorSenders, WhereQueuesOverflowAYoungFlowsLossesAreTakenForTheirs)
{
  Lossy first { SenderKind::loss_based };
  for (std::uint32_t from = 10'000; from <= 80'000; from += 10'000)
    EXPECT_EQ(first.at_once(4, from).why, "mirror: hidden, young flow") << "a burst of the air is as long";
  EXPECT_EQ((Next { first }).episode(60'000).why, "mirror: hidden, young flow");
  Lossy before { SenderKind::loss_based };
  for (std::uint32_t from = 10'000; from <= 160'000; from += 20'000)
    EXPECT_EQ(before.at_once(8, from).why, "mirror: kept, too many at once");
  Next next { before };
  for (std::uint32_t from = 60'000; from <= 90'000; from += 10'000)
    EXPECT_EQ(next.episode(from).why, "mirror: kept, other flows overflow a queue here");
  EXPECT_EQ(next.episode(100'000).why, "mirror: hidden, young flow") << "it has seen enough for itself";
}

// The rate of the air's losses is theirs of all that arrives, not of what arrived since a full queue lost something:
// that made every loss the usual one, and hid those of the queue.
TEST(MirrorSenders, WhatAFullQueueLosesMakesTheAirNoWorse)
{
  Lossy lossy = after_losses(SenderKind::loss_based, 4);
  const float before = lossy.state.loss_rate;
  ASSERT_GT(before, 0);
  std::uint32_t from = 50'000;
  for (int i = 0; i < 8; ++i)
  {
    lossy.data(40, 30ms);
    lossy.flow.bytes_delivered += 100'000;
    lossy.episode(from += 10'000);
    EXPECT_GE(lossy.state.score, 0.5F) << "nobody can say that it was the air";
    EXPECT_EQ(lossy.state.loss_rate, before);
  }
  lossy.data(40);
  lossy.flow.bytes_delivered += 1448;
  lossy.episode(from += 10'000);
  EXPECT_LT(lossy.state.score, 0.5F);
  EXPECT_LT(lossy.state.loss_rate, before);
}

// A chain whose first loss was hidden so long ago, and which has reported all up to 20'136 but for one hole.
struct Chain : Lossy
{
  explicit Chain(int milliseconds) : Lossy { SenderKind::loss_based }
  {
    data(300);
    ack(10'000, clock);
    ack(10'000, clock, 11'448, 12'896);
    data(20);
    old = clock - 1;
    EXPECT_EQ(ack(12'896, clock, 14'344, 15'792).edit.ts_echo, TsClock { old });
    std::uint32_t right = 16'000;
    for (; milliseconds > 300; milliseconds -= 300)
    {
      data(300);
      ack(12'896, clock, 14'344, ++right);
    }
    data(milliseconds);
    ack(12'896, clock, 14'344, 17'240);
    EXPECT_TRUE(ack(12'896, clock, 18'688, 20'136).edit.empty());
    now -= 20ms;
  }
  std::uint32_t old = 0;
};

TEST(MirrorChain, AnOldEchoWaitsForANewBlockThatMakesItNoSample)
{
  Chain chain { 300 };
  const Tick shown = chain.now;
  const Plan waits = chain.ack(17'240, chain.clock, 18'688, 20'136);
  EXPECT_EQ(waits.verdict, Verdict::drop);
  EXPECT_EQ(waits.edit.ts_echo, TsClock { chain.old }) << "should another module insist that it leaves";
  EXPECT_EQ(waits.wake, shown + 25ms);
  const Plan next = chain.ack(17'240, chain.clock, 18'688, 21'584);
  EXPECT_EQ(next.verdict, Verdict::pass);
  EXPECT_EQ(next.edit.ts_echo, TsClock { chain.old });
}

TEST(MirrorChain, WhoeverWantsToBeWokenSoonerIs)
{
  Chain chain { 300 };
  const Tick shown = chain.now;
  chain.undo.at = shown + 5ms;
  const Plan waits = chain.ack(17'240, chain.clock, 18'688, 20'136);
  ASSERT_EQ(waits.verdict, Verdict::drop);
  EXPECT_EQ(waits.wake, shown + 5ms);
}

TEST(MirrorChain, AYoungEchoWaitsForNothing)
{
  Chain chain { 20 };
  const Plan plan = chain.ack(17'240, chain.clock, 18'688, 20'136);
  EXPECT_EQ(plan.verdict, Verdict::pass);
  EXPECT_EQ(plan.edit.ts_echo, TsClock { chain.old });
}

// Nobody has verified the checksum of a copy. A TSval that is days ahead made every echo look as old for the rest of
// the download, so that none was given, and ACKs waited for a round trip.
TEST(MirrorChain, OneDamagedTimestampMakesNoEchoOld)
{
  Chain chain { 20 };
  chain.clock += 1u << 30;
  chain.data(1);
  chain.clock -= 1u << 30;
  chain.data(1);
  const Plan plan = chain.ack(17'240, chain.clock, 18'688, 20'136);
  EXPECT_EQ(plan.verdict, Verdict::pass);
  EXPECT_EQ(plan.edit.ts_echo, TsClock { chain.old });
  EXPECT_FALSE(chain.state.order.reorders());
}

// A clock that was set is followed from the next segment on.
TEST(MirrorChain, TheEchoIsAsOldAsAClockThatWasSetSays)
{
  Chain chain { 20 };
  chain.clock += 5000;
  chain.data(200);
  EXPECT_EQ(chain.state.order.newest(), TsClock { chain.clock });
}

TEST(MirrorChain, WhatWaitedLeavesWhenNothingComes)
{
  for (const int age : { 300, 1'300 })
  {
    Chain chain { age };
    const Plan waits = chain.ack(17'240, chain.clock, 18'688, 20'136);
    ASSERT_TRUE(waits.wake);
    chain.flow.ts_recent = { chain.clock };
    const auto rung = [&](Tick at) {
      return chain.undo.decide({ .kind = EventKind::alarm, .now = at, .links = &chain.links }, chain.flow, chain.state);
    };
    EXPECT_EQ(rung(*waits.wake - 1ms).wake, waits.wake) << "too early";
    const Plan plan = rung(*waits.wake);
    ASSERT_EQ(plan.inject.size(), 1u);
    EXPECT_EQ(plan.inject[0].ack, Seq { 17'240 });
    EXPECT_EQ(plan.inject[0].timestamps->echo, TsClock { age > 1'000 ? chain.clock : chain.old });
  }
}

TEST(MirrorChain, TheLastAckHasNoEchoThatMakesTheTimerUseless)
{
  Chain young { 300 };
  EXPECT_EQ(young.ack(20'136, young.clock).edit.ts_echo, TsClock { young.old });
  Chain old { 1'300 };
  old.flow.told_window = 600; // that it has shrunk must be told
  const Plan plan = old.ack(20'136, old.clock);
  EXPECT_EQ(plan.verdict, Verdict::pass);
  EXPECT_FALSE(plan.edit.ts_echo);
  EXPECT_EQ(plan.why, "mirror: true echo, the old one would lengthen the timer");
}

TEST(MirrorChain, WhatEndsItWaitsForTwoSegmentsOfWhichOneIsReportedFirst)
{
  Chain chain { 1'300 };
  const Tick shown = chain.now;
  const Plan waits = chain.ack(20'136, chain.clock);
  EXPECT_EQ(waits.verdict, Verdict::drop);
  EXPECT_EQ(waits.wake, shown + 25ms);
  EXPECT_EQ(chain.ack(21'584, chain.clock).verdict, Verdict::drop) << "one is not enough";
  chain.now = shown + 24ms;
  const Plan plan = chain.ack(23'032, chain.clock);
  EXPECT_EQ(plan.verdict, Verdict::pass);
  EXPECT_FALSE(plan.edit.ts_echo);
  ASSERT_EQ(plan.inject.size(), 1u);
  EXPECT_EQ(plan.inject[0].ack, Seq { 20'136 });
  EXPECT_EQ(plan.inject[0].timestamps->echo, TsClock { chain.old });
  ASSERT_EQ(plan.inject[0].sack_count, 1);
  EXPECT_EQ(plan.inject[0].sack_blocks[0].left, Seq { 21'584 });
  EXPECT_EQ(plan.inject[0].sack_blocks[0].right, Seq { 23'032 });
}

TEST(MirrorChain, WhatEndsItBesideNewDataIsReportedAtOnce)
{
  Chain chain { 1'300 };
  const Plan plan = chain.ack(24'480, chain.clock);
  EXPECT_EQ(plan.verdict, Verdict::pass);
  ASSERT_EQ(plan.inject.size(), 1u);
  EXPECT_EQ(plan.inject[0].ack, Seq { 21'584 }) << "one segment is reported, whatever has come";
  EXPECT_EQ(plan.inject[0].sack_blocks[0].left, Seq { 23'032 });
  EXPECT_EQ(plan.inject[0].sack_blocks[0].right, Seq { 24'480 });
}

TEST(MirrorChain, WhatEndsItIsFollowedAtOnceWhereAcksMayLeaveByCellular)
{
  Chain chain { 1'300 };
  chain.flow.ts_reserved.what = TsReservation::What::odd;
  chain.flow.rcv_nxt = { 24'480 };
  const Plan plan = chain.ack(24'480, chain.clock);
  ASSERT_EQ(plan.inject.size(), 2u);
  EXPECT_EQ(plan.inject[0].ack, Seq { 21'584 });
  EXPECT_EQ(plan.inject[1].ack, Seq { 24'480 });
  EXPECT_EQ(plan.inject[1].by, Link::wifi);
  EXPECT_EQ(plan.inject[1].sack_count, 0);
}

TEST(MirrorChain, AHoleWhileItsEndWaitsBringsTheOldEcho)
{
  Chain chain { 1'300 };
  ASSERT_EQ(chain.ack(20'136, chain.clock).verdict, Verdict::drop);
  const Plan plan = chain.ack(20'136, chain.clock, 21'584, 23'032);
  EXPECT_EQ(plan.verdict, Verdict::pass);
  EXPECT_EQ(plan.edit.ts_echo, TsClock { chain.old });
}

TEST(MirrorChain, AnEchoThatTheSenderMustNotHaveAloneWaitsForARoundTrip)
{
  Chain chain { 1'300 };
  chain.flow.rtt_smoothed = 60ms;
  const Tick shown = chain.now;
  const Plan waits = chain.ack(17'240, chain.clock, 18'688, 20'136);
  EXPECT_EQ(waits.wake, shown + 60ms);
  EXPECT_FALSE(waits.edit.ts_echo) << "should another module insist that it leaves";
  chain.now += 30ms;
  const Plan next = chain.ack(17'240, chain.clock, 18'688, 21'584);
  EXPECT_EQ(next.verdict, Verdict::pass);
  EXPECT_EQ(next.edit.ts_echo, TsClock { chain.old });
}

TEST(MirrorChain, ADuplicateIsNoNewBlock)
{
  Chain chain { 1'300 };
  EXPECT_FALSE(chain.ack(17'240, chain.clock, 15'000, 16'448).edit.ts_echo) << "its echo would be the sample";
}

TEST(MirrorChain, NewDataBringTheEchoThatItsEndHadNot)
{
  Chain chain { 1'300 };
  chain.undo.knobs.acks = 0;
  chain.flow.told_window = 600;
  ASSERT_FALSE(chain.ack(20'136, chain.clock).edit.ts_echo);
  EXPECT_EQ(chain.ack(20'500, chain.clock).edit.ts_echo, TsClock { chain.old });
  EXPECT_FALSE(chain.ack(20'900, chain.clock).edit.ts_echo) << "it left";
}

TEST(MirrorChain, NewDataBringItOnlyBehindTheEnd)
{
  Chain withheld { 1'300 };
  withheld.undo.knobs.acks = 0;
  withheld.flow.told_window = 600;
  ASSERT_FALSE(withheld.ack(20'136, withheld.clock).edit.ts_echo);
  withheld.flow.sent_ack = { 17'240 }; // by another module
  EXPECT_FALSE(withheld.ack(20'500, withheld.clock).edit.ts_echo) << "what was sent twice is acknowledged, too";
  EXPECT_EQ(withheld.ack(20'900, withheld.clock).edit.ts_echo, TsClock { withheld.old });

  Chain later { 1'300 };
  later.flow.told_window = 600;
  ASSERT_FALSE(later.ack(20'136, later.clock).edit.ts_echo);
  const std::uint32_t flight = later.state.steering.flight();
  ASSERT_GT(flight, 0u);
  EXPECT_FALSE(later.ack(20'136 + flight, later.clock).edit.ts_echo) << "the recovery point is behind it";
}

TEST(MirrorChain, AHoleSoonAfterItsEndIsOfTheSameChain)
{
  Chain chain { 1'300 };
  chain.undo.knobs.acks = 0;
  chain.flow.told_window = 600;
  ASSERT_FALSE(chain.ack(20'136, chain.clock).edit.ts_echo);
  chain.ack(20'136, chain.clock, 21'584, 23'032);
  EXPECT_EQ(chain.ack(23'032, chain.clock, 24'480, 25'928).edit.ts_echo, TsClock { chain.old });
}

} // namespace
} // namespace tandem::mirror
