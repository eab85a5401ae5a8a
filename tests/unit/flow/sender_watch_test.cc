#include "src/flow/sender_watch.h"
#include "src/flow/tracker.h"
#include "tests/golden/harness/fixture.h"
#include "tests/unit/flow/recorded.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <ostream>
#include <string_view>

namespace tandem
{

void PrintTo(SenderKind kind, std::ostream* out)
{
  *out << name(kind);
}

namespace flow
{
namespace
{

using std::string_view;
using tandem::test::at_ms;
using tandem::test::ms;

static_assert(sizeof(SenderWatch) <= 100 && sizeof(Sender) <= 16, "of every flow");

constexpr std::uint32_t mss = 1448;
constexpr double rtt = 50; // ms

// The receiver of a download: what its TCP acknowledges, and when.
struct Download
{
  explicit Download(std::uint32_t order = 0x24813, std::uint16_t their_mss = 1460, double trip = rtt)
  {
    view.bypass = Bypass::mid_flow;
    view.first_seen = now;
    tracker.seen(syn(Direction::egress, 0x24813, 1460), view, now);
    now += ms(trip);
    tracker.seen(syn(Direction::ingress, order, their_mss), view, now);
    ack();
    now += ms(trip);
  }

  static bool has(std::uint32_t order, std::uint32_t kind)
  {
    for (; order != 0; order >>= 4)
      if ((order & 0xf) == kind) return true;
    return false;
  }
  static Segment syn(Direction direction, std::uint32_t order, std::uint16_t mss_offered)
  {
    Segment made { .direction = direction, .flags = tcp_flag::syn, .window = 65535 };
    made.option_order = order;
    made.options = option::mss;
    made.mss = mss_offered;
    if (has(order, 3)) made.window_scale = std::uint8_t { 10 };
    if (has(order, 3)) made.options |= option::window_scale;
    if (has(order, 4)) made.options |= option::sack_permitted;
    if (has(order, 8)) made.options |= option::timestamps;
    if (direction == Direction::egress) return made;
    made.flags |= tcp_flag::ack;
    made.ack = { 1 };
    return made;
  }

  // What the sender's clock says in what arrives now.
  void clock() { echo = { static_cast<std::uint32_t>((now - Tick {}).count() / 1'000'000) }; }
  void ack()
  {
    Segment made { .flags = tcp_flag::ack, .window = window };
    made.seq = seq;
    made.ack = number;
    if (view.timestamps_ok) made.timestamps = Timestamps { { 1 }, echo };
    if (held.after(number + mss)) made.sack_blocks[made.sack_count++] = { number + mss, held };
    tracker.seen(made, view, now);
    tracker.left(made, made.ack, std::min(made.window, sent_window), { 1 }, view, now);
  }
  // So many segments arrive within so many milliseconds; without `missing` all in order.
  void arrive(int segments, double within, bool missing = false, std::uint32_t size = mss)
  {
    for (int i = 0; i < segments; ++i)
    {
      if (i > 0) now += ms(within / segments);
      if (missing)
        held = (held.after(number) ? held : number + mss) + size;
      else
      {
        number = number + size;
        clock();
      }
      ack();
    }
  }
  // This host sends a request, which the queue need not show.
  void ask() { seq = seq + 100; }
  // A segment arrives, with the TSval that is echoed next.
  void data(Seq from)
  {
    Segment made { .direction = Direction::ingress, .flags = tcp_flag::ack, .window = 65535 };
    made.seq = from;
    made.ack = { 1 };
    made.payload_length = mss;
    made.timestamps = Timestamps { echo, { 1 } };
    tracker.seen(made, view, now);
  }
  // So many segments arrive evenly within so many milliseconds, each acknowledged: all with the TSval that the sender's
  // clock of ticks of `tick` ms has when the first one comes, or each with its own. One of `seen` is seen.
  void burst(int segments, double within, int seen = 1, int tick = 1, bool one_value = true)
  {
    for (int i = 0; i < segments; ++i)
    {
      if (i == 0 || !one_value) echo = { static_cast<std::uint32_t>((now - Tick {}).count() / 1'000'000 / tick) };
      if (i % seen == seen / 2) data(number);
      number = number + mss;
      ack();
      now += ms(within / segments);
    }
  }
  void silence(double milliseconds) { now += ms(milliseconds); }
  // A train of segments, then nothing until the round trip is over.
  void train(int segments, double busy)
  {
    arrive(segments, busy);
    silence(rtt - busy + busy / segments);
  }
  void steadily(int segments, int rounds)
  {
    for (int i = 0; i < rounds; ++i)
    {
      arrive(segments, rtt);
      silence(rtt / segments);
    }
  }
  // One segment of `flight` is lost; what the sender sends in the round trip after is `ratio` of that. An ACK comes for
  // every `at_a_time` segments of the flight.
  void lose(int flight, double ratio, double filled_after = rtt, int at_a_time = 1)
  {
    arrive(flight / at_a_time, filled_after, true, static_cast<std::uint32_t>(at_a_time) * mss);
    silence(filled_after / flight);
    number = held; // the retransmission, sent half a round trip after the hole was shown
    echo = echo + static_cast<std::int32_t>(filled_after);
    ack();
    const TsClock began = echo;
    const int sent = static_cast<int>(flight * ratio);
    for (int i = 1; i <= sent; ++i)
    {
      now += ms(rtt / sent);
      number = number + mss;
      echo = began + static_cast<std::int32_t>(i * rtt / sent);
      ack();
    }
    held = number;
    silence(rtt / sent);
  }
  SenderKind kind() const { return view.sender.kind; }

  FlowView view {};
  Tracker tracker {};
  Tick now = at_ms(1000);
  Seq number { 1 };
  Seq held { 1 };
  Seq seq { 1 };
  TsClock echo { 7 };
  std::uint16_t window = 5000;
  std::uint16_t sent_window = 65535; // at most, by Tandem
};

TEST(SenderWatch, ASynAckTellsStacksApart)
{
  struct Known
  {
    std::uint32_t order;
    SenderKind kind;
  };
  for (const Known& one : { Known { 0x24813, SenderKind::unknown },           // Linux
                            Known { 0x211413, SenderKind::unknown },          // without timestamps
                            Known { 0x211813, SenderKind::unknown },          // without SACK
                            Known { 0x24813f, SenderKind::unknown },          // with MPTCP behind
                            Known { 0x21348, SenderKind::unresponsive },      // FreeBSD
                            Known { 0x213114, SenderKind::unresponsive },     // Windows
                            Known { 0x21311840, SenderKind::unresponsive } }) // macOS
  {
    const Download one_of { one.order };
    EXPECT_EQ(one_of.kind(), one.kind) << std::hex << one.order;
  }
  const Download bare { 0x213 };
  EXPECT_EQ(bare.kind(), SenderKind::unresponsive);
  EXPECT_EQ(bare.view.sender.why, string_view { "neither SACK nor timestamps agreed" });
  EXPECT_EQ(bare.view.sender.confidence, 99);
}

TEST(SenderWatch, NothingIsSaidOfAFlowThatWasNotSeenFromItsBeginning)
{
  Download late {};
  late.view.bypass = Bypass::mid_flow;
  late.view.sender = {};
  late.steadily(30, 3);
  late.lose(30, 0.5);
  EXPECT_EQ(late.kind(), SenderKind::unknown);
}

TEST(SenderWatch, RoomForAllOptionsIsNotLinux)
{
  Download gvisor {};
  gvisor.arrive(40, rtt, false, 1420);
  EXPECT_EQ(gvisor.kind(), SenderKind::unresponsive);
  EXPECT_EQ(gvisor.view.sender.why, string_view { "segments leave room for all options" });
  EXPECT_TRUE(gvisor.view.sender.user_space);
  Download by_tunnel { 0x24813, 1432 };
  by_tunnel.arrive(40, rtt, false, 1420);
  EXPECT_EQ(by_tunnel.kind(), SenderKind::unknown) << "Linux behind a smaller MTU";
  EXPECT_FALSE(by_tunnel.view.sender.user_space);
  Download mixed {};
  for (int i = 0; i < 40; ++i)
    mixed.arrive(1, 1, false, i % 2 == 0 ? 1420 : 1448);
  EXPECT_EQ(mixed.kind(), SenderKind::unknown);
}

TEST(SenderWatch, TrainsThatDoubleAreAckClocked)
{
  Download d {};
  d.train(10, 3);
  d.train(20, 6);
  d.train(40, 12);
  EXPECT_EQ(d.kind(), SenderKind::unknown) << "a train is judged when the next one comes";
  d.train(80, 24);
  EXPECT_EQ(d.kind(), SenderKind::loss_based);
  EXPECT_EQ(d.view.sender.why, string_view { "starts in trains, clocked by ACKs" });
  d.train(110, 33);
  EXPECT_GE(d.view.sender.confidence, 90);
}

// BBR and Reno over 802.11n with 50 ms, as they came.
TEST(SenderWatch, WhoFillsTheRoundTripByLessThanThePathCarriesIsPaced)
{
  Download d {};
  for (const auto& [segments, busy] : { std::pair { 10, 2 }, { 21, 30 }, { 29, 42 }, { 53, 43 }, { 95, 43 } })
    d.train(segments, busy);
  EXPECT_EQ(d.kind(), SenderKind::unknown);
  d.train(161, 43);
  EXPECT_EQ(d.kind(), SenderKind::rate_based);
  EXPECT_EQ(d.view.sender.why, string_view { "starts paced" });
}

TEST(SenderWatch, ALossAtTheStartDoesNotHideThatItWasPaced)
{
  Download d {};
  for (const auto& [segments, busy] : { std::pair { 10, 2 }, { 21, 30 }, { 29, 42 }, { 40, 43 } })
    d.train(segments, busy);
  d.lose(40, 0.5);
  ASSERT_NE(d.kind(), SenderKind::rate_based);
  d.steadily(160, 4);
  EXPECT_EQ(d.kind(), SenderKind::rate_based);
}

// What a start of two seconds shows is over with them, in whatever hour the download is: its clock of microseconds
// wraps.
TEST(SenderWatch, TheStartDoesNotBeginAnewEveryHour)
{
  constexpr std::chrono::microseconds wraps { std::int64_t { 1 } << 32 };
  Download d {};
  for (const auto& [segments, busy] : { std::pair { 10, 2 }, { 21, 30 }, { 29, 42 }, { 40, 43 } })
    d.train(segments, busy);
  d.lose(40, 0.5);
  d.steadily(40, 3);
  ASSERT_EQ(d.kind(), SenderKind::loss_based);
  while (d.now - d.view.first_seen < wraps - std::chrono::minutes { 1 })
  {
    d.silence(50'000);
    d.steadily(40, 2);
  }
  d.now = d.view.first_seen + wraps + ms(100);
  d.steadily(160, 4);
  EXPECT_EQ(d.kind(), SenderKind::loss_based) << "the path may be another one by now: " << d.view.sender.why;
}

TEST(SenderWatch, AggregatedFramesDoNotMakeATrainLookPaced)
{
  Download d {};
  for (const auto& [segments, busy] :
       { std::pair { 10, 2 }, { 21, 3 }, { 39, 3 }, { 80, 16 }, { 160, 42 }, { 166, 36 }, { 253, 40 } })
  {
    d.train(segments, busy);
    EXPECT_NE(d.kind(), SenderKind::rate_based) << segments;
  }
}

// Reno with 20 ms over 802.11n, stretched to 50: rate control has just begun, the air is three times as fast soon.
TEST(SenderWatch, ARoundThatASlowPathFillsIsNotPaced)
{
  for (const bool queued : { false, true })
  {
    Download d {};
    d.train(10, 2);
    d.train(21, 6);
    if (queued) d.view.rtt_latest = std::chrono::milliseconds { 70 };
    d.train(39, 42);
    for (int i = 0; i < 3; ++i)
      d.train(160, 42);
    EXPECT_EQ(d.kind(), queued ? SenderKind::unknown : SenderKind::rate_based);
  }
}

TEST(SenderWatch, ARoundInTrainsIsNotPaced)
{
  Download d {};
  for (const auto& [segments, busy] : { std::pair { 10, 3.0 }, { 21, 22.5 }, { 30, 37 }, { 90, 42 } })
    d.train(segments, busy);
  ASSERT_EQ(d.kind(), SenderKind::loss_based);
  d.train(150, 42);
  d.train(150, 42);
  EXPECT_EQ(d.kind(), SenderKind::loss_based);
}

TEST(SenderWatch, AStartThatWasPacedOutweighsAnAnswerToLosses)
{
  Download d {};
  for (const auto& [segments, busy] :
       { std::pair { 10, 2 }, { 21, 30 }, { 29, 42 }, { 53, 43 }, { 95, 43 }, { 161, 43 }, { 213, 43 } })
    d.train(segments, busy);
  d.steadily(60, 3);
  ASSERT_EQ(d.kind(), SenderKind::rate_based);
  for (int i = 0; i < 3; ++i)
  {
    d.lose(60, 0.5);
    d.steadily(60, 3);
    EXPECT_EQ(d.kind(), SenderKind::rate_based) << i;
  }
}

TEST(SenderWatch, APacedCubicIsNotTakenForBbr)
{
  Download d {};
  d.train(10, 3);
  d.train(20, 24);
  d.train(40, 25);
  d.train(80, 25);
  EXPECT_EQ(d.kind(), SenderKind::unknown) << "half of each round trip is silent";
}

TEST(SenderWatch, AFullPathShowsNothingAtTheStart)
{
  Download d {};
  d.train(10, 20);
  d.train(20, 36);
  d.train(25, 49);
  d.steadily(25, 5);
  EXPECT_EQ(d.kind(), SenderKind::unknown);
  EXPECT_EQ(d.view.sender.why, string_view { "nothing tells yet" });
}

TEST(SenderWatch, WhoSendsLessAfterALossGoesByLosses)
{
  for (const double ratio : { 0.5, 0.7 })
  {
    Download d {};
    d.steadily(40, 3);
    d.lose(40, ratio);
    EXPECT_EQ(d.kind(), SenderKind::loss_based) << ratio;
    EXPECT_EQ(d.view.sender.why, string_view { "slower after losses" });
  }
}

TEST(SenderWatch, WhoSendsAsMuchAfterALossGoesByARate)
{
  Download d {};
  d.steadily(40, 3);
  d.view.slow_start = false;
  d.lose(40, 1.0);
  EXPECT_EQ(d.kind(), SenderKind::rate_based);
  EXPECT_EQ(d.view.sender.why, string_view { "not slower after losses" });
  d.steadily(40, 3);
  d.lose(40, 1.0);
  EXPECT_GE(d.view.sender.confidence, 95);
}

// BBR that shares 802.11n with others of its kind had three of ten episodes "slower" where an ACK came for a twelfth of
// a flight and more than a delayed ACK's two segments.
TEST(SenderWatch, WhatAggregatesCountIsTooCoarseToTell)
{
  for (const double ratio : { 0.6, 1.0 })
  {
    Download d {};
    d.steadily(120, 3);
    d.view.slow_start = false;
    for (int i = 0; i < 5; ++i, d.steadily(120, 3))
      d.lose(120, ratio, rtt, 10);
    EXPECT_EQ(d.kind(), SenderKind::unknown) << ratio;
    d.lose(120, ratio, rtt, 2);
    EXPECT_NE(d.kind(), SenderKind::unknown) << ratio << ": of two segments";
  }
}

// CUBIC at 1 % loss, 50 ms, 802.11a: 36 of 51 segments after the loss, and 51 were not in flight yet. Taken for BBR, it
// was left alone at 9.7 Mb/s of 23.6.
TEST(SenderWatch, AsMuchAfterALossInSlowStartIsHalfAProof)
{
  Download d {};
  d.steadily(40, 1);
  d.lose(40, 1.0);
  EXPECT_EQ(d.kind(), SenderKind::unknown);
  d.steadily(40, 1);
  d.lose(40, 1.0);
  EXPECT_EQ(d.kind(), SenderKind::rate_based) << "twice";
}

// mirror makes a sender restore its window once the hole is filled: that burst comes a round trip later, and belongs to
// no answer.
TEST(SenderWatch, WhoTakesItsAnswerBackStillGoesByLosses)
{
  Download d {};
  d.steadily(40, 3);
  d.lose(40, 0.7, rtt + 4); // a hole shows when three more have arrived
  d.arrive(12, 0.5);
  d.steadily(40, 1);
  EXPECT_EQ(d.kind(), SenderKind::loss_based) << d.view.sender.why;
}

TEST(SenderWatch, AWindowThatLimitsTheFlowExplainsTheSteadiness)
{
  Download d {};
  d.window = static_cast<std::uint16_t>((42 * mss) >> 10);
  d.steadily(40, 3);
  d.lose(40, 1.0);
  EXPECT_EQ(d.kind(), SenderKind::unknown);
}

TEST(SenderWatch, LossesUponLossesTellNothing)
{
  Download d {};
  d.steadily(40, 3);
  d.arrive(20, rtt / 4, true);
  d.number = d.held; // overtaken
  d.ack();
  d.arrive(4, 5);
  d.lose(40, 1.0);
  EXPECT_EQ(d.kind(), SenderKind::unknown);
}

TEST(SenderWatch, UnderAWindowThatTandemMadeSmallerNothingIsConcluded)
{
  for (const double ratio : { 0.5, 1.0 })
  {
    Download d {};
    d.sent_window = 1000;
    d.steadily(40, 3);
    d.lose(40, ratio);
    EXPECT_EQ(d.kind(), SenderKind::unknown) << ratio;
  }
}

TEST(SenderWatch, ReorderingIsNoLoss)
{
  Download d {};
  d.steadily(40, 3);
  d.lose(40, 0.5, rtt / 4);
  EXPECT_EQ(d.kind(), SenderKind::unknown);
}

TEST(SenderWatch, SignsThatContradictEachOtherAreNoAnswer)
{
  Download d {};
  d.steadily(40, 3);
  d.lose(40, 0.5);
  d.steadily(40, 3);
  d.lose(40, 1.0);
  EXPECT_EQ(d.kind(), SenderKind::unknown);
}

TEST(SenderWatch, TheReasonIsOneForTheAnswer)
{
  Download d {};
  for (int i = 0; i < 3; ++i)
  {
    d.steadily(40, 3);
    d.lose(40, 0.5);
  }
  d.steadily(40, 3);
  d.lose(40, 1.0);
  EXPECT_EQ(d.kind(), SenderKind::loss_based);
  EXPECT_EQ(d.view.sender.why, string_view { "slower after losses" });
}

TEST(SenderWatch, EarlierConnectionsAreASignThatOthersOutweigh)
{
  Download d {};
  d.tracker.expect_sender(SenderKind::rate_based, d.view);
  EXPECT_EQ(d.kind(), SenderKind::rate_based);
  EXPECT_EQ(d.view.sender.why, string_view { "as earlier connections to it were" });
  for (const int train : { 10, 20, 40, 80 })
    d.train(train, train * 0.3);
  EXPECT_EQ(d.kind(), SenderKind::unknown) << "one train";
  d.steadily(30, 2);
  d.lose(30, 0.5);
  EXPECT_EQ(d.kind(), SenderKind::loss_based);
  EXPECT_EQ(d.view.sender.why, string_view { "slower after losses" });
}

TEST(SenderWatch, AnExpectedUserSpaceStackIsNoneWhoseSegmentsAreFull)
{
  Download gvisor {};
  gvisor.tracker.expect_sender(SenderKind::unresponsive, gvisor.view);
  EXPECT_TRUE(gvisor.view.sender.user_space);
  EXPECT_EQ(gvisor.view.sender.why, string_view { "as earlier connections to it were" });
  gvisor.arrive(40, rtt, false, 1420);
  EXPECT_TRUE(gvisor.view.sender.user_space);
  EXPECT_EQ(gvisor.view.sender.why, string_view { "segments leave room for all options" });
  Download linux {};
  linux.tracker.expect_sender(SenderKind::unresponsive, linux.view);
  linux.arrive(2, 1);
  EXPECT_FALSE(linux.view.sender.user_space);
  EXPECT_EQ(linux.kind(), SenderKind::unknown);
}

// Else an error would be handed on for ever.
TEST(SenderWatch, WhatEarlierConnectionsShowedIsNoNews)
{
  Download d {};
  d.tracker.expect_sender(SenderKind::rate_based, d.view);
  EXPECT_EQ(d.tracker.sender_news(), 0);
  for (const int train : { 10, 20, 40, 80 })
    d.train(train, train * 0.3);
  EXPECT_EQ(d.tracker.sender_news(), 8) << "one train";
  EXPECT_EQ(d.tracker.sender_news(), 0);
  for (int i = 0; i < 10; ++i)
  {
    d.steadily(30, 2);
    d.lose(30, 0.5);
  }
  EXPECT_EQ(d.tracker.sender_news(), 40) << "from nothing to the most that a score can be";
}

TEST(SenderWatch, FourSegmentsForAMomentAreProbeRtt)
{
  Download d {};
  d.steadily(60, 20);
  d.steadily(4, 5);
  d.steadily(60, 3);
  EXPECT_EQ(d.kind(), SenderKind::rate_based);
  EXPECT_EQ(d.view.sender.why, string_view { "hardly anything in flight for a moment (PROBE_RTT)" });
  Download pause {};
  pause.steadily(60, 20);
  pause.silence(250);
  pause.steadily(60, 3);
  EXPECT_EQ(pause.kind(), SenderKind::unknown) << "an application that pauses";
  Download asked {};
  asked.steadily(60, 20);
  asked.steadily(4, 5);
  asked.ask();
  asked.steadily(60, 3);
  EXPECT_EQ(asked.kind(), SenderKind::unknown) << "small objects, and then a large one";
  // Over a long path the end of an answer alone lasts as long as that moment.
  Download segments { 0x24813, 1460, 170 };
  for (int i = 0; i < 2; ++i)
  {
    for (int round = 0; round < 20; ++round)
    {
      segments.arrive(60, 60);
      segments.silence(111);
    }
    segments.arrive(4, 20);
    segments.ask();
    segments.silence(190);
  }
  EXPECT_EQ(segments.kind(), SenderKind::unknown) << "video in segments";
  // A flight that comes in two parts.
  Download uneven { 0x24813, 1460, 170 };
  for (int i = 0; i < 4; ++i)
    for (const int flight : { 30, 30, 4 })
    {
      uneven.arrive(flight, 40);
      uneven.silence(131);
    }
  EXPECT_EQ(uneven.kind(), SenderKind::unknown);
}

// A download past its slow start, so many segments in a round trip: no train, no growth, nothing tells.
Download settled(int segments)
{
  Download made {};
  made.steadily(segments, 12);
  made.view.slow_start = false;
  return made;
}

TEST(SenderWatch, BurstsOfOneTsvalAreClockedByAcks)
{
  for (const int sampled : { 1, 16 })
  {
    Download d = settled(60);
    ASSERT_EQ(d.kind(), SenderKind::unknown);
    for (int i = 0; i < 2; ++i)
      d.burst(100, rtt, sampled);
    EXPECT_EQ(d.kind(), SenderKind::unknown) << "the first only starts the clock, one is no proof";
    d.burst(100, rtt, sampled);
    EXPECT_EQ(d.kind(), SenderKind::loss_based) << sampled;
    EXPECT_EQ(d.view.sender.why, string_view { "sends in bursts, clocked by ACKs" });
  }
}

TEST(SenderWatch, WhatAPacingSenderGivesOneTsvalIsNoBurst)
{
  Download few = settled(60);
  for (int i = 0; i < 20; ++i)
    few.burst(20, rtt);
  EXPECT_EQ(few.kind(), SenderKind::unknown) << "BBR sends so many";
  Download fast = settled(200); // 4 a tick
  for (int i = 0; i < 20; ++i)
    for (int j = 0; j < 5; ++j)
      fast.burst(40, rtt / 5);
  EXPECT_EQ(fast.kind(), SenderKind::unknown) << "ten ticks' worth";
  Download coarse = settled(60); // 12 in a tick of 10 ms
  for (int i = 0; i < 40; ++i)
    coarse.burst(60, rtt, 1, 10, false);
  EXPECT_EQ(coarse.kind(), SenderKind::unknown) << "a clock that ticks every 10 ms";
  Download even = settled(60);
  for (int i = 0; i < 40; ++i)
    even.burst(100, rtt, 1, 1, false);
  EXPECT_EQ(even.kind(), SenderKind::unknown);
}

TEST(SenderWatch, NoBurstBeginsWithARetransmission)
{
  Download d = settled(60);
  for (int i = 0; i < 4; ++i)
  {
    d.arrive(60, 1.5 * rtt, true);
    d.clock();
    d.data(d.number);
    d.data(d.held);
    d.number = d.held = d.held + mss;
    d.ack();
    EXPECT_NE(d.view.sender.why, string_view { "sends in bursts, clocked by ACKs" });
  }
}

TEST(SenderWatch, OfPacketsThatWentByUnseenNothingIsConcluded)
{
  Download d {};
  d.steadily(40, 3);
  d.arrive(20, rtt / 2, true);
  d.tracker.resume(d.view);
  d.number = d.held + 400 * mss;
  d.held = d.number;
  d.steadily(40, 3);
  EXPECT_EQ(d.kind(), SenderKind::unknown);
}

// Real ones, of each class; how they were recorded is said in their first lines.
TEST(SenderWatch, RecordedSendersAreKnown)
{
  struct Expected
  {
    const char* file;
    SenderKind kind;
  };
  for (const Expected& one :
       { Expected { "cubic", SenderKind::loss_based }, Expected { "reno", SenderKind::loss_based },
         Expected { "dctcp", SenderKind::loss_based }, Expected { "bbr", SenderKind::rate_based },
         Expected { "bbr-full-path", SenderKind::rate_based }, Expected { "gvisor", SenderKind::unresponsive },
         Expected { "lwip", SenderKind::unresponsive } })
  {
    test::Recorded recorded { one.file };
    ASSERT_TRUE(recorded.readable()) << one.file;
    const Tick began = recorded.now;
    SenderKind last = SenderKind::unknown;
    int changes = 0;
    recorded.play([&]
                  { changes += std::exchange(last, recorded.view.sender.kind) != recorded.view.sender.kind ? 1 : 0; });
    EXPECT_EQ(recorded.view.sender.kind, one.kind) << one.file << ": " << recorded.view.sender.why;
    EXPECT_LE(changes, 2) << one.file;
    EXPECT_LE(recorded.now - began, std::chrono::seconds { 3 }) << one.file;
  }
}

} // namespace
} // namespace flow
} // namespace tandem
