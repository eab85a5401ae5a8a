#include "src/flow/tracker.h"
#include "tests/golden/harness/fixture.h"

#include <tandem/pure_ack.h>

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace tandem::flow
{
namespace
{

using namespace test;

// One tracker with its view, fed as the chain feeds it.
struct Watched
{
  Watched() { view.bypass = Bypass::mid_flow; }

  void seen(const Segment& segment) { tracker.seen(segment, view, now); }
  void leaves(const Segment& segment)
  {
    tracker.seen(segment, view, now);
    tracker.left(segment, segment.ack, segment.window, segment.timestamps ? segment.timestamps->value : TsClock {},
                 view, now);
  }
  // The same, but with another TSval than the kernel's.
  void leaves_with(const Segment& segment, TsClock value)
  {
    tracker.seen(segment, view, now);
    tracker.left(segment, segment.ack, segment.window, value, view, now);
  }
  void open()
  {
    seen(peers.syn(now));
    now += ms(20);
    seen(peers.syn_ack(now));
    peers.recent = peers.remote_ts(now);
    leaves(peers.ack(now));
  }
  // By a SYN that arrives, with these options more than usual.
  void open_from_there(std::uint32_t options = 0, MptcpSubtype subtype = MptcpSubtype::none)
  {
    Segment their_syn = peers.syn_ack(now);
    their_syn.flags = tcp_flag::syn;
    their_syn.options |= options;
    their_syn.mptcp = subtype;
    Segment our_answer = peers.syn(now);
    our_answer.flags = tcp_flag::syn | tcp_flag::ack;
    our_answer.ack = peers.remote_isn + 1;
    seen(their_syn);
    seen(our_answer);
  }
  void arrives(std::uint32_t length, TsClock echo)
  {
    seen(peers.data_in(now, length, echo));
    peers.received += length;
    peers.recent = peers.remote_ts(now);
  }
  // Segments, one each `gap`, each acknowledged at once and echoing what left 40 ms before.
  void downloads(int segments, Duration gap = ms(10))
  {
    for (int i = 0; i < segments; ++i)
    {
      arrives(1448, peers.local_ts(now - ms(40)));
      leaves(peers.ack(now));
      now += gap;
    }
  }

  Tracker tracker {};
  FlowView view {};
  Peers peers {};
  Tick now = at_ms(1000);
};

TEST(Tracker, HandshakeFromHereAgreesOnOptions)
{
  Watched w {};
  w.seen(w.peers.syn(w.now));
  EXPECT_EQ(w.view.bypass, Bypass::mid_flow) << "one SYN is not a handshake";
  w.seen(w.peers.syn_ack(w.now));
  EXPECT_EQ(w.view.bypass, Bypass::none);
  EXPECT_TRUE(w.view.timestamps_ok);
  EXPECT_TRUE(w.view.sack_ok);
  EXPECT_EQ(w.view.local_window_scale, 7);
  EXPECT_EQ(w.view.remote_window_scale, 7);
  EXPECT_EQ(w.view.mss, 1448) << "1460 less the timestamps";
  EXPECT_EQ(w.view.snd_nxt, w.peers.local_isn + 1);
  EXPECT_EQ(w.view.rcv_nxt, w.peers.remote_isn + 1);
  EXPECT_EQ(w.view.scaled(500), 64'000u);
}

TEST(Tracker, HandshakeFromThereAgreesOnOptions)
{
  Watched w {};
  w.open_from_there();
  EXPECT_EQ(w.view.bypass, Bypass::none);
  EXPECT_TRUE(w.view.timestamps_ok);
  EXPECT_EQ(w.view.rcv_nxt, w.peers.remote_isn + 1);
}

TEST(Tracker, AnOptionCountsOnlyWhenBothOfferIt)
{
  for (const bool local : { false, true })
    for (const bool remote : { false, true })
    {
      Watched w {};
      w.peers.timestamps = w.peers.sack = local;
      w.seen(w.peers.syn(w.now));
      w.peers.timestamps = w.peers.sack = remote;
      w.seen(w.peers.syn_ack(w.now));
      EXPECT_EQ(w.view.timestamps_ok, local && remote);
      EXPECT_EQ(w.view.sack_ok, local && remote);
      EXPECT_EQ(w.view.mss, local && remote ? 1448 : 1460);
    }
}

TEST(Tracker, AnMssOptionOf0IsNone)
{
  Watched w {};
  Segment syn = w.peers.syn(w.now);
  syn.mss = 0;
  w.seen(syn);
  EXPECT_EQ(w.view.mss, 536) << "RFC 9293 3.7.1, and what everybody divides by";
}

// As before a tunnel, where a router rewrites both: only the answer shows it here.
TEST(Tracker, TheServersSmallerMssIsThatOfItsSegments)
{
  for (const auto& [theirs, expected] : { std::pair { 1380, 1368 }, { 8960, 1448 }, { 100, 524 }, { 0, 1448 } })
  {
    Watched w {};
    w.seen(w.peers.syn(w.now));
    Segment answer = w.peers.syn_ack(w.now);
    answer.mss = static_cast<std::uint16_t>(theirs);
    w.seen(answer);
    EXPECT_EQ(w.view.mss, expected) << theirs;
  }
}

TEST(Tracker, WindowScaleOnlyWhenBothOfferIt)
{
  Watched only_here {};
  only_here.peers.remote_scale = std::nullopt;
  only_here.open();
  EXPECT_EQ(only_here.view.local_window_scale, 0);
  EXPECT_EQ(only_here.view.scaled(500), 500u);

  Watched only_there {};
  only_there.peers.local_scale = std::nullopt;
  only_there.open();
  EXPECT_EQ(only_there.view.remote_window_scale, 0);
}

TEST(Tracker, SynAgainDoesNotSubtractTheOptionsTwice)
{
  Watched w {};
  w.open();
  w.seen(w.peers.syn_ack(w.now));
  w.seen(w.peers.syn(w.now));
  w.seen(w.peers.syn_ack(w.now));
  EXPECT_EQ(w.view.mss, 1448);
}

TEST(Tracker, DataOfASynThatWasSentAgainWithoutItMayBeAcknowledged)
{
  for (const std::uint32_t taken : { 0u, 300u })
  {
    Watched w {};
    Segment first = w.peers.syn(w.now);
    first.payload_length = 300;
    w.seen(first);
    w.now += ms(1000);
    w.seen(w.peers.syn(w.now));
    Segment answer = w.peers.syn_ack(w.now);
    answer.ack = answer.ack + taken;
    w.seen(answer);
    EXPECT_TRUE(w.tracker.established()) << taken;
    EXPECT_EQ(w.view.snd_una, w.peers.local_isn + 1 + taken);
  }
}

// RFC 5961 section 4: a SYN on an established connection is answered by a challenge ACK; anyone may have sent it.
TEST(Tracker, ForgedSynOnARunningFlowChangesNothing)
{
  Watched w {};
  w.open();
  w.arrives(50'000, w.peers.local_ts(w.now));
  w.leaves(w.peers.ack(w.now));
  const Seq held = w.view.rcv_nxt;

  Segment forged = w.peers.syn_ack(w.now);
  forged.seq = held + 1'000'000'000u;
  forged.window_scale = 14;
  w.seen(forged);
  forged.flags = tcp_flag::syn;
  w.seen(forged);
  EXPECT_EQ(w.view.rcv_nxt, held) << "the guard would let pass an ACK of bytes that never came";
  EXPECT_EQ(w.view.remote_window_scale, 7);
}

TEST(Tracker, SynAckAgainDoesNotTakeBackWhatIsHeld)
{
  Watched w {};
  w.open();
  w.arrives(5000, w.peers.local_ts(w.now));
  w.leaves(w.peers.ack(w.now));
  w.seen(w.peers.syn_ack(w.now));
  EXPECT_EQ(w.view.rcv_nxt, w.peers.remote_isn + 5001);
}

TEST(Tracker, HandshakeCopiesThatComeLateAreStillTaken)
{
  // The copy of the handshake waits in one socket, the ACK for its verdict in another.
  Watched w {};
  const Segment syn = w.peers.syn(w.now);
  const Segment syn_ack = w.peers.syn_ack(w.now);
  w.leaves(w.peers.ack(w.now));
  EXPECT_EQ(w.view.bypass, Bypass::mid_flow);
  w.seen(syn);
  w.seen(syn_ack);
  EXPECT_EQ(w.view.bypass, Bypass::none);
  EXPECT_EQ(w.view.rcv_nxt, w.peers.remote_isn + 1);
}

TEST(Tracker, WithoutHandshakeItStaysMidFlow)
{
  Watched w {};
  for (int i = 0; i < 10; ++i)
  {
    w.now += ms(10);
    w.arrives(1448, w.peers.local_ts(w.now - ms(10)));
    w.leaves(w.peers.ack(w.now));
  }
  EXPECT_EQ(w.view.bypass, Bypass::mid_flow);
  EXPECT_FALSE(w.view.timestamps_ok);
}

TEST(Tracker, AuthenticatedFlowsAreKeptOff)
{
  for (const std::uint32_t kind : { option::md5, option::ao })
  {
    Watched w {};
    w.peers.more_options = kind;
    w.open();
    EXPECT_EQ(w.view.bypass, Bypass::authenticated);
  }
}

// What arrives has not been checked by TCP yet: it could end what modules hold back without their being told.
TEST(Tracker, WhatArrivesDoesNotMakeARunningFlowAuthenticated)
{
  for (const std::uint32_t kind : { option::md5, option::ao })
  {
    Watched w {};
    w.open();
    Segment forged = w.peers.data_in(w.now, 100, w.peers.local_ts(w.now));
    forged.options |= kind;
    w.seen(forged);
    EXPECT_EQ(w.view.bypass, Bypass::none);
    forged.flags = tcp_flag::syn | tcp_flag::ack;
    w.seen(forged);
    EXPECT_EQ(w.view.bypass, Bypass::none);
    Segment own = w.peers.ack(w.now);
    own.options |= kind;
    w.seen(own);
    EXPECT_EQ(w.view.bypass, Bypass::authenticated);
  }
}

TEST(Tracker, MultipathIsRecognised)
{
  Watched w {};
  Segment syn = w.peers.syn(w.now);
  syn.options |= option::mptcp;
  syn.mptcp = MptcpSubtype::mp_join;
  syn.mptcp_token = 0xabcd'0123;
  w.seen(syn);
  EXPECT_TRUE(w.view.mptcp);
  EXPECT_EQ(w.view.mptcp_token, 0xabcd'0123u);
}

// RFC 8684 3.7: without MP_CAPABLE in the SYN/ACK the connection is plain TCP.
TEST(Tracker, AServerThatDoesNotSpeakMultipathMakesItPlainTcp)
{
  struct Case
  {
    MptcpSubtype asked, answered;
    bool multipath;
  };
  using enum MptcpSubtype;
  for (const Case& one :
       { Case { mp_capable, mp_capable, true }, Case { mp_capable, none, false }, Case { mp_join, mp_join, true },
         Case { mp_join, none, true }, Case { none, none, false }, Case { none, mp_capable, true } })
  {
    Watched w {};
    Segment syn = w.peers.syn(w.now);
    Segment answer = w.peers.syn_ack(w.now);
    for (auto [segment, subtype] : { std::pair { &syn, one.asked }, std::pair { &answer, one.answered } })
      if (subtype != none)
      {
        segment->options |= option::mptcp;
        segment->mptcp = subtype;
      }
    w.seen(syn);
    EXPECT_EQ(w.view.mptcp, one.asked != none) << "asked for, not refused yet";
    w.seen(answer);
    EXPECT_EQ(w.view.mptcp, one.multipath) << static_cast<int>(one.asked) << " " << static_cast<int>(one.answered);
    w.leaves(w.peers.ack(w.now));
    EXPECT_EQ(w.view.mptcp, one.multipath);
    EXPECT_EQ(w.view.mptcp_refused, one.asked == mp_capable && one.answered == none) << "a socket of MPTCP over TCP";
  }
}

TEST(Tracker, WhomAPeerAskedInVainHasASocketOfPlainTcp)
{
  Watched w {};
  w.open_from_there(option::mptcp, MptcpSubtype::mp_capable);
  EXPECT_FALSE(w.view.mptcp);
  EXPECT_FALSE(w.view.mptcp_refused);
}

TEST(Tracker, ASynWithoutMultipathIsNotEnoughToBePlain)
{
  // Linux leaves MP_CAPABLE out after some SYNs without an answer; the answer may be to an earlier one.
  for (const bool answered : { true, false })
  {
    Watched w {};
    Segment syn = w.peers.syn(w.now);
    syn.options |= option::mptcp;
    syn.mptcp = MptcpSubtype::mp_capable;
    w.seen(syn);
    w.now += ms(3000);
    w.seen(w.peers.syn(w.now));
    EXPECT_TRUE(w.view.mptcp);
    Segment answer = w.peers.syn_ack(w.now);
    if (answered)
    {
      answer.options |= option::mptcp;
      answer.mptcp = MptcpSubtype::mp_capable;
    }
    w.seen(answer);
    EXPECT_EQ(w.view.mptcp, answered);
    EXPECT_EQ(w.view.mptcp_refused, !answered) << "asked for by the first SYN";
  }
}

TEST(Tracker, MultipathThatThisHostStillSpeaksCounts)
{
  Watched w {};
  w.open();
  EXPECT_FALSE(w.view.mptcp);
  Segment ack = w.peers.ack(w.now);
  ack.options |= option::mptcp;
  ack.mptcp = MptcpSubtype::dss;
  w.leaves(ack);
  EXPECT_TRUE(w.view.mptcp) << "the SYN/ACK that was seen was not the one this host took";
}

TEST(Tracker, TheCounterOfAccurateEcnIsTheLastOneSent)
{
  const auto bits = [](unsigned n) { return static_cast<std::uint16_t>(n << 6); };
  Watched w {};
  w.peers.ace = std::uint8_t { 5 };
  w.seen(w.peers.syn(w.now));
  w.seen(w.peers.syn_ack(w.now));
  ASSERT_TRUE(w.view.acc_ecn);
  EXPECT_EQ(w.view.ace, bits(5)) << "where the counter begins";
  // The ACK of the SYN/ACK says how that came: 0b100 is ECT(0), not four marks (RFC 9768 3.2.2.1).
  w.peers.ace = std::uint8_t { 4 };
  w.leaves(w.peers.ack(w.now));
  EXPECT_EQ(w.view.ace, bits(5));
  for (const unsigned count : { 5u, 6u, 7u, 0u, 1u })
  {
    w.peers.ace = static_cast<std::uint8_t>(count);
    w.arrives(1448, w.peers.local_ts(w.now));
    w.leaves(w.peers.ack(w.now));
    EXPECT_EQ(w.view.ace, bits(count));
    EXPECT_EQ(injected_flags(tcp_flag::ack, w.view), tcp_flag::ack | bits(count));
    EXPECT_EQ(injected_flags(tcp_flag::ack | tcp_flag::ece, w.view), tcp_flag::ack | bits(count));
  }
  Watched plain {};
  plain.open();
  EXPECT_EQ(plain.view.ace, 0);
  EXPECT_EQ(injected_flags(tcp_flag::ack | tcp_flag::ece, plain.view), tcp_flag::ack | tcp_flag::ece);
}

// Anyone can send one: such a connection would be left alone from then on, and be counted to another one's subflows.
TEST(Tracker, WhatArrivesAfterTheHandshakeMakesNoSubflow)
{
  for (const bool out_of_sight : { false, true })
    for (const std::uint16_t flags : { tcp_flag::ack, tcp_flag::syn })
    {
      Watched w {};
      w.open();
      w.arrives(1000, w.peers.local_ts(w.now));
      w.leaves(w.peers.ack(w.now));
      if (out_of_sight) w.tracker.lose_sight();
      Segment forged = w.peers.bare(Direction::ingress, flags, w.now);
      forged.options |= option::mptcp;
      forged.mptcp = MptcpSubtype::mp_join;
      forged.mptcp_token = 0xabcd'0123;
      w.seen(forged);
      EXPECT_FALSE(w.view.mptcp) << flags << out_of_sight;
      EXPECT_EQ(w.view.mptcp_token, 0u) << flags << out_of_sight;
    }
}

TEST(Tracker, AMarkedSynAckIsTheFirstOfTheCount)
{
  Watched w {};
  w.peers.ace = std::uint8_t { 6 }; // CE, RFC 9768 table 3
  w.open();
  EXPECT_EQ(w.view.ace, 6u << 6);
}

TEST(Tracker, TheTokenComesFromTheServersKey)
{
  for (const std::uint8_t version : { 0, 1 })
  {
    Watched w {};
    Segment syn = w.peers.syn(w.now);
    Segment answer = w.peers.syn_ack(w.now);
    for (Segment* one : { &syn, &answer })
    {
      one->options |= option::mptcp;
      one->mptcp = MptcpSubtype::mp_capable;
      one->mptcp_version = version;
    }
    answer.mptcp_key = 0x0102030405060708;
    w.seen(syn);
    EXPECT_EQ(w.view.mptcp_token, 0u);
    w.seen(answer);
    // The first four bytes of SHA-1 and of SHA-256 of the bytes 1 to 8.
    EXPECT_EQ(w.view.mptcp_token, version == 0 ? 0xdd5783bcu : 0x66840ddau);
    EXPECT_EQ(w.view.mptcp_version, version);
    EXPECT_FALSE(w.view.mptcp_joined);
  }
}

TEST(Tracker, AJoinHasItsAddressAndItsPriority)
{
  Watched w {};
  Segment syn = w.peers.syn(w.now);
  syn.options |= option::mptcp;
  syn.mptcp = MptcpSubtype::mp_join;
  syn.mptcp_token = 7;
  syn.mptcp_address_id = 3;
  syn.mptcp_backup = true;
  w.seen(syn);
  w.seen(w.peers.syn_ack(w.now));
  EXPECT_TRUE(w.view.mptcp_joined);
  EXPECT_TRUE(w.view.mptcp_backup);
  EXPECT_EQ(w.view.mptcp_address_id, 3);
  Segment prio = w.peers.ack(w.now);
  prio.options |= option::mptcp;
  prio.mptcp = MptcpSubtype::dss;
  prio.mptcp_prio = true;
  prio.mptcp_prio_of = 9;
  w.seen(prio);
  EXPECT_TRUE(w.view.mptcp_backup) << "that was about another subflow";
  prio.mptcp_prio_of.reset();
  w.seen(prio);
  EXPECT_FALSE(w.view.mptcp_backup);
}

TEST(Tracker, EcnIsAgreedClassicOrAccurate)
{
  constexpr std::uint16_t ae = tcp_flag::ae, cwr = tcp_flag::cwr, ece = tcp_flag::ece;
  struct Case
  {
    std::uint16_t asked, answered;
    bool ecn, accurate;
  };
  // RFC 3168 6.1.1, RFC 9768 table 2.
  const std::vector<Case> cases {
    { 0, 0, false, false },
    { 0, ece, false, false },
    { ece | cwr, 0, false, false },
    { ece | cwr, ece, true, false },
    { ece | cwr, ece | cwr, false, false }, // reflected
    { ae | cwr | ece, 0, false, false },
    { ae | cwr | ece, ece, true, false },
    { ae | cwr | ece, ae | ece, true, false }, // RFC 3540
    { ae | cwr | ece, cwr, true, true },
    { ae | cwr | ece, cwr | ece, true, true },
    { ae | cwr | ece, ae, true, true },
    { ae | cwr | ece, ae | cwr, true, true },
    { ae | cwr | ece, ae | cwr | ece, false, false }, // reflected
  };
  for (const Case& one : cases)
  {
    Watched w {};
    Segment syn = w.peers.syn(w.now);
    syn.flags |= one.asked;
    Segment answer = w.peers.syn_ack(w.now);
    answer.flags |= one.answered;
    w.seen(syn);
    w.seen(answer);
    EXPECT_EQ(w.view.ecn, one.ecn) << one.asked << " " << one.answered;
    EXPECT_EQ(w.view.acc_ecn, one.accurate) << one.asked << " " << one.answered;
  }
}

TEST(Tracker, TheEcnFieldIsThatOfArrivingData)
{
  Watched w {};
  w.open();
  Segment data = w.peers.data_in(w.now, 100, w.peers.local_ts(w.now));
  data.ecn = Ecn::ect0;
  w.seen(data);
  EXPECT_EQ(w.view.ecn_seen, Ecn::ect0);
  w.seen(w.peers.ack(w.now));
  EXPECT_EQ(w.view.ecn_seen, Ecn::ect0);
}

TEST(Tracker, RttIsTheTimeFromATsvalToItsEcho)
{
  Watched w {};
  w.open();
  const TsClock sent = w.peers.local_ts(w.now);
  w.now += ms(37);
  w.arrives(1448, sent);
  EXPECT_EQ(w.view.rtt_latest, ms(37));
  EXPECT_EQ(w.view.rtt_smoothed, ms(37));
  EXPECT_EQ(w.view.rtt_min, ms(37));
  EXPECT_EQ(w.view.rtt_at, w.now);
}

TEST(Tracker, TimingIsByWhatLeftNotByWhatTheKernelMeant)
{
  Watched w {};
  w.open();
  const TsClock own = w.peers.local_ts(w.now);
  w.now += ms(10);
  w.leaves_with(w.peers.ack(w.now), own + 3);
  EXPECT_EQ(w.view.sent_ts_value, own + 3);
  EXPECT_EQ(w.view.last_ts_value, w.peers.local_ts(w.now)) << "the kernel's own clock";
  w.now += ms(25);
  w.arrives(1448, own + 3);
  EXPECT_EQ(w.view.rtt_latest, ms(25));
}

TEST(Tracker, EchoBetweenTwoRecordedTsvalsIsInterpolated)
{
  // A clock of 250 Hz, unknown to the tracker: TSval 100 left at 0, 110 at 40 ms; the echo of 105 was sent at 20 ms.
  Watched w {};
  w.open();
  const Tick begin = w.now;
  Segment ack = w.peers.ack(w.now);
  w.leaves_with(ack, { 2'000'100 });
  w.now = begin + ms(40);
  w.leaves_with(ack, { 2'000'110 });
  w.now = begin + ms(70);
  w.arrives(1448, { 2'000'105 });
  EXPECT_EQ(w.view.rtt_latest, ms(50));
}

// What leaves by cellular has TSvals that are counted: each ACK has the next one, however long after the last.
TEST(Tracker, AnEchoOfWhatLeftBeforeAPauseIsAsOldAsIt)
{
  Watched w {};
  w.open();
  const TsClock first = w.peers.local_ts(w.now);
  w.now += ms(300);
  w.arrives(1448, first);
  const Segment ack = w.peers.ack(w.now);
  const Tick begin = w.now;
  for (int i = 0; i <= 3; ++i)
  {
    w.now = begin + ms(10 * i);
    w.leaves_with(ack, first + 1000 + i);
  }
  w.now = begin + ms(290);
  w.leaves_with(ack, first + 1004);
  w.now = begin + ms(330);
  w.arrives(1448, first + 1003);
  EXPECT_EQ(w.view.rtt_latest, ms(300));
}

TEST(Tracker, AnEchoIsTimedOnce)
{
  Watched w {};
  w.open();
  const TsClock frozen = w.peers.local_ts(w.now);
  w.now += ms(30);
  w.arrives(1448, frozen);
  // While a TSval is frozen the server repeats its echo; its age is no longer a round trip.
  for (int i = 0; i < 50; ++i)
  {
    w.now += ms(10);
    w.leaves_with(w.peers.ack(w.now), frozen);
    w.arrives(1448, frozen);
  }
  EXPECT_EQ(w.view.rtt_smoothed, ms(30));
  EXPECT_EQ(w.view.rtt_latest, ms(30));
}

TEST(Tracker, EchoOfWhatNeverLeftIsIgnored)
{
  Watched w {};
  w.open();
  w.now += ms(30);
  w.arrives(1448, w.peers.local_ts(w.now) + 5000);
  w.arrives(1448, w.peers.local_ts(w.now) - 60'000);
  EXPECT_EQ(w.view.rtt_smoothed, Duration {});
}

TEST(Tracker, APauseOfTheServerIsNotARoundTrip)
{
  Watched w {};
  w.open();
  w.downloads(20);
  ASSERT_EQ(w.view.rtt_smoothed, ms(40));
  // The last ACK is echoed only when the next answer begins, half a minute later.
  const TsClock last = w.view.sent_ts_value;
  w.now += ms(30'000);
  w.arrives(1448, last);
  EXPECT_LE(w.view.rtt_smoothed, ms(50));
}

// All of a flight has the echo that its first segment has, also what comes when that one was acknowledged.
TEST(Tracker, WhatAServerPushesAfterAPauseIsNotAsOldAsThePause)
{
  Watched w {};
  w.open();
  w.downloads(18);
  w.downloads(2, ms(2)); // the last one is not remembered
  const TsClock last = w.view.sent_ts_value;
  w.now += ms(60'000);
  for (int i = 0; i < 10; ++i)
  {
    w.arrives(1448, last);
    w.leaves(w.peers.ack(w.now));
    w.now += ms(1);
  }
  EXPECT_LE(w.view.rtt_latest, ms(80));
  EXPECT_LE(w.view.rtt_smoothed, ms(50));
}

// The server speaks just as this host does: its echo is the last one before the pause, and something younger is on its
// way.
TEST(Tracker, APauseThatBothEndsEndIsNotARoundTrip)
{
  for (const double unremembered : { 0., 2. })
  {
    Watched w {};
    w.open();
    w.downloads(20);
    ASSERT_EQ(w.view.rtt_smoothed, ms(40));
    w.now += ms(unremembered);
    if (unremembered > 0) w.leaves(w.peers.ack(w.now));
    const TsClock last = w.view.sent_ts_value;
    w.now += ms(60'000);
    w.leaves(w.peers.data_out(w.now, 100));
    w.now += ms(20);
    w.arrives(1448, last);
    EXPECT_LE(w.view.rtt_latest, ms(80)) << unremembered;
    EXPECT_LE(w.view.rtt_smoothed, ms(50)) << unremembered;
  }
}

// In an upload no ACK leaves by itself, and for a small part of an hour or for two of them means the same to a clock
// of microseconds in 32 bits.
TEST(Tracker, AnAckAfterHoursOfUploadIsTimed)
{
  Watched w {};
  w.open();
  w.downloads(20);
  w.leaves(w.peers.ack(w.now));
  w.now += ms(1);
  w.leaves(w.peers.ack(w.now)); // not remembered
  w.now += std::chrono::microseconds { (std::int64_t { 1 } << 32) + 30'000'000 };
  w.leaves(w.peers.ack(w.now));
  w.now += ms(20);
  w.arrives(1448, w.peers.local_ts(w.now - ms(40))); // of data that nobody had to see
  EXPECT_NEAR(milliseconds(w.view.rtt_latest), 40, 0.1);
}

TEST(Tracker, ALastingRiseOfTheRttIsFollowed)
{
  Watched w {};
  w.open();
  const auto round = [&](Duration rtt)
  {
    w.leaves(w.peers.ack(w.now));
    const TsClock sent = w.view.sent_ts_value;
    w.now += rtt;
    w.arrives(1448, sent);
  };
  for (int i = 0; i < 20; ++i)
    round(ms(20));
  EXPECT_EQ(w.view.rtt_smoothed, ms(20));
  for (int i = 0; i < 80; ++i)
    round(ms(200));
  EXPECT_NEAR(milliseconds(w.view.rtt_smoothed), 200, 5) << "one segment per round trip, so every echo is the newest";
}

TEST(Tracker, DenseAcksFromTheStartAreStillTimed)
{
  // An ACK every millisecond: more per round trip than the tracker remembers before it knows the round trip.
  Watched w {};
  w.open();
  for (int i = 0; i < 200; ++i)
  {
    w.now += ms(1);
    w.arrives(1448, w.peers.local_ts(w.now - ms(60)));
    w.leaves(w.peers.ack(w.now));
  }
  EXPECT_EQ(w.view.rtt_smoothed, ms(60));
}

TEST(Tracker, ASuddenRiseOfTheRttIsStillTimed)
{
  Watched w {};
  w.open();
  for (const double rtt : { 20., 200. })
    for (int i = 0; i < 1000; ++i)
    {
      w.now += ms(1);
      w.arrives(1448, w.peers.local_ts(w.now - ms(rtt)));
      w.leaves(w.peers.ack(w.now));
    }
  EXPECT_NEAR(milliseconds(w.view.rtt_smoothed), 200, 10);
}

TEST(Tracker, SmoothingFollowsRfc6298)
{
  Watched w {};
  w.open();
  TsClock sent = w.peers.local_ts(w.now);
  w.now += ms(40);
  w.leaves(w.peers.ack(w.now)); // something newer is on its way, so the echo is a plain sample
  w.arrives(1448, sent);
  sent = w.view.sent_ts_value;
  w.now += ms(56);
  w.leaves(w.peers.ack(w.now));
  w.arrives(1448, sent);
  EXPECT_EQ(w.view.rtt_latest, ms(56));
  EXPECT_EQ(w.view.rtt_smoothed, ms(42)) << "7/8 of 40 and 1/8 of 56";
}

// The TSval stood still, one copy by cellular counted on, and then all have the clock's again: 30 ms, an eighth of the
// round trip, without a sample in which TSvals grow by 270.
TEST(Tracker, TsvalsAfterAProbeAreTimedByTheClockAgain)
{
  Watched w {};
  w.open();
  for (int i = 0; i < 400; ++i)
  {
    w.now += ms(5);
    w.leaves(w.peers.ack(w.now));
    w.arrives(1448, w.peers.local_ts(w.now - ms(240)));
  }
  ASSERT_NEAR(milliseconds(w.view.rtt_smoothed), 240, 1);
  const Tick begin = w.now;
  const TsClock frozen = w.view.sent_ts_value;
  w.view.ts_reserved = { .what = TsReservation::What::onward, .from = frozen + 1 };
  for (int after = 5; after < 600; after += 5)
  {
    w.now = begin + ms(after);
    if (after == 240) w.leaves_with(w.peers.ack(w.now), frozen + 1);
    if (after == 245) w.view.ts_reserved = { .what = TsReservation::What::odd, .from = frozen + 2 };
    if (after > 240) w.leaves(w.peers.ack(w.now));
    if (after > 240 && after <= 480) continue; // nothing but the frozen one has reached the server meanwhile
    w.arrives(1448, w.peers.local_ts(w.now - ms(240)));
    EXPECT_NEAR(milliseconds(w.view.rtt_latest), 240, 1) << after;
  }
}

// One that waited leaves late with the TSval from before: those between it and the one before it did not.
TEST(Tracker, AnAckThatWaitedDoesNotMoveThoseBefore)
{
  Watched w {};
  w.open();
  const Tick begin = w.now;
  std::vector<std::pair<Tick, TsClock>> left {};
  std::size_t echoed = 0;
  for (int after = 5; after < 2000; after += 5)
  {
    w.now = begin + ms(after);
    const bool waits = after % 120 >= 100;
    const TsClock own = w.peers.local_ts(after % 120 == 0 ? w.now - ms(20) : w.now);
    if (!waits)
    {
      w.leaves_with(w.peers.ack(w.now), own);
      left.emplace_back(w.now, own);
    }
    for (; echoed < left.size() && w.now - left[echoed].first >= ms(240); ++echoed)
    {
      w.arrives(1448, left[echoed].second);
      if (after < 1000) continue; // too much to remember before the round trip is known
      ASSERT_NEAR(milliseconds(w.view.rtt_latest), milliseconds(w.now - left[echoed].first), 6) << after;
    }
  }
  EXPECT_GT(echoed, 200u);
}

TEST(Tracker, TsvalWrap)
{
  Watched w {};
  w.peers.local_clock = TsClock { 0xffff'ffffu } - 1100; // wraps 100 ms after the start at 1000 ms
  w.open();
  for (int i = 0; i < 30; ++i)
  {
    w.now += ms(10);
    w.arrives(1448, w.peers.local_ts(w.now - ms(30)));
    w.leaves(w.peers.ack(w.now));
  }
  EXPECT_LT(w.view.sent_ts_value.raw, 1000u) << "the clock did wrap";
  EXPECT_EQ(w.view.rtt_smoothed, ms(30));
}

TEST(Tracker, SequenceWrap)
{
  Watched w {};
  w.peers.remote_isn = Seq { 0xffff'ffffu } - 20'000u;
  w.peers.local_isn = Seq { 0xffff'ffffu } - 100u;
  w.open();
  for (int i = 0; i < 40; ++i)
  {
    w.now += ms(10);
    w.arrives(1000, w.peers.local_ts(w.now - ms(20)));
    w.leaves(w.peers.ack(w.now));
  }
  EXPECT_EQ(w.view.bytes_delivered, 40'000u);
  EXPECT_EQ(w.view.rcv_nxt, w.peers.remote_isn + 40'001);
  EXPECT_EQ(w.view.sent_ack, w.view.rcv_nxt);
  w.leaves(w.peers.data_out(w.now, 500));
  EXPECT_EQ(w.view.snd_nxt, w.peers.local_isn + 501);
  EXPECT_EQ(w.view.bytes_sent, 500u);
}

// Nobody is shown what a flow uploads, nor the ACKs that come for it.
TEST(Tracker, AnUploadOfMoreThanHalfTheSequenceSpaceIsNotTakenForARetransmission)
{
  for (const double gigabytes : { 1.0, 2.5, 3.0, 3.9 })
  {
    Watched w {};
    w.open();
    w.arrives(1000, w.peers.local_ts(w.now));
    w.leaves(w.peers.ack(w.now));
    w.now += ms(60'000);
    w.peers.next += static_cast<std::uint32_t>(gigabytes * 1024 * 1024 * 1024);
    w.leaves(w.peers.ack(w.now));
    w.now += ms(20);
    w.arrives(1000, w.peers.local_ts(w.now - ms(20)));
    w.leaves(w.peers.ack(w.now));
    EXPECT_EQ(w.view.snd_nxt, w.peers.local_isn + w.peers.next) << gigabytes;
    EXPECT_EQ(w.view.snd_una, w.view.snd_nxt) << gigabytes << ": what arrived was not acceptable";
    EXPECT_EQ(w.view.rtt_latest, ms(20)) << gigabytes;
  }
}

// Data sent once more, and a reset that answers something old, are older than what was sent last.
TEST(Tracker, ARetransmissionTakesNothingBack)
{
  Watched w {};
  w.open();
  const Segment first = w.peers.data_out(w.now, 1000);
  w.leaves(first);
  w.peers.next += 10'000'000;
  w.leaves(w.peers.ack(w.now));
  const Seq next = w.view.snd_nxt;
  w.leaves(first);
  EXPECT_EQ(w.view.snd_nxt, next);
  Segment reset = w.peers.bare(Direction::egress, tcp_flag::rst, w.now);
  reset.seq = next - 0x7000'0000u;
  w.leaves(reset);
  EXPECT_EQ(w.view.snd_nxt, next);
  EXPECT_TRUE(w.view.sent_any);
}

TEST(Tracker, AnOldAckTakesNothingBack)
{
  Watched w {};
  w.open();
  w.arrives(5000, w.peers.local_ts(w.now));
  w.leaves(w.peers.ack(w.now));
  const Seq highest = w.view.rcv_nxt;
  Segment old = w.peers.ack(w.now);
  old.ack = old.ack - 3000u;
  w.leaves(old);
  EXPECT_EQ(w.view.rcv_nxt, highest);
  EXPECT_EQ(w.view.sent_ack, highest);
}

TEST(Tracker, DeliveryRateAndWindowOfASteadyDownload)
{
  // 10,000 bytes every 10 ms at an RTT of 50 ms: 1 MB/s, a window of 50 kB.
  Watched w {};
  w.open();
  for (int i = 0; i < 100; ++i)
  {
    w.now += ms(10);
    w.arrives(10'000, w.peers.local_ts(w.now - ms(50)));
    w.leaves(w.peers.ack(w.now));
  }
  EXPECT_NEAR(w.view.delivery_rate, 1e6, 2e4);
  EXPECT_NEAR(w.view.window_estimate, 50'000, 2'500);
}

TEST(Tracker, NoWindowWithoutAnRtt)
{
  Watched w {};
  w.peers.timestamps = false;
  w.open();
  for (int i = 0; i < 100; ++i)
  {
    w.now += ms(10);
    w.arrives(10'000, {});
    w.leaves(w.peers.ack(w.now));
  }
  EXPECT_EQ(w.view.rtt_smoothed, Duration {});
  EXPECT_EQ(w.view.window_estimate, 0u);
  EXPECT_NEAR(w.view.delivery_rate, 1e6, 2e4);
}

TEST(Tracker, MinimumRttForgetsAfterTenSeconds)
{
  Watched w {};
  w.open();
  const auto steady = [&](Duration rtt, Duration span)
  {
    for (const Tick end = w.now + span; w.now < end;)
    {
      w.now += ms(10);
      w.arrives(1448, w.peers.local_ts(w.now - rtt));
      w.leaves(w.peers.ack(w.now));
    }
  };
  steady(ms(20), ms(1000));
  EXPECT_EQ(w.view.rtt_min, ms(20));
  steady(ms(80), ms(3500));
  EXPECT_EQ(w.view.rtt_min, ms(20)) << "the window is five to ten seconds";
  steady(ms(80), ms(9000));
  EXPECT_EQ(w.view.rtt_min, ms(80));
}

TEST(Tracker, LastFieldsAreTheKernelsOwn)
{
  Watched w {};
  w.open();
  w.peers.window = 321;
  w.leaves(w.peers.ack(w.now));
  EXPECT_EQ(w.view.last_window, 321);
  EXPECT_EQ(w.view.sent_window, 321);
  EXPECT_EQ(w.view.ts_recent, w.peers.recent);
  EXPECT_FALSE(w.view.fin_sent);
  w.leaves(w.peers.bare(Direction::egress, tcp_flag::fin | tcp_flag::ack, w.now));
  EXPECT_TRUE(w.view.fin_sent);
  EXPECT_EQ(w.view.snd_nxt, w.peers.local_isn + 2);
}

// Copies are read after what waits for a verdict, so that one may be older than what was seen last.
TEST(Tracker, ACopyThatComesLateTakesNothingBack)
{
  for (const bool progress : { true, false })
  {
    Watched w {};
    w.open();
    w.arrives(1448, w.peers.local_ts(w.now));
    w.leaves(w.peers.ack(w.now));
    w.now += ms(5);
    Segment request = w.peers.data_out(w.now, 300);
    request.window = 700;
    w.peers.next += 300;
    w.now += ms(5);
    if (progress) w.arrives(1448, w.peers.local_ts(w.now));
    Segment ack = w.peers.ack(w.now);
    ack.options |= option::sack;
    ack.sack_blocks[ack.sack_count++] = { ack.ack + 1448u, ack.ack + 2896u };
    w.leaves(ack);
    const FlowView before = w.view;
    ASSERT_TRUE(before.holes);

    w.seen(request);
    EXPECT_EQ(w.view.last_window, ack.window) << "a larger one was taken back since";
    EXPECT_EQ(w.view.last_ts_value, ack.timestamps->value);
    EXPECT_EQ(w.view.ts_recent, ack.timestamps->echo);
    EXPECT_TRUE(w.view.holes);
    EXPECT_EQ(w.view.loss_episodes, before.loss_episodes);
    EXPECT_EQ(w.view.rcv_nxt, before.rcv_nxt);
    EXPECT_EQ(w.view.snd_nxt, before.snd_nxt);
    Segment fin = request;
    fin.payload_length = 0;
    fin.seq = w.view.snd_nxt;
    fin.flags |= tcp_flag::fin;
    w.seen(fin);
    EXPECT_TRUE(w.view.fin_sent) << "what it says by itself counts";
    EXPECT_EQ(w.view.snd_nxt, before.snd_nxt + 1);
  }
}

// ---- repeats_in_next: what may be left out ----

struct Repeats : ::testing::Test
{
  Repeats()
  {
    w.open();
    w.arrives(1448, w.peers.local_ts(w.now));
    w.leaves(w.peers.ack(w.now));
    w.arrives(1448, w.peers.local_ts(w.now));
    ack = w.peers.ack(w.now);
  }
  Watched w {};
  Segment ack {};
};

TEST_F(Repeats, PlainProgressIsRepeated)
{
  EXPECT_TRUE(repeats_in_next(ack, w.view));
}

TEST_F(Repeats, WhatCarriesMoreIsNot)
{
  const auto changed = [&](auto change)
  {
    Segment s = ack;
    change(s);
    return repeats_in_next(s, w.view);
  };
  EXPECT_FALSE(changed([](Segment& s) { s.sack_count = 1; })) << "SACK";
  EXPECT_FALSE(changed([](Segment& s) { s.flags |= tcp_flag::ece; })) << "ECE";
  EXPECT_FALSE(changed([](Segment& s) { s.flags |= tcp_flag::cwr; })) << "CWR";
  EXPECT_FALSE(changed([](Segment& s) { s.flags |= tcp_flag::ae; })) << "AccECN";
  EXPECT_FALSE(changed([](Segment& s) { s.flags |= tcp_flag::urg; })) << "URG";
  EXPECT_FALSE(changed([](Segment& s) { s.flags |= tcp_flag::fin; })) << "FIN";
  EXPECT_FALSE(changed([](Segment& s) { s.flags |= tcp_flag::rst; })) << "RST";
  EXPECT_FALSE(changed([](Segment& s) { s.payload_length = 1; })) << "data";
  EXPECT_FALSE(changed([](Segment& s) { s.window += 1; })) << "window opened";
  EXPECT_FALSE(changed([](Segment& s) { s.window -= 1; })) << "window closed";
  EXPECT_FALSE(changed([&](Segment& s) { s.ack = w.view.sent_ack; })) << "duplicate";
  EXPECT_FALSE(changed([&](Segment& s) { s.ack = w.view.sent_ack - 1u; })) << "old";
  EXPECT_FALSE(changed([](Segment& s) { s.options |= option::unknown; })) << "unknown option";
  EXPECT_FALSE(changed(
      [](Segment& s)
      {
        s.options |= option::mptcp;
        s.mptcp = MptcpSubtype::mp_prio;
      }))
      << "one-time MPTCP signal";
  EXPECT_TRUE(changed(
      [](Segment& s)
      {
        s.options |= option::mptcp;
        s.mptcp = MptcpSubtype::dss;
      }))
      << "a DSS is repeated by the next one";
  EXPECT_FALSE(changed(
      [](Segment& s)
      {
        s.options |= option::mptcp;
        s.mptcp = MptcpSubtype::dss;
        s.mptcp_subtypes = subtype_bit(MptcpSubtype::dss) | subtype_bit(MptcpSubtype::add_addr);
      }))
      << "a signal behind a DSS";
  EXPECT_FALSE(changed(
      [](Segment& s)
      {
        s.options |= option::mptcp;
        s.mptcp = MptcpSubtype::dss;
        s.mptcp_data_fin = true;
      }))
      << "DATA_FIN";
  EXPECT_FALSE(changed([](Segment& s) { s.options |= option::acc_ecn; })) << "AccECN's byte counters";
  EXPECT_FALSE(changed([](Segment& s) { s.direction = Direction::ingress; })) << "arriving";
  // RFC 9293 3.8.4 and 3.8.6.1: Linux probes with the byte before SND.UNA, and without data.
  EXPECT_FALSE(changed([](Segment& s) { s.seq = s.seq - 1u; })) << "a keep-alive or window probe asks for an answer";
}

TEST_F(Repeats, AnEditThatMayWaitIsNoChangeOfTheWindow)
{
  w.tracker.left(ack, ack.ack - 1448u, { 7, ack.window }, ack.timestamps->value, w.view, w.now);
  EXPECT_EQ(w.view.sent_window, 7);
  EXPECT_TRUE(repeats_in_next(ack, w.view));
  w.tracker.left(ack, ack.ack - 1448u, { 7 }, ack.timestamps->value, w.view, w.now);
  EXPECT_FALSE(repeats_in_next(ack, w.view)) << "the server waits for a larger one";
}

TEST_F(Repeats, AWindowThatHasGrownMayWaitWhileNobodyWaitsForIt)
{
  const std::uint32_t room = w.view.scaled(w.view.told_window) - 1448; // beyond what this ACK acknowledges
  ack.window += 1;
  EXPECT_FALSE(may_be_left_out(ack, w.view)) << "how much is sent in a round trip is not known";
  w.view.slow_start = false;
  w.view.window_estimate = room / 2;
  EXPECT_TRUE(may_be_left_out(ack, w.view));
  w.view.window_estimate = room / 2 + 1;
  EXPECT_FALSE(may_be_left_out(ack, w.view)) << "the sender may soon wait for it";
  w.view.slow_start = true;
  w.view.window_estimate = room / 4;
  EXPECT_TRUE(may_be_left_out(ack, w.view));
  w.view.window_estimate = room / 4 + 1;
  EXPECT_FALSE(may_be_left_out(ack, w.view));
  w.view.window_estimate = 1448;
  ack.window -= 2;
  EXPECT_FALSE(may_be_left_out(ack, w.view)) << "a smaller one is told at once";
}

TEST_F(Repeats, AnInjectedAckHasTheWindowThatWasLeftOut)
{
  ack.window += 9;
  w.tracker.seen(ack, w.view, w.now);
  EXPECT_EQ(latest_ack(w.view, Link::wifi).window, ack.window);
}

// ---- reports_nothing_new: repaired holes ----

TEST_F(Repeats, RepairedHolesReportNothingNew)
{
  const Seq from = w.view.sent_ack;
  const auto block = [&](std::uint32_t left, std::uint32_t right) { return SackBlock { from + left, from + right }; };
  const auto with = [&](std::uint32_t number, std::initializer_list<SackBlock> blocks)
  {
    Segment s = w.peers.ack(w.now);
    s.ack = from + number;
    for (const SackBlock& one : blocks)
      s.sack_blocks[s.sack_count++] = one;
    return s;
  };
  w.leaves(with(0, { block(10'000, 12'000), block(4'000, 8'000) }));
  EXPECT_EQ(w.view.sent_sacked, from + 12'000u);
  EXPECT_TRUE(reports_nothing_new(with(8'000, { block(10'000, 12'000) }), w.view));
  EXPECT_FALSE(reports_nothing_new(with(8'000, { block(10'000, 12'001) }), w.view)) << "more was received";
  EXPECT_FALSE(reports_nothing_new(with(8'000, { block(2'000, 3'000), block(10'000, 12'000) }), w.view)) << "DSACK";
  EXPECT_FALSE(reports_nothing_new(with(12'000, {}), w.view)) << "nothing is missing";
  EXPECT_FALSE(reports_nothing_new(with(0, { block(10'000, 12'000) }), w.view)) << "duplicate";
  Segment marked = with(8'000, { block(10'000, 12'000) });
  marked.flags |= tcp_flag::ece;
  EXPECT_FALSE(reports_nothing_new(marked, w.view)) << "ECE";
}

TEST_F(Repeats, NothingOfAFlowThatCountsMarks)
{
  w.view.acc_ecn = true;
  EXPECT_FALSE(repeats_in_next(ack, w.view)) << "a counter of zero looks like no flag at all";
}

} // namespace
} // namespace tandem::flow
