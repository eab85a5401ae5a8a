#include "modules/offload/offload.h"
#include "tests/unit/offload/session.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>

namespace tandem::offload
{
namespace
{

using namespace test;

// ---- when it is not tried at all ----

TEST(OffloadHome, SmallWindowsStay)
{
  Session s {};
  s.length = 1000; // 1 kB per ms and 20 ms: 20 kB, less than 20 segments of 1448
  s.steps(500);
  EXPECT_EQ(s.phase(), Phase::by_wifi);
  EXPECT_GT(s.fixture.count("offload: window below threshold"), 0u);
  EXPECT_EQ(s.fixture.count("offload: probe begins"), 0u);
  s.module.set("window_mss", 10);
  EXPECT_TRUE(s.until("offload: probe begins"));
}

TEST(OffloadHome, WithoutTimestampsThereIsNoProof)
{
  Peers peers {};
  peers.timestamps = false;
  Session s { peers };
  s.steps(500);
  EXPECT_EQ(s.fixture.count("offload: no timestamps, no path validation possible"), 1u);
  EXPECT_EQ(s.fixture.actions.injected.size(), 0u);
}

TEST(OffloadHome, WithoutSackACopyWouldLookLikeLoss)
{
  Peers peers {};
  peers.sack = false;
  Session s { peers };
  s.steps(500);
  EXPECT_EQ(s.fixture.count("offload: no SACK"), 1u);
  EXPECT_EQ(s.fixture.actions.injected.size(), 0u);
}

TEST(OffloadHome, MultipathSubflowsStay)
{
  Session s {};
  s.fixture.flow(s.peers).view.mptcp = true;
  s.steps(500);
  EXPECT_EQ(s.fixture.count("offload: MPTCP subflow, bypassed"), 1u);
}

TEST(OffloadHome, WhatFailedForOtherFlowsIsNotTriedUntilItIsForgotten)
{
  Session s {};
  s.fixture.flow(s.peers).view.cell_path_failed = true;
  s.steps(500);
  EXPECT_EQ(s.fixture.count("offload: path not validated for other flows"), 1u);
  EXPECT_EQ(s.fixture.actions.injected.size(), 0u);
  s.fixture.flow(s.peers).view.cell_path_failed = false;
  EXPECT_TRUE(s.until("offload: path validated", 20000));
}

// Linux echoes an older ACK only while the window stands still: such a copy may have arrived.
TEST(OffloadHome, AProbeDuringWhichTheWindowMovedCountsTheSecondTime)
{
  constexpr std::string_view failed = "offload: path not validated (filtered, NAT or too slow)";
  Session moving {}, still {};
  for (Session* s : { &moving, &still })
  {
    s->cell().delivers = false;
    ASSERT_TRUE(s->until("offload: probe begins"));
  }
  ++moving.peers.window;
  ASSERT_TRUE(moving.until(failed));
  EXPECT_TRUE(moving.fixture.actions.paths.empty());
  ASSERT_TRUE(moving.until(failed));
  EXPECT_EQ(moving.fixture.actions.paths.size(), 1u);
  ASSERT_TRUE(still.until(failed));
  ASSERT_EQ(still.fixture.actions.paths.size(), 1u);
  EXPECT_EQ(still.fixture.actions.paths[0].path.is, CellPath::Is::failed);
}

TEST(OffloadHome, APrivatePeerIsNeverAskedByCellular)
{
  Session s {};
  s.fixture.flow(s.peers).view.cell_denied = CellDenied::private_peer;
  s.steps(500);
  EXPECT_EQ(s.fixture.count("offload: private-peer, never by cellular"), 1u);
  EXPECT_EQ(s.fixture.actions.injected.size(), 0u);
}

TEST(OffloadHome, WhatAskedForMptcpInVainHasItsAcksWholeAndByWifi)
{
  Session s {};
  s.fixture.flow(s.peers).view.mptcp_refused = true;
  s.steps(500);
  EXPECT_EQ(s.fixture.count("offload: MPTCP refused by the server, whole ACK numbers"), 1u);
  EXPECT_EQ(s.fixture.count("offload: repeated by the next ACK"), 0u);
  EXPECT_EQ(s.fixture.actions.injected.size(), 0u);
}

TEST(OffloadHome, AStackThatIsNotLinuxIsLeftOnWifi)
{
  Session s {};
  s.fixture.flow(s.peers).view.sender.kind = SenderKind::unresponsive;
  s.steps(500);
  EXPECT_EQ(s.fixture.count("offload: not Linux's TCP, bypassed"), 1u);
  EXPECT_EQ(s.fixture.count("offload: probe begins"), 0u);
  Session known_late {};
  ASSERT_TRUE(known_late.until("offload: path validated"));
  known_late.fixture.flow(known_late.peers).view.sender.kind = SenderKind::unresponsive;
  const std::size_t before = known_late.fixture.count("offload: by cellular");
  known_late.steps(100);
  EXPECT_EQ(known_late.fixture.count("offload: by cellular"), before);
  EXPECT_EQ(known_late.fixture.count("offload: not Linux's TCP, bypassed"), 1u);
}

TEST(OffloadHome, WithoutACellularLinkNothingIsTried)
{
  for (const bool v6 : { false, true })
  {
    Peers peers {};
    if (v6) peers.key = key_v6();
    Session s { peers };
    LinkState& cell = s.fixture.links[static_cast<std::size_t>(Link::cell)];
    (v6 ? cell.route_v6 : cell.route) = false;
    s.fixture.chain.links(s.fixture.links, s.fixture.now());
    s.steps(1000);
    EXPECT_EQ(s.fixture.count("offload: no cellular link"), 2u) << "looked at every half second";
    EXPECT_EQ(s.fixture.count("offload: probe begins"), 0u);
    (v6 ? cell.route_v6 : cell.route) = true;
    s.fixture.chain.links(s.fixture.links, s.fixture.now());
    EXPECT_TRUE(s.until("offload: path validated"));
  }
}

TEST(OffloadHome, SparseAcksAreLeftAlone)
{
  Session s {};
  s.length = 40 * 1448; // more than 32 segments an ACK
  s.every = ms(5);
  s.steps(200);
  EXPECT_GT(s.fixture.count("offload: ACKs are sparse already"), 0u);
  EXPECT_EQ(s.fixture.count("offload: probe begins"), 0u);
  s.length = 20 * 1448;
  EXPECT_TRUE(s.until("offload: probe begins"));
}

TEST(OffloadHome, FlowsWithAccurateEcnStay)
{
  // RFC 9768: the flags of every ACK are a counter; a copy or an injected ACK would falsify it.
  Session s {};
  for (int i = 0; i < 1000; ++i)
  {
    s.wait(s.every);
    s.data();
    Segment ack = s.peers.ack(s.fixture.now());
    ack.flags |= tcp_flag::ae | tcp_flag::ece;
    s.ack(ack);
  }
  EXPECT_EQ(s.fixture.count("offload: probe begins"), 0u);
  EXPECT_GT(s.fixture.count("offload: accurate ECN, bypassed"), 0u);
  EXPECT_EQ(s.fixture.violations(), 0u);
}

// ---- path validation ----

TEST(OffloadProof, WifiKeepsTheOlderTsvalAndCopiesCarryTheNext)
{
  Session s {};
  ASSERT_TRUE(s.until("offload: probe begins"));
  const TsClock frozen = s.left.back().value;
  const std::size_t begin = s.left.size();
  ASSERT_TRUE(s.until("offload: path validated"));
  std::size_t copies = 0;
  for (std::size_t i = begin; i + 1 < s.left.size(); ++i)
    if (s.left[i].by == Link::cell)
    {
      ++copies;
      EXPECT_TRUE(s.left[i].injected);
      EXPECT_EQ(s.left[i].value, frozen + 1);
      EXPECT_EQ(s.left[i].why, "offload: probe by cellular");
    }
    else
      EXPECT_EQ(s.left[i].value, frozen);
  EXPECT_GE(copies, 1u);
  EXPECT_LE(copies, 6u);
  EXPECT_EQ(s.server.rejected, 0u) << "Linux accepts one tick back";
  EXPECT_EQ(s.phase(), Phase::by_cell);
}

// What another module decides about is shown to all by the same event: there is no copy then (tandem/admission.h).
TEST(OffloadProof, AnEchoIsHeardInDataThatWaitsForAVerdictToo)
{
  Session s {};
  for (int i = 0; i < 5000 && s.fixture.count("offload: path validated") == 0; ++i)
  {
    s.wait(s.every);
    const Tick now = s.fixture.now();
    const chain::Outcome arrived =
        s.fixture.chain.segment(s.peers.data_in(now, s.length, s.server.echo(now - s.peers.downlink)), true, now);
    EXPECT_TRUE(arrived.verdict == Verdict::pass && arrived.edit.empty());
    s.note_injected();
    s.peers.recent = s.peers.remote_ts(now);
    s.peers.received += s.length;
    s.ack();
  }
  EXPECT_EQ(s.fixture.count("offload: path validated"), 1u);
  EXPECT_EQ(s.fixture.violations(), 0u);
}

TEST(OffloadProof, CopiesAreSpacedAndBounded)
{
  Session s {};
  s.cell().delivers = false;
  s.module.set("probe_copies", 3);
  ASSERT_TRUE(s.until("offload: path not validated (filtered, NAT or too slow)"));
  ASSERT_EQ(s.fixture.actions.injected.size(), 3u);
  for (std::size_t i = 1; i < 3; ++i)
    EXPECT_GE(s.fixture.actions.injected[i].at - s.fixture.actions.injected[i - 1].at, ms(5));
}

TEST(OffloadProof, NoProofMeansHomeAndEveryRestIsTwiceAsLong)
{
  Session s {};
  s.cell().delivers = false;
  s.every = ms(2);
  s.length = 5792;
  s.module.set("retry_first", 2);
  std::vector<double> back_offs {};
  for (int i = 0; i < 5; ++i)
  {
    ASSERT_TRUE(s.until("offload: path not validated (filtered, NAT or too slow)", 20'000));
    EXPECT_EQ(s.phase(), Phase::by_wifi);
    back_offs.push_back(seconds(s.state().retry_at - s.state().since));
    const chain::Outcome next = s.step();
    EXPECT_TRUE(next.edit.empty()) << "by Wi-Fi the bytes are untouched";
  }
  EXPECT_EQ(back_offs, (std::vector<double> { 2, 4, 8, 16, 32 }));
  EXPECT_EQ(s.server.rejected, 0u);
  s.state().failures = 12;
  s.state().retry_at = s.fixture.now();
  ASSERT_TRUE(s.until("offload: path not validated (filtered, NAT or too slow)", 20'000));
  EXPECT_EQ(seconds(s.state().retry_at - s.state().since), 300) << "the longest";
}

TEST(OffloadProof, AnAnswerThatEndsBeforeAnEchoSaysNothingOfThePath)
{
  for (const bool ends : { true, false })
  {
    Session s {};
    s.cell().delivers = false;
    ASSERT_TRUE(s.until("offload: probe by cellular"));
    s.steps(ends ? 15 : 80); // a round trip takes 20 ms
    s.wait(ms(300));
    EXPECT_EQ(s.fixture.count("offload: the data ended before an echo"), ends ? 1u : 0u);
    EXPECT_EQ(s.fixture.count("offload: path not validated (filtered, NAT or too slow)"), ends ? 0u : 1u);
    EXPECT_EQ(s.phase(), Phase::by_wifi);
    EXPECT_NE(s.state().distrusts, ends);
    EXPECT_EQ(s.state().failures, 1) << "the next try is later in either case";
  }
}

// Nor does it use up the one try that a moving window excuses.
TEST(OffloadProof, AfterSuchAnAnswerAProbeDuringWhichTheWindowMovedStillSaysNothing)
{
  constexpr std::string_view failed = "offload: path not validated (filtered, NAT or too slow)";
  Session s {};
  s.cell().delivers = false;
  ASSERT_TRUE(s.until("offload: probe by cellular"));
  s.steps(15);
  s.wait(ms(300));
  ASSERT_EQ(s.fixture.count("offload: the data ended before an echo"), 1u);
  ASSERT_TRUE(s.until("offload: probe begins"));
  ++s.peers.window;
  ASSERT_TRUE(s.until(failed));
  EXPECT_TRUE(s.fixture.actions.paths.empty());
  ASSERT_TRUE(s.until(failed));
  EXPECT_EQ(s.fixture.actions.paths.size(), 1u);
}

TEST(OffloadProof, AProofForgivesEarlierFailures)
{
  Session s {};
  s.cell().delivers = false;
  ASSERT_TRUE(s.until("offload: path not validated (filtered, NAT or too slow)"));
  s.cell().delivers = true;
  ASSERT_TRUE(s.until("offload: path validated"));
  EXPECT_EQ(s.state().failures, 0);
}

TEST(OffloadProof, AFasterPathIsTaken)
{
  Session s {};
  s.wifi().delay = ms(30);
  s.cell().delay = ms(5);
  ASSERT_TRUE(s.until("offload: path validated"));
  s.steps(300);
  EXPECT_EQ(s.phase(), Phase::by_cell);
  EXPECT_LT(s.state().added_delay, 0);
}

TEST(OffloadProof, ASlowerPathIsDeclinedWhenNothingQueues)
{
  Session s {};
  s.module.set("probe_copies", 1);
  s.cell().delay = ms(30); // 20 ms more than Wi-Fi, on a flow without a queue
  ASSERT_TRUE(s.until("offload: added delay costs more than it saves"));
  EXPECT_EQ(s.phase(), Phase::by_wifi);
  EXPECT_NEAR(s.state().added_delay, 0.020, 0.004);
  EXPECT_EQ(s.fixture.count("offload: path validated"), 0u);
}

TEST(OffloadProof, ASlowerPathThatLooksFasterIsLeftAfterARound)
{
  // Of several copies with one TSval the server may have taken any: only the delay of the last one is sure.
  Session s {};
  s.cell().delay = ms(30);
  ASSERT_TRUE(s.until("offload: path validated"));
  ASSERT_TRUE(s.until("offload: added delay costs more than it saves", 200));
  EXPECT_EQ(s.phase(), Phase::by_wifi);
  EXPECT_NEAR(s.state().added_delay, 0.020, 0.004);
}

// After `young` segments without one the AP's queue fills and stands, for so many more: a peak would not count. Then
// ACKs leave by cellular, which takes 20 ms longer than Wi-Fi. True when that path was validated.
bool moves_out_of_a_queue(Session& s, Duration queue, int young = 200, int standing = 2000)
{
  s.module.set("window_mss", 10'000); // not yet
  s.steps(young);
  s.downlink(s.peers.downlink + queue);
  s.steps(standing);
  s.cell().delay = ms(30);
  s.module.set("window_mss", 20);
  return s.until("offload: path validated");
}

TEST(OffloadProof, ASlowerPathIsTakenWhenTheFlowStandsInAQueueAnyway)
{
  Session s {};
  ASSERT_TRUE(moves_out_of_a_queue(s, ms(50))); // RTT 20 -> 70
  s.steps(300);
  EXPECT_EQ(s.phase(), Phase::by_cell);
  EXPECT_NEAR(s.state().added_delay, 0.020, 0.004) << "a round away tells exactly";
}

TEST(OffloadProof, AQueueThatStandsForLongCountsAsOne)
{
  Session s {};
  s.module.set("goodput_loss_limit", 1);
  ASSERT_TRUE(moves_out_of_a_queue(s, ms(50), 200, 12'000)); // rtt_min knows nothing shorter any more
  s.steps(12'000);                                           // and now the delay that was added is in it
  EXPECT_EQ(s.phase(), Phase::by_cell);
  EXPECT_EQ(s.fixture.count("offload: added delay costs more than it saves"), 0u);
}

TEST(OffloadProof, RoundTripsByAFasterPathAreNotTheShortestByWiFi)
{
  Session s {};
  s.cell().delay = ms(2); // Wi-Fi has ten
  ASSERT_TRUE(s.until("offload: path validated"));
  s.steps(3000);
  const float shortest = s.state().shortest_by_wifi;
  EXPECT_NEAR(shortest, 0.02, 0.002);
  LinkState& cell = s.fixture.links[static_cast<std::size_t>(Link::cell)];
  cell.route = false;
  s.fixture.chain.links(s.fixture.links, s.fixture.now());
  s.steps(3000);
  EXPECT_EQ(s.phase(), Phase::by_wifi);
  EXPECT_NEAR(s.state().shortest_by_wifi, shortest, 0.001);
  EXPECT_LT(s.state().queue_by_wifi, 0.003);
}

TEST(OffloadProof, ABlackoutIsNeitherAQueueNorASlowWiFi)
{
  Session s {};
  s.cell().delay = ms(60);
  s.steps(4000);
  const double rate = s.state().goodput.by_wifi();
  ASSERT_GT(rate, 0);
  s.wait(ms(2000));
  s.downlink(s.peers.downlink + ms(300)); // what the access point kept
  s.steps(20);
  s.downlink(s.peers.downlink - ms(300));
  EXPECT_LT(s.state().queue_by_wifi, 0.03);
  const auto validated = s.fixture.count("offload: path validated");
  s.steps(2500);
  EXPECT_EQ(s.fixture.count("offload: path validated"), validated) << "50 ms slower, and no queue";
  EXPECT_NEAR(s.state().goodput.by_wifi() / rate, 1, 0.1);
}

TEST(OffloadProof, ASlowerPathIsLeftWhenTheQueueIsGone)
{
  for (const bool gone : { true, false })
  {
    Session s {};
    s.module.set("goodput_loss_limit", 1);
    ASSERT_TRUE(moves_out_of_a_queue(s, ms(50)));
    s.steps(500);
    ASSERT_EQ(s.phase(), Phase::by_cell);
    if (gone) s.downlink(s.peers.downlink - ms(50)); // a handoff, and the window is small
    s.steps(3000);
    EXPECT_EQ(s.phase(), gone ? Phase::by_wifi : Phase::by_cell) << s.state().queue_by_cell;
  }
}

// Over a long path the copies of a probe leave far apart, and what they tell of the added delay is far below zero.
TEST(OffloadProof, ALongSlowerPathIsNotLeftForALowerBound)
{
  Session s {};
  s.module.set("goodput_loss_limit", 1);
  s.downlink(ms(230));
  ASSERT_TRUE(moves_out_of_a_queue(s, ms(80), 1000));
  ASSERT_LT(s.state().added_delay, -0.1F);
  s.steps(6000);
  EXPECT_EQ(s.phase(), Phase::by_cell);
  EXPECT_NEAR(s.state().added_delay, 0.020, 0.004);
}

TEST(OffloadProof, ASlowerPathIsNotShorterWhereAcksByWiFiWait)
{
  Session s {};
  s.module.set("window_mss", 10'000); // not yet
  s.module.set("probe_copies", 1);
  s.steps(200);
  s.wifi().delay = s.wifi().delay + ms(14); // a fading link: the air is busy with the access point's frames
  s.steps(2000);
  s.cell().delay = ms(30); // 6 ms more than that, 20 more than Wi-Fi at its best
  s.module.set("window_mss", 20);
  ASSERT_TRUE(s.until("offload: added delay costs more than it saves"))
      << "what they wait is what the flow is queued for, and would be counted twice";
  EXPECT_EQ(s.fixture.count("offload: path validated"), 0u);
  EXPECT_NEAR(s.state().added_delay, 0.020, 0.004);
}

TEST(OffloadGoodput, AWindowWithABlackoutDoesNotCount)
{
  Goodput goodput;
  FlowView flow;
  Tick now = Tick {} + ms(1);
  const auto acks = [&](int count)
  {
    for (int i = 0; i < count; ++i, now += ms(1), flow.bytes_delivered += 1000)
      goodput.measure(flow, false, Tick {}, 0.05, now);
  };
  acks(2500);
  EXPECT_NEAR(goodput.by_wifi(), 1e6, 1e4);
  now += ms(2000);
  acks(2500);
  EXPECT_NEAR(goodput.by_wifi(), 1e6, 1e4);
}

TEST(OffloadProof, RoundTripsByCellularAreNoQueueByWiFi)
{
  Session s {};
  s.module.set("added_delay_free", 1);
  s.cell().delay = ms(60);
  ASSERT_TRUE(s.until("offload: path validated"));
  s.steps(3000);
  ASSERT_EQ(s.phase(), Phase::by_cell);
  s.module.set("added_delay_free", 0.004);
  ASSERT_TRUE(s.until("offload: added delay costs more than it saves"));
  s.steps(40);
  EXPECT_LT(s.state().queue_by_wifi, 0.01);
}

TEST(OffloadProof, AddedDelayThatAQueueExcusesHasALimit)
{
  for (const double free : { 0.004, 1. })
  {
    Session s {};
    s.module.set("added_delay_free", free);
    s.module.set("window_mss", 10'000);
    s.every = ms(4);
    s.steps(50);
    s.downlink(ms(700)); // a queue of more than half a second, which would excuse what follows
    s.steps(800);
    ASSERT_GT(s.state().queue_by_wifi, 0.4);
    s.cell().delay = ms(60);
    s.module.set("window_mss", 20);
    s.module.set("probe_copies", 1);
    ASSERT_TRUE(s.until("offload: probe by cellular"));
    s.cell().delay = ms(330); // for what comes behind the copy: 320 ms more than Wi-Fi, above 250
    ASSERT_TRUE(s.until("offload: path validated"));
    s.steps(700);
    ASSERT_TRUE(s.state().delay_known);
    EXPECT_NEAR(s.state().added_delay, 0.32, 0.01);
    EXPECT_EQ(s.fixture.count("offload: added delay costs more than it saves"), free < 0.32 ? 1u : 0u);
    EXPECT_EQ(s.phase(), free < 0.32 ? Phase::by_wifi : Phase::by_cell) << "what is always accepted has no such limit";
  }
}

TEST(OffloadProof, ADamagedEchoDoesNoLastingHarm)
{
  Session s {};
  s.fixture.data(s.peers, 1448, s.peers.local_ts(s.fixture.now()) + 1'000'000'000);
  ASSERT_TRUE(s.until("offload: path validated"));
  s.steps(100);
  s.fixture.data(s.peers, 1448, s.peers.local_ts(s.fixture.now()) + 1'000'000'001);
  s.steps(1000);
  EXPECT_EQ(s.phase(), Phase::by_cell) << "echoes must still validate the path";
  EXPECT_EQ(s.fixture.count("offload: path validation lost"), 0u);
}

TEST(OffloadProof, UploadDataSpoilsAProbe)
{
  Session s {};
  s.cell().delivers = false;
  ASSERT_TRUE(s.until("offload: probe by cellular"));
  s.peers.next += 500; // sent by Wi-Fi with the kernel's own TSval, which may be the very one of the probe
  s.step();
  EXPECT_EQ(s.fixture.count("offload: probe spoiled by upload data"), 1u);
  EXPECT_EQ(s.phase(), Phase::by_wifi);
  EXPECT_TRUE(s.until("offload: probe begins", 300)) << "tried again soon";
}

TEST(OffloadProof, AnEchoOfUploadDataProvesNothing)
{
  Session s {};
  ASSERT_TRUE(s.until("offload: path validated"));
  s.steps(100);
  s.cell().delivers = false;
  // The host uploads all the time: the server echoes TSvals that came by Wi-Fi, odd ones among them.
  const Tick begin = s.fixture.now();
  for (int i = 0; i < 2000 && s.phase() == Phase::by_cell; ++i)
  {
    s.peers.next += 100;
    s.server.send(s.fixture.now(), Link::wifi, s.peers.remote_isn + s.peers.received,
                  s.peers.local_ts(s.fixture.now()));
    s.step();
  }
  EXPECT_EQ(s.fixture.count("offload: path validation lost"), 1u);
  EXPECT_LT(s.fixture.now() - begin, ms(200));
}

// ---- away ----

TEST(OffloadAway, EveryAckLeavesByCellularWithAnOddTsval)
{
  Session s {};
  ASSERT_TRUE(s.until("offload: path validated"));
  const std::size_t begin = s.left.size();
  s.steps(1000);
  EXPECT_GE(s.left.size() - begin, 1000u);
  for (std::size_t i = begin; i < s.left.size(); ++i)
  {
    const bool odd = (s.left[i].value.raw & 1) != 0;
    ASSERT_EQ(s.left[i].by == Link::cell, !s.left[i].for_firewalls()) << i - begin;
    ASSERT_EQ(odd, !s.left[i].for_firewalls()) << i - begin;
  }
  EXPECT_EQ(s.server.rejected, 0u);
  EXPECT_EQ(s.fixture.violations(), 0u);
}

TEST(OffloadAway, TsvalsNeverGoBackNorAhead)
{
  for (const double cell_delay : { 2., 10., 13. })
  {
    Session s {};
    s.cell().delay = ms(cell_delay);
    ASSERT_TRUE(s.until("offload: path validated"));
    s.steps(500);
    std::array<TsClock, link_count> newest {};
    newest.fill(TsClock { 0 });
    for (const Left& one : s.left)
    {
      TsClock& last = newest[static_cast<std::size_t>(one.by)];
      ASSERT_TRUE(one.value.at_or_after(last)) << one.why;
      ASSERT_TRUE(one.value.at_or_before(s.peers.local_ts(one.at))) << one.why;
      last = one.value;
    }
  }
}

TEST(OffloadAway, ALostProofBringsTheFlowHome)
{
  Session s {};
  ASSERT_TRUE(s.until("offload: path validated"));
  s.steps(200);
  s.cell().delivers = false;
  const std::size_t begin = s.left.size();
  ASSERT_TRUE(s.until("offload: path validation lost", 1000));
  EXPECT_LE(s.left.size() - begin, 80u + 20u + 1u)
      << "one and a half round trips and 50 ms, and what was still on its way";
  EXPECT_EQ(s.left.back().by, Link::wifi) << "the very ACK that finds it out leaves by Wi-Fi";
  EXPECT_EQ(s.left.back().value, s.peers.local_ts(s.fixture.now())) << "with the kernel's own TSval";
}

TEST(OffloadAway, SilenceIsSettledByWifiInTime)
{
  Session s {};
  ASSERT_TRUE(s.until("offload: path validated"));
  s.steps(200);
  s.cell().delivers = false;
  s.steps(5); // the last five ACKs are lost, and the server's window is shut
  const Tick begin = s.fixture.now();
  s.wait(ms(1000));
  EXPECT_EQ(s.fixture.count("offload: silence, back to Wi-Fi"), 1u);
  const Left& last = s.left.back();
  EXPECT_EQ(last.by, Link::wifi);
  EXPECT_EQ(last.ack, s.peers.remote_isn + s.peers.received);
  EXPECT_LE(last.at - begin, ms(20 + 100 + 1)) << "RTT + 100 ms: before the server's RTO of RTT + 200 ms";
  EXPECT_EQ(s.phase(), Phase::by_wifi);
}

// Something on the way of the data translates numbers, say: the server echoes what comes by cellular, and takes no more
// of it. Each try costs a round trip and 100 ms.
TEST(OffloadAway, WhoGoesOnOnlyOnceWiFiHasSaidItIsTriedLessOften)
{
  Session s {};
  std::vector<double> back_offs {};
  for (int i = 0; i < 5; ++i)
  {
    ASSERT_TRUE(s.until("offload: path validated", 40'000));
    s.steps(50);
    s.wait(ms(125)); // a round trip and 100 ms
    ASSERT_EQ(s.phase(), Phase::by_wifi);
    s.wait(ms(15));
    s.step();
    back_offs.push_back(std::round(seconds(s.state().retry_at - s.state().since)));
  }
  EXPECT_EQ(back_offs, (std::vector<double> { 1, 1, 2, 4, 8 }));
  ASSERT_TRUE(s.until("offload: path validated", 40'000));
  s.steps(6000);
  s.wait(ms(140));
  s.step();
  EXPECT_EQ(std::round(seconds(s.state().retry_at - s.state().since)), 1) << "a path that has lasted";
}

// The second ones are a round trip behind the silence, now and then: a server sends when it pleases.
TEST(OffloadAway, AServerThatMakesPausesIsTriedAsOften)
{
  for (const std::vector<int>& pauses :
       { std::vector { 130, 300, 130, 300, 130, 300 }, std::vector { 140, 300, 140, 300, 140, 300, 140 } })
  {
    Session s {};
    for (const int pause : pauses)
    {
      ASSERT_TRUE(s.until("offload: path validated", 5000));
      s.steps(50);
      s.wait(ms(pause));
      s.step();
      ASSERT_EQ(s.phase(), Phase::by_wifi);
      EXPECT_EQ(std::round(seconds(s.state().retry_at - s.state().since)), 1);
    }
  }
}

// The window was full until the application read: what leaves then says nothing of the server.
TEST(OffloadAway, AnApplicationThatReadsIsNoServerThatGoesOn)
{
  Session s {};
  for (int i = 0; i < 4; ++i)
  {
    ASSERT_TRUE(s.until("offload: path validated", 5000));
    s.steps(50);
    s.wait(ms(140));
    s.ack();
    ASSERT_EQ(s.phase(), Phase::by_wifi);
    s.wait(ms(100));
    s.step();
    EXPECT_EQ(std::round(seconds(s.state().retry_at - s.state().since)), 1);
  }
}

TEST(OffloadAway, AnOlderEchoDoesNotProveTheNewestAck)
{
  Session s {};
  ASSERT_TRUE(s.until("offload: path validated"));
  s.steps(200);
  s.cell().delivers = false;
  s.steps(3);
  for (int i = 0; i < 2; ++i)
  {
    s.wait(ms(1));
    s.data(); // echoes what left before the path died; the ACK for it is delayed
  }
  EXPECT_EQ(s.state().unvalidated, 0);
  s.wait(ms(1000));
  EXPECT_EQ(s.fixture.count("offload: silence, back to Wi-Fi"), 1u);
  s.server.echo(s.fixture.now());
  EXPECT_EQ(s.server.acknowledged, s.acked);
}

TEST(OffloadAway, NothingToSayIsNotSilence)
{
  Session s {};
  ASSERT_TRUE(s.until("offload: path validated"));
  s.steps(200);
  // The last ACKs are echoed by a window update of the server, then all is quiet.
  for (int i = 0; i < 3; ++i)
  {
    s.wait(ms(20));
    s.data();
  }
  EXPECT_EQ(s.state().unvalidated, 0);
  s.wait(ms(5000));
  EXPECT_EQ(s.fixture.count("offload: silence, back to Wi-Fi"), 0u);
  EXPECT_EQ(s.phase(), Phase::by_cell);
  // By cellular nothing said all of it.
  EXPECT_EQ(s.fixture.count("offload: the last bytes, by Wi-Fi"), 1u);
  EXPECT_EQ(s.left.back().by, Link::wifi);
  EXPECT_EQ(s.left.back().ack, s.acked);
}

// A NAT may begin on a path that was validated. The server answers what it no longer knows with an RST of that very
// number, which must not be the one that the local TCP waits for.
TEST(OffloadAway, NothingByCellularSaysAllThatHasArrived)
{
  Session s {};
  ASSERT_TRUE(s.until("offload: path validated"));
  const std::size_t begin = s.left.size();
  s.state().stretch = 4;
  s.steps(200);
  std::size_t by_cell = 0;
  for (std::size_t i = begin; i < s.left.size(); ++i)
    if (s.left[i].by == Link::cell) ++by_cell;
  EXPECT_GT(by_cell, 40u);
  EXPECT_EQ(s.left.back().by, Link::cell);
  EXPECT_EQ(s.left.back().ack, s.acked - 2);

  s.wait(s.every);
  s.data();
  Segment hole = s.peers.ack(s.fixture.now());
  report_hole(hole);
  EXPECT_FALSE(s.ack(hole).edit.route);
  EXPECT_EQ(s.left.back().ack, s.acked) << "two bytes less beside SACK blocks would be a hole of their own";
  EXPECT_EQ(s.fixture.violations(), 0u);
}

TEST(OffloadAway, ALostLinkIsAnsweredAtOnceByWifi)
{
  Session s {};
  ASSERT_TRUE(s.until("offload: path validated"));
  s.steps(200);
  s.fixture.links[static_cast<std::size_t>(Link::cell)].up = false;
  s.fixture.chain.links(s.fixture.links, s.fixture.now());
  s.note_injected();
  EXPECT_EQ(s.left.back().why, "offload: cellular link lost");
  EXPECT_EQ(s.left.back().by, Link::wifi);
  EXPECT_EQ(s.left.back().ack, s.peers.remote_isn + s.peers.received);
  EXPECT_EQ(s.phase(), Phase::by_wifi);
}

// Everything is gone for a while, as in a suspended laptop: what is said then is said to nobody.
TEST(OffloadAway, WhatIsOwedWhenBothLinksGoIsSaidOnceTheyAreBack)
{
  Session s {};
  ASSERT_TRUE(s.until("offload: path validated"));
  s.steps(200);
  const LinkStates both = s.fixture.links;
  for (const Link link : { Link::wifi, Link::cell })
    s.fixture.links[static_cast<std::size_t>(link)] = {};
  s.fixture.chain.links(s.fixture.links, s.fixture.now(), [](const Address&) { return Link::other; });
  s.wait(ms(3000));
  const std::size_t before = s.left.size();
  s.fixture.links = both;
  s.fixture.chain.links(s.fixture.links, s.fixture.now(), [](const Address&) { return Link::wifi; });
  s.wait(ms(1));
  ASSERT_EQ(s.left.size(), before + 1);
  EXPECT_EQ(s.left.back().by, Link::wifi);
  EXPECT_EQ(s.left.back().ack, s.acked);
  EXPECT_EQ(s.phase(), Phase::by_wifi);
}

// Packets passed beside the queue, so that echoes prove nothing of the path any more: nor that it has failed.
TEST(OffloadAway, WithoutItsTsvalsNoPathIsDoubted)
{
  Session s {};
  ASSERT_TRUE(s.until("offload: path validated"));
  s.steps(200);
  s.fixture.actions.paths.clear();
  s.fixture.chain.queue_resumed();
  EXPECT_TRUE(s.step().edit.empty());
  EXPECT_EQ(s.phase(), Phase::by_wifi);
  s.steps(300);
  EXPECT_EQ(s.fixture.count("offload: path validation lost"), 0u);
  for (const auto& one : s.fixture.actions.paths)
    EXPECT_NE(one.path.is, CellPath::Is::doubted);
  EXPECT_EQ(s.phase(), Phase::by_cell) << "validated again";
}

TEST(OffloadAway, ASpentBudgetBringsTheFlowHome)
{
  constexpr std::uint64_t budget = 8000; // the daemon's: budget.cell_bytes
  Session s { {}, { .cell_budget = budget } };
  ASSERT_TRUE(s.until("offload: path validated"));
  const auto spent = [&] { return s.fixture.chain.stats().cell_bytes; };
  ASSERT_TRUE(s.until("offload: cellular budget spent"));
  EXPECT_EQ(s.phase(), Phase::by_wifi);
  const std::uint64_t then = spent();
  EXPECT_LE(then, budget);
  EXPECT_GT(then, budget - 200);
  s.steps(3000);
  EXPECT_EQ(spent(), then);
  EXPECT_EQ(s.fixture.violations(), 0u) << "it asked before the guard had to refuse";
}

TEST(OffloadAway, SlowerThanOnWifiIsRegretted)
{
  Session s {};
  s.module.set("window_mss", 10'000);
  s.steps(3000); // what Wi-Fi gives is known
  s.module.set("window_mss", 20);
  ASSERT_TRUE(s.until("offload: path validated"));
  s.every = Duration { ms(1) * 120 / 100 };
  EXPECT_TRUE(s.until("offload: slower than on Wi-Fi", 10'000));
  EXPECT_EQ(s.phase(), Phase::by_wifi);
}

TEST(OffloadAway, APathThatHasBecomeLongerIsNoQueueOnceTheGoodputHasFallen)
{
  Session s {};
  s.module.set("window_mss", 10'000);
  s.steps(200);
  s.downlink(s.peers.downlink + ms(50));
  s.steps(3000);
  s.cell().delay = ms(30);
  s.module.set("window_mss", 20);
  ASSERT_TRUE(s.until("offload: path validated"));
  s.every = Duration { ms(1) * 120 / 100 };
  ASSERT_TRUE(s.until("offload: slower than on Wi-Fi", 10'000));
  s.every = ms(1);
  const auto declined = s.fixture.count("offload: added delay costs more than it saves");
  s.steps(5000);
  EXPECT_EQ(s.phase(), Phase::by_wifi);
  EXPECT_LT(s.state().queue_by_wifi, 0.005);
  EXPECT_GT(s.fixture.count("offload: added delay costs more than it saves"), declined);
}

TEST(OffloadAway, AsFastAsOnWifiStays)
{
  Session s {};
  s.module.set("window_mss", 10'000);
  s.steps(3000);
  s.module.set("window_mss", 20);
  ASSERT_TRUE(s.until("offload: path validated"));
  EXPECT_FALSE(s.until("offload: slower than on Wi-Fi", 10'000));
  EXPECT_EQ(s.phase(), Phase::by_cell);
}

// ---- thinning ----

// Without a cellular path ACKs are left out by Wi-Fi, and how many of the next 400, where so much of the air is in use.
struct ByWifi : ::testing::Test
{
  ByWifi()
  {
    s.fixture.links[static_cast<std::size_t>(Link::cell)].up = false;
    s.fixture.chain.links(s.fixture.links, s.fixture.now());
    s.every = std::chrono::microseconds { 200 }; // a hundred segments in a round trip
    s.steps(400);
  }
  unsigned left_out(std::optional<float> busy, std::optional<float> received = {})
  {
    s.fixture.chain.radio(Link::wifi, RadioState { .busy = busy, .received = received }, s.fixture.now());
    unsigned dropped = 0;
    for (int i = 0; i < 400; ++i)
      dropped += s.step().verdict == Verdict::drop ? 1u : 0u;
    return dropped;
  }

  Session s {};
};

TEST_F(ByWifi, AcksAreLeftOutOnlyWhereTheAirIsFull)
{
  EXPECT_GT(left_out({}), 100u) << "no survey, nobody knows";
  EXPECT_EQ(left_out(0.3F), 0u);
  EXPECT_EQ(left_out(0.55F), 0u) << "not full yet";
  EXPECT_GT(left_out(0.8F), 100u);
  EXPECT_GT(left_out(0.5F), 100u) << "still full: each change costs the sender more than either";
  EXPECT_EQ(left_out(0.35F), 0u);
  EXPECT_EQ(left_out(0.55F), 0u);
  EXPECT_GT(left_out({}), 100u) << "a source that fell silent";
}

TEST_F(ByWifi, WithoutASurveyAllLeaveWhereThisHostTakesHardlyAnyAir)
{
  EXPECT_EQ(left_out({}, 0.05F), 0u);
  EXPECT_EQ(left_out({}, 0.12F), 0u);
  EXPECT_GT(left_out({}, 0.3F), 100u) << "the rest may be another's";
  EXPECT_GT(left_out({}, 0.12F), 100u);
  EXPECT_EQ(left_out({}, 0.05F), 0u);
  EXPECT_GT(left_out(0.8F, 0.05F), 100u) << "a survey tells of others, too";
}

TEST_F(ByWifi, AnAckThatWasLeftOutIsRepeatedWhenTheAirHasRoom)
{
  for (int i = 0; i < 100 && s.state().thinning.held == 0; ++i)
    s.step();
  ASSERT_GT(s.state().thinning.held, 0);
  s.fixture.chain.radio(Link::wifi, RadioState { .busy = 0.1F }, s.fixture.now());
  EXPECT_NE(s.step().verdict, Verdict::drop);
  EXPECT_EQ(s.state().thinning.held, 0);
}

TEST_F(ByWifi, AFlowLeavesTheQueueForNoLongerThanASurveyTakes)
{
  s.fixture.flow(s.peers).view.mptcp_refused = true; // what is looked at once in a minute
  left_out(0.3F);
  EXPECT_LE(s.fixture.flow(s.peers).quiet_until, s.fixture.now() + ms(1000));
}

// What the local TCP acknowledged while the flow had left the queue is not what one ACK of it covers.
TEST_F(ByWifi, WhatPassedUnseenIsNoReasonToLeaveNoAckOut)
{
  s.state().retry_at = s.fixture.now() + ms(60'000); // as after a path that was not validated
  const Tick begin = s.fixture.now();
  s.fixture.chain.radio(Link::wifi, RadioState { .busy = 0.3F }, begin);
  unsigned unseen = 0, dropped = 0;
  while (s.fixture.now() - begin < ms(3500))
  {
    if (s.fixture.now() - begin > ms(2500))
      s.fixture.chain.radio(Link::wifi, RadioState { .busy = 0.8F }, s.fixture.now());
    s.wait(s.every);
    s.data();
    const Segment ack = s.peers.ack(s.fixture.now());
    if (s.fixture.flow(s.peers).quiet_until <= s.fixture.now())
      dropped += s.ack(ack).verdict == Verdict::drop ? 1u : 0u;
    else
      s.server.send(s.fixture.now(), Link::wifi, ack.ack, ack.timestamps->value), ++unseen;
  }
  EXPECT_GT(unseen, 10'000u);
  EXPECT_GT(dropped, 500u);
  EXPECT_NEAR(s.state().thinning.mss_per_ack, 2, 0.5);
}

// ---- air that has room ----

// A flow for which a path by cellular is there, and what surveys tell, once a second.
struct Room : ::testing::Test
{
  void told(float busy, Duration span)
  {
    for (Tick until = s.fixture.now() + span; s.fixture.now() < until;)
    {
      s.fixture.chain.radio(Link::wifi, RadioState { .busy = busy }, s.fixture.now());
      s.steps(1000);
    }
  }
  Session s {};
};

TEST_F(Room, WhatSurveysSayOfAYoungFlowIsNotWaitedFor)
{
  told(0.1F, ms(2000));
  EXPECT_EQ(s.phase(), Phase::by_cell);
}

TEST_F(Room, AcksComeBackWhereByCellularTheyOnlyCost)
{
  told(0.8F, ms(3000));
  ASSERT_EQ(s.phase(), Phase::by_cell);
  told(0.5F, ms(6000));
  ASSERT_EQ(s.phase(), Phase::by_cell) << "with ACKs by Wi-Fi it may be full again";
  told(0.3F, ms(1000));
  EXPECT_EQ(s.phase(), Phase::by_cell) << "perhaps for a moment";
  told(0.3F, ms(3000));
  ASSERT_EQ(s.phase(), Phase::by_wifi);
  EXPECT_EQ(s.state().why, "offload: the air has room for ACKs");
  told(0.55F, ms(6000));
  EXPECT_EQ(s.phase(), Phase::by_wifi);
  told(0.8F, ms(3000));
  EXPECT_EQ(s.phase(), Phase::by_cell);
}

TEST_F(Room, AFlowThatIsLookedAtLateStaysOnWifi)
{
  s.cell().delivers = false;
  told(0.2F, ms(4000));
  s.cell().delivers = true;
  told(0.2F, ms(15'000));
  EXPECT_EQ(s.phase(), Phase::by_wifi);
  EXPECT_EQ(s.fixture.count("offload: path validated"), 0u);
}

TEST_F(Room, WhereAcksWaitForTheAirTheyLeaveByCellular)
{
  told(0.8F, ms(3000));
  s.state().late_known = true;
  s.state().late_at = s.fixture.view(s.peers).last_ts_value;
  told(0.2F, ms(1500));
  EXPECT_EQ(s.phase(), Phase::by_cell);
}

struct Thinning : ::testing::Test
{
  // Away, with the cellular uplink queueing until one ACK in several is sent.
  Thinning()
  {
    s.steps(400); // so that the clocks are known to agree
    EXPECT_TRUE(s.until("offload: path validated") || s.phase() == Phase::by_cell);
    s.steps(300);
    s.cell().delay = ms(40);
    EXPECT_TRUE(s.until("offload: repeated by the next ACK"));
    hold();
  }
  // On until an ACK is withheld.
  void hold()
  {
    for (int i = 0; i < 100; ++i)
    {
      s.state().stretch = 8;
      if (s.step().verdict == Verdict::drop) return;
    }
    FAIL() << "nothing is left out";
  }
  chain::Outcome more_than_may_wait()
  {
    s.fixture.run_for(Duration { 1000 });
    for (int i = 0; i < 1100; ++i)
      s.data(); // Session::unlimited(): 1000
    return s.ack(s.peers.ack(s.fixture.now()));
  }
  // An ACK of new data with a change, while others are withheld.
  chain::Outcome changed(const std::function<void(Segment&)>& change)
  {
    hold();
    s.fixture.run_for(Duration { 1000 });
    s.data();
    Segment ack = s.peers.ack(s.fixture.now());
    change(ack);
    return s.ack(ack);
  }
  Session s {};
};

TEST_F(Thinning, APlainAckMayBeLeftOut)
{
  EXPECT_EQ(changed([](Segment&) {}).verdict, Verdict::drop);
}

// Left to the core, it would leave by Wi-Fi with a TSval of now, and those still on their way by cellular would be
// refused (PAWS).
TEST_F(Thinning, WhatMayNotWaitLeavesByCellular)
{
  hold();
  s.state().thin_uplink = false;
  const chain::Outcome outcome = more_than_may_wait();
  EXPECT_EQ(outcome.verdict, Verdict::pass);
  EXPECT_EQ(outcome.edit.route, Link::cell);
  EXPECT_EQ(s.fixture.chain.stats().less_withheld, 0u);
}

TEST_F(Thinning, WhatMayNotWaitLeavesByWifiWhereTheUplinkTakesNoMore)
{
  hold();
  s.state().thin_uplink = true;
  const chain::Outcome outcome = more_than_may_wait();
  EXPECT_EQ(outcome.verdict, Verdict::pass);
  EXPECT_EQ(outcome.edit.route, std::nullopt);
}

TEST_F(Thinning, WhatSaysMoreAlwaysLeaves)
{
  const auto leaves =
      [&](const char* what, const std::function<void(Segment&)>& change, std::optional<Link> by = Link::cell)
  {
    const chain::Outcome outcome = changed(change);
    EXPECT_EQ(outcome.verdict, Verdict::pass) << what;
    EXPECT_EQ(outcome.edit.route, by) << what;
    EXPECT_EQ(s.state().thinning.held, 0) << what;
  };
  leaves("ECE", [](Segment& ack) { ack.flags |= tcp_flag::ece; });
  leaves("unknown option", [](Segment& ack) { ack.options |= option::unknown; });
  leaves("window change", [](Segment& ack) { ack.window = 400; });
  leaves(
      "duplicate", [&](Segment& ack) { ack.ack = s.fixture.view(s.peers).sent_ack; }, std::nullopt);
  leaves(
      "SACK", [&](Segment& ack) { report_hole(ack); }, std::nullopt);
}

TEST_F(Thinning, FinAndRstAreNotEvenAsked)
{
  for (const std::uint16_t flag : { tcp_flag::fin, tcp_flag::rst })
  {
    Segment segment =
        s.peers.bare(Direction::egress, static_cast<std::uint16_t>(tcp_flag::ack | flag), s.fixture.now());
    const auto outcome = s.fixture.show(segment);
    ASSERT_TRUE(outcome.has_value());
    EXPECT_EQ(outcome->verdict, Verdict::pass);
    EXPECT_TRUE(outcome->edit.empty());
  }
}

TEST_F(Thinning, AtLeastOneInSixteenLeaves)
{
  s.every = ms(0.2);
  s.steps(5);
  int longest = 0, run = 0;
  for (int i = 0; i < 400; ++i)
  {
    s.state().stretch = 16;
    run = s.step().verdict == Verdict::drop ? run + 1 : 0;
    longest = std::max(longest, run);
  }
  EXPECT_EQ(longest, 15);
}

TEST_F(Thinning, TheTimerSendsWhatWasLeftOut)
{
  const Tick begin = s.fixture.now();
  const Duration quarter = s.fixture.view(s.peers).rtt_smoothed / 4;
  ASSERT_GT(s.state().thinning.held, 0);
  s.wait(quarter + ms(1));
  EXPECT_EQ(s.state().thinning.held, 0);
  const Left& last = s.left.back();
  EXPECT_EQ(last.why, "offload: timer sends what was left out");
  EXPECT_EQ(last.by, Link::cell);
  EXPECT_EQ(last.ack, s.peers.remote_isn + s.peers.received - 2);
  EXPECT_LE(last.at - begin, quarter + ms(1));
}

TEST_F(Thinning, TheTimerHoldsWhenTheRoundTripGrowsMeanwhile)
{
  // A sample that arrives between the drop and the timer makes the quarter of a round trip longer; the timer then finds
  // nothing due yet and must come back.
  ASSERT_GT(s.state().thinning.held, 0);
  const Tick begin = s.fixture.now();
  FlowView& view = s.fixture.flow(s.peers).view;
  view.rtt_smoothed += ms(8);
  const Duration quarter = view.rtt_smoothed / 4;
  s.wait(ms(200));
  const auto sent = std::find_if(s.left.begin(), s.left.end(), [&](const Left& one) { return one.at >= begin; });
  ASSERT_NE(sent, s.left.end());
  EXPECT_EQ(sent->why, "offload: timer sends what was left out");
  EXPECT_LE(sent->at - begin, quarter + ms(1));
}

// 25 ms over a long path. An uplink that takes fewer ACKs than 40 in a second would never empty its queue so: there a
// number waits for its quarter of a round trip.
struct LongPath : Thinning
{
  // What is withheld waits for so long.
  Duration waits(bool thin)
  {
    s.state().thin_uplink = thin;
    s.fixture.flow(s.peers).view.rtt_smoothed = ms(200);
    const Tick begin = s.state().thinning.released_at;
    s.wait(ms(100));
    const auto sent = std::find_if(s.left.begin(), s.left.end(), [&](const Left& one) { return one.at > begin; });
    return sent == s.left.end() ? ms(1000) : sent->at - begin;
  }
};

TEST_F(LongPath, NumbersWaitFor25Ms)
{
  EXPECT_LE(waits(false), ms(26));
}

TEST_F(LongPath, OnAThinUplinkTheyWaitForAQuarterOfTheRoundTrip)
{
  const Duration waited = waits(true);
  EXPECT_GE(waited, ms(50));
  EXPECT_LE(waited, ms(51));
}

TEST_F(Thinning, SwitchingOffReleasesWhatIsHeld)
{
  ASSERT_GT(s.state().thinning.held, 0);
  s.fixture.chain.enable(0, false, s.fixture.now());
  s.note_injected();
  EXPECT_EQ(s.left.back().why, "offload: switched off");
  EXPECT_EQ(s.left.back().by, Link::wifi);
  EXPECT_EQ(s.left.back().at, s.fixture.now());
  EXPECT_EQ(s.left.back().ack, s.peers.remote_isn + s.peers.received);
  s.wait(ms(500));
  EXPECT_EQ(s.left.back().why, "offload: switched off") << "nothing afterwards";
}

// A download of one ACK in a millisecond, through a queue by Wi-Fi of 50 ms, and an uplink that takes one in `spacing`.
struct ThinUplink : ::testing::Test
{
  void begin(double spacing, double queue = 50)
  {
    s.module.set("window_mss", 10'000); // not yet
    s.steps(200);
    s.downlink(ms(10 + queue));
    s.steps(2000);
    s.cell().spacing = ms(spacing);
    s.module.set("window_mss", 20);
    ASSERT_TRUE(s.until("offload: path validated"));
  }
  // The longest time that an ACK waits in the uplink for those before it.
  Duration longest_wait(int steps)
  {
    Duration longest {};
    for (int i = 0; i < steps; ++i)
    {
      s.step();
      longest = std::max<Duration>(longest, s.server.free_at(Link::cell) - s.fixture.now());
    }
    return longest;
  }
  void cellular(bool up)
  {
    s.fixture.links[static_cast<std::size_t>(Link::cell)].up = up;
    s.fixture.chain.links(s.fixture.links, s.fixture.now());
    s.note_injected();
  }
  Session s {};
};

TEST_F(ThinUplink, BeginsWithAsFewAcksAsByWifi)
{
  begin(1);
  EXPECT_EQ(s.state().stretch, 4);
  s.steps(4000);
  EXPECT_EQ(s.state().stretch, 1);
}

TEST_F(ThinUplink, GetsFewerAcksBeforeTheirQueueIsLong)
{
  begin(3);
  EXPECT_LT(longest_wait(20'000), ms(150)) << "two of three ACKs too many would wait for 13 s in the end";
  EXPECT_EQ(s.phase(), Phase::by_cell);
  EXPECT_EQ(s.fixture.count("offload: path validated"), 1u);
}

TEST_F(ThinUplink, GetsFewerAcksWhereTheWindowGrowsWithEachOfThem)
{
  s.peers.window = 20'000;
  begin(3);
  Duration longest {};
  for (int i = 0; i < 2000; ++i)
  {
    ++s.peers.window;
    longest = std::max(longest, longest_wait(1));
  }
  EXPECT_LT(longest, ms(400)) << "none left out: 4 s in the end";
  EXPECT_EQ(s.fixture.violations(), 0u);
}

TEST_F(ThinUplink, AServerThatPausesIsNone)
{
  begin(1);
  s.steps(1000);
  ASSERT_EQ(s.state().stretch, 1);
  for (int i = 0; i < 5; ++i)
  {
    // The first segment behind it echoes an ACK that is as old as the pause.
    s.wait(ms(150));
    s.steps(200);
  }
  EXPECT_EQ(s.phase(), Phase::by_cell);
  EXPECT_EQ(s.state().stretch, 1);
}

TEST_F(ThinUplink, IsNotAskedForMoreAfterAReturn)
{
  begin(6);
  s.steps(1000);
  const int taken = s.state().stretch;
  ASSERT_GT(taken, 4);
  const auto away_for = [&](int steps)
  {
    cellular(false);
    ASSERT_EQ(s.phase(), Phase::by_wifi);
    s.steps(steps);
    cellular(true);
    ASSERT_TRUE(s.until("offload: path validated"));
  };
  away_for(200);
  EXPECT_EQ(s.state().stretch, taken);
  away_for(45'000);
  EXPECT_EQ(s.state().stretch, 4) << "half a minute later it may be another one";
}

TEST_F(ThinUplink, IsLeftWhenItTakesNotEvenOneAckInSixteen)
{
  begin(30, 240);
  s.state().stretch = 16;
  ASSERT_TRUE(s.until("offload: the cellular uplink takes too few ACKs", 3000));
  EXPECT_EQ(s.phase(), Phase::by_wifi);
  EXPECT_EQ(s.left.back().by, Link::wifi);
  EXPECT_GE(s.state().retry_at - s.fixture.now(), ms(3990));
}

TEST(OffloadSwitch, OffRepeatsByWifiWhatIsNotProved)
{
  Session s {};
  ASSERT_TRUE(s.until("offload: path validated"));
  s.steps(50);
  s.cell().delivers = false;
  s.steps(5); // lost, and nothing more comes
  s.fixture.chain.enable(0, false, s.fixture.now());
  s.wait(ms(1000));
  s.server.echo(s.fixture.now());
  EXPECT_EQ(s.server.acknowledged, s.acked) << "nobody would ever say it again";
}

TEST(OffloadSwitch, OffAtHomeSaysNothing)
{
  Session s {};
  s.cell().delivers = false;
  ASSERT_TRUE(s.until("offload: path not validated (filtered, NAT or too slow)"));
  const std::size_t before = s.left.size();
  s.fixture.chain.enable(0, false, s.fixture.now());
  s.note_injected();
  EXPECT_EQ(s.left.size(), before);
  EXPECT_TRUE(s.step().edit.empty());
}

// ---- thinning by Wi-Fi ----

struct ThinHome : ::testing::Test
{
  ThinHome()
  {
    s.every = ms(0.25); // 80 ACKs per round trip
    s.length = 1448;
  }
  Session s {};
};

// While a hole stands each segment is acknowledged, which says nothing of how many an ACK covers otherwise.
TEST_F(ThinHome, WhatIsAcknowledgedBesideAHoleIsNotCounted)
{
  s.fixture.links[static_cast<std::size_t>(Link::cell)].up = false;
  s.fixture.chain.links(s.fixture.links, s.fixture.now());
  s.length = 8 * 1448; // one ACK for as much as may be told at a time
  s.steps(1000);
  for (int episode = 0; episode < 3; ++episode)
  {
    for (int i = 0; i < 150; ++i)
    {
      s.wait(s.every);
      Segment duplicate = s.peers.ack(s.fixture.now());
      report_hole(duplicate);
      duplicate.sack_blocks[0].right = duplicate.sack_blocks[0].right + static_cast<std::uint32_t>(i) * 1448;
      s.ack(duplicate);
    }
    for (int i = 0; i < 150; ++i)
      ASSERT_EQ(s.step().verdict, Verdict::pass) << episode << " " << i;
    EXPECT_NEAR(s.state().thinning.mss_per_ack, 8, 0.1F);
  }
}

TEST_F(ThinHome, FewerAcksByWifiWhereNoCellularWayIs)
{
  s.fixture.links[static_cast<std::size_t>(Link::cell)].up = false;
  s.fixture.chain.links(s.fixture.links, s.fixture.now());
  s.steps(1000);
  int dropped = 0;
  for (int i = 0; i < 1000; ++i)
  {
    const chain::Outcome outcome = s.step();
    ASSERT_TRUE(outcome.edit.empty());
    dropped += outcome.verdict == Verdict::drop ? 1 : 0;
  }
  EXPECT_NEAR(dropped, 750, 10) << "one in four is sent";
  s.module.set("wifi_ack_ratio", 1);
  s.step();
  dropped = 0;
  for (int i = 0; i < 1000; ++i)
    dropped += s.step().verdict == Verdict::drop ? 1 : 0;
  EXPECT_EQ(dropped, 0);
}

TEST(ThinProbe, WhatIsHeldIsSaidWhateverTheProbeSays)
{
  int seen = 0;
  for (const double cell_delay : { 10., 60. }) // proved, declined
    for (int shift = 0; shift < 8; ++shift)    // so that the echo meets every state of thinning
    {
      Session s {};
      s.every = ms(0.25);
      s.length = 1448;
      s.cell().delay = ms(cell_delay);
      s.module.set("probe_copies", 1);
      s.steps(100 + shift);
      ASSERT_TRUE(s.until("offload: probe by cellular"));
      for (int i = 0; i < 1000 && s.phase() == Phase::probing; ++i)
      {
        s.wait(s.every);
        const bool held = s.state().thinning.held > 0;
        s.data(); // brings the echo at last, and no ACK follows it
        s.note_injected();
        if (s.phase() == Phase::probing)
          s.ack();
        else if (held)
        {
          ++seen;
          s.wait(s.fixture.view(s.peers).rtt_smoothed / 4 + ms(1));
          EXPECT_EQ(s.left.back().ack, s.left.back().by == Link::cell ? s.acked - 2 : s.acked)
              << "dropped, and never acknowledged again";
        }
      }
    }
  EXPECT_GT(seen, 3);
}

TEST_F(ThinHome, SwitchingOffReleasesWhatIsHeld)
{
  s.cell().delivers = false;
  s.steps(1500);
  for (int i = 0; i < 100 && s.state().thinning.held == 0; ++i)
    s.step();
  ASSERT_GT(s.state().thinning.held, 0);
  s.fixture.chain.enable(0, false, s.fixture.now());
  s.note_injected();
  EXPECT_EQ(s.left.back().ack, s.acked);
  EXPECT_EQ(s.left.back().by, Link::wifi);
}

// ---- the published variant ----

std::vector<int> fraction_draws(std::uint64_t seed, double fraction)
{
  Session s { {}, { .seed = seed } };
  s.module.set("strategy", 1);
  s.module.set("fraction", fraction);
  s.steps(200); // the window grows
  std::vector<int> cell {};
  for (int i = 0; i < 2000; ++i)
    cell.push_back(s.step().edit.route == Link::cell ? 1 : 0);
  EXPECT_EQ(s.fixture.actions.injected.size(), s.fixture.chain.stats().own_way_told);
  return cell;
}

TEST(OffloadFraction, SameSeedSamePacketsOtherSeedOthers)
{
  EXPECT_EQ(fraction_draws(1, 0.5), fraction_draws(1, 0.5));
  EXPECT_NE(fraction_draws(1, 0.5), fraction_draws(2, 0.5));
}

TEST(OffloadFraction, TheShareIsAsAsked)
{
  for (const double fraction : { 0., 0.25, 0.5, 1. })
  {
    const std::vector<int> cell = fraction_draws(3, fraction);
    const double share = static_cast<double>(std::count(cell.begin(), cell.end(), 1)) / 2000;
    EXPECT_NEAR(share, fraction, 0.05);
  }
}

TEST(OffloadInterest, BothStrategiesNeedTheRttAndSoCopiesOfTheEchoes)
{
  Offload module {};
  for (const double strategy : { 0., 1. })
  {
    module.set("strategy", strategy);
    EXPECT_EQ(module.interest().decide, traffic::egress_pure_ack);
    EXPECT_EQ(module.interest().observe, traffic::ingress_data);
  }
}

// ---- knobs and words ----

TEST(OffloadKnobs, EachIsDocumentedInRangeAndSettable)
{
  Offload module {};
  std::set<std::string_view> names {};
  for (const Knob& knob : module.knobs())
  {
    EXPECT_TRUE(names.insert(knob.name).second) << knob.name;
    EXPECT_FALSE(knob.help.empty()) << knob.name;
    EXPECT_LE(knob.minimum, knob.initial) << knob.name;
    EXPECT_LE(knob.initial, knob.maximum) << knob.name;
    EXPECT_EQ(module.get(knob.name), knob.initial) << knob.name << ": the code's default is not the documented one";
    for (const double value : { knob.minimum, knob.maximum, knob.initial })
    {
      module.set(knob.name, value);
      EXPECT_EQ(module.get(knob.name), value) << knob.name;
    }
    if (knob.type == KnobType::choice)
    {
      EXPECT_EQ(knob.choices.size(), static_cast<std::size_t>(knob.maximum) + 1);
    }
  }
  EXPECT_LE(names.size(), 8u) << "more than anyone can turn";
  EXPECT_EQ(module.get("no such knob"), 0);
}

TEST(OffloadKnobs, WhoWasOneSaysWhatBecameOfIt)
{
  Offload module {};
  std::set<std::string_view> refused {};
  for (const RetiredKnob& gone : module.retired_knobs())
  {
    for (const Knob& knob : module.knobs())
      EXPECT_NE(gone.name, knob.name);
    EXPECT_TRUE(gone.now.starts_with("is a constant now: ") || gone.now.starts_with("moved to ")
                || gone.now.starts_with("is called "))
        << gone.name;
    if (gone.refused) refused.insert(gone.name);
  }
  EXPECT_EQ(refused, (std::set<std::string_view> { "cell_budget" })) << "who set a limit must not run without one";
}

TEST(OffloadState, IsSmall)
{
  EXPECT_LE(sizeof(Offload::State), 288u); // and of all modules together: state_test.cc
  RecordProperty("bytes", static_cast<int>(sizeof(Offload::State)));
}

TEST(OffloadStrategies, TheOldOneReleasesWhatItWithholdsBeforeTheNewOneBegins)
{
  Session s {};
  ASSERT_TRUE(s.until("offload: path validated"));
  s.steps(100);
  ASSERT_EQ(s.phase(), Phase::by_cell);
  s.module.set("strategy", 1);
  s.module.set("fraction", 0);
  s.step();
  EXPECT_EQ(s.fixture.count("offload: switched off"), 1u);
  EXPECT_EQ(s.left.back().by, Link::wifi);
  EXPECT_EQ(s.left.back().ack, s.acked);
  const std::size_t injected = s.fixture.actions.injected.size();
  s.steps(1000);
  EXPECT_EQ(s.fixture.actions.injected.size(), injected) << "no timer of the old one speaks any more";
  EXPECT_EQ(s.fixture.violations(), 0u);
}

TEST(OffloadWords, DescribeTellsPhaseAndReason)
{
  struct Lines final : Facts
  {
    void add(std::string_view key, std::string_view value) override { text[std::string { key }] = value; }
    void add(std::string_view key, double value, std::string_view) override { number[std::string { key }] = value; }
    std::map<std::string, std::string> text {};
    std::map<std::string, double> number {};
  };
  Session s {};
  s.steps(400);
  ASSERT_TRUE(s.phase() == Phase::by_cell || s.until("offload: path validated"));
  s.steps(200);
  Lines lines {};
  static_cast<const Module&>(s.module).describe(
      s.fixture.view(s.peers), std::as_const(s.fixture.chain).state(s.fixture.flow(s.peers), 0), lines);
  EXPECT_EQ(lines.text["phase"], "cellular");
  EXPECT_EQ(lines.text["why"], "offload: by cellular");
  EXPECT_EQ(lines.number["one ACK in"], 1);
  EXPECT_NEAR(lines.number["added delay"], 0, 4);
}

// ---- numbers that wrap, addresses of the other family ----

TEST(OffloadWraps, SequenceAndTimestampWrapWhileAway)
{
  Peers peers {};
  peers.remote_isn = Seq { 0u - 3'000'000u };
  peers.local_clock = TsClock { 0u - 1'000u };
  Session s { peers };
  ASSERT_TRUE(s.until("offload: path validated", 900));
  s.steps(2000);
  EXPECT_EQ(s.phase(), Phase::by_cell);
  EXPECT_EQ(s.server.rejected, 0u);
  EXPECT_EQ(s.fixture.violations(), 0u);
  EXPECT_LT(s.left.back().value.raw, 10'000u) << "it did wrap";
  EXPECT_LT(s.left.back().ack.raw, 100'000'000u);
}

TEST(OffloadFamilies, Ipv6IsTheSame)
{
  Peers peers {};
  peers.key = key_v6();
  Session s { peers };
  ASSERT_TRUE(s.until("offload: path validated"));
  s.steps(500);
  EXPECT_EQ(s.phase(), Phase::by_cell);
  EXPECT_EQ(s.server.rejected, 0u);
}

} // namespace
} // namespace tandem::offload
