#include "src/fetch/mirror_tcp.h"
#include "tests/unit/fetch/mirror_world.h"

#include <gtest/gtest.h>

#include <random>

namespace tandem::fetch
{
namespace
{

using test::content;
using test::World;
using test::WorldConfig;

// Open, and the beginning of the answer received.
void begin(World& world)
{
  world.open();
  ASSERT_TRUE(world.fetch({ 0, 300 }));
  ASSERT_EQ(world.tcp->phase(), MirrorPhase::open);
}

// So long that everything under way has come.
void settle(World& world)
{
  world.run_until([] { return false; }, 200ms);
  world.said();
}

TEST(MirrorTcp, SynCarriesItsOptionsAndAValidChecksum)
{
  World world { {} };
  world.tcp->open(world.now);
  const auto packets = world.tcp->take_packets();
  ASSERT_EQ(packets.size(), 1u);
  const auto parsed = wire::parse(packets[0], Direction::egress);
  ASSERT_TRUE(parsed.ok());
  EXPECT_TRUE(wire::verify(packets[0], parsed.segment));
  EXPECT_EQ(parsed.segment.flags, tcp_flag::syn);
  EXPECT_EQ(parsed.segment.mss, 1460);
  EXPECT_EQ(parsed.segment.window_scale, 7);
  EXPECT_TRUE(parsed.segment.has_option(option::sack_permitted));
  EXPECT_TRUE(parsed.segment.timestamps.has_value());
  EXPECT_FALSE(parsed.segment.has_option(option::unknown));
}

TEST(MirrorTcp, ALostHandshakeIsRepeated)
{
  World world { {} };
  world.lose_up = [](std::size_t n, const Segment&) { return n < 2; }; // two SYNs
  world.lose_down = [](std::size_t n, const Segment&) { return n == 0; };
  begin(world);
}

TEST(MirrorTcp, SilenceIsGivenUp)
{
  World world { {} };
  world.lose_up = [](std::size_t, const Segment&) { return true; };
  world.open();
  EXPECT_TRUE(world.run_until([&] { return world.tcp->phase() == MirrorPhase::closed; }, 120s));
  EXPECT_EQ(world.tcp->why(), "the server does not answer on the cellular link");
  EXPECT_EQ(world.tcp->wake(), Tick::max());
}

TEST(MirrorTcp, ALostRequestIsRepeated)
{
  World world { {} };
  world.lose_up = [](std::size_t, const Segment& segment)
  {
    static int requests = 0;
    return segment.payload_length != 0 && requests++ < 2;
  };
  begin(world);
}

TEST(MirrorTcp, AClosedWindowIsProbedUntilItOpens)
{
  World world { { .timestamps = false } };
  world.lose_up = [](std::size_t, const Segment&) { return true; };
  world.open();
  world.said();
  // As of a SYN proxy, until it has reached the server.
  world.offered = 0;
  const Seq first = world.mirror().initial_sequence + 1;
  world.hand(world.injected(tcp_flag::syn | tcp_flag::ack, world.server_seq(0) - 1, {}, first));
  const auto ends = world.said();
  ASSERT_EQ(ends.size(), 1u) << "the handshake is not ended";
  EXPECT_EQ(ends[0].payload_length, 0u);
  // That it has opened is lost.
  std::vector<Segment> probes {};
  ASSERT_TRUE(world.run_until(
      [&]
      {
        for (const Segment& one : world.said())
          if (one.payload_length > 0) probes.push_back(one);
        return probes.size() == 2;
      },
      10s));
  for (const Segment& probe : probes)
    EXPECT_TRUE(probe.seq == first && probe.payload_length == 1);
  world.offered = 500;
  world.hand(world.injected(tcp_flag::ack, world.server_seq(0), {}, first));
  const auto all = world.said();
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].seq, first);
  EXPECT_GT(all[0].payload_length, 10u);
}

// Else a server that opens and closes it without an end has the whole request sent with every packet of its own.
TEST(MirrorTcp, AWindowThatOpensAgainAndAgainGetsTheRequestByTheTimerAlone)
{
  World world { { .timestamps = false } };
  world.lose_up = [](std::size_t, const Segment&) { return true; };
  world.open();
  const Seq first = world.mirror().initial_sequence + 1;
  world.hand(world.injected(tcp_flag::syn | tcp_flag::ack, world.server_seq(0) - 1, {}, first));
  for (int i = 0; i < 50; ++i)
    for (const std::uint16_t window : { 0, 500 })
    {
      world.offered = window;
      world.hand(world.injected(tcp_flag::ack, world.server_seq(0), {}, first));
    }
  const auto all = world.said();
  const auto requests =
      std::count_if(all.begin(), all.end(), [](const Segment& one) { return one.payload_length > 0; });
  EXPECT_EQ(requests, 1);
}

// RFC 5681 3.1. Else a server that acknowledges a byte at a time has the whole request sent with each of them.
TEST(MirrorTcp, ATimeoutSendsOneSegmentOfTheRequest)
{
  World world { { .timestamps = false } };
  world.tcp.emplace(world.mirror(), std::vector<std::byte>(8000, std::byte { 'x' }));
  world.lose_up = [](std::size_t, const Segment&) { return true; };
  world.open();
  world.offered = 0xffff;
  const Seq first = world.mirror().initial_sequence + 1;
  world.hand(world.injected(tcp_flag::syn | tcp_flag::ack, world.server_seq(0) - 1, {}, first));
  const auto bytes_said = [&]
  {
    std::uint32_t sum = 0;
    for (const Segment& one : world.said())
      sum += one.payload_length;
    return sum;
  };
  EXPECT_EQ(bytes_said(), 5360u) << "the initial window";
  for (std::uint32_t taken = 1; taken <= 3; ++taken)
  {
    std::uint32_t again = 0;
    world.run_until([&] { return (again += bytes_said()) > 0; }, 20s);
    EXPECT_LE(again, 536u);
    world.hand(world.injected(tcp_flag::ack, world.server_seq(0), {}, first + taken));
    EXPECT_LE(bytes_said(), 536u);
  }
  // Of a server that takes what it gets the rest comes at the pace of a slow start.
  std::uint32_t acked = 3, top = 0;
  int rounds = 0;
  for (; acked < 8000 && rounds < 30; ++rounds)
  {
    for (const Segment& one : world.said())
      if (one.payload_length > 0) top = std::max(top, static_cast<std::uint32_t>(one.end() - first));
    if (top <= acked)
    {
      world.run_until([&] { return false; }, 1s);
      continue;
    }
    acked = top;
    world.hand(world.injected(tcp_flag::ack, world.server_seq(0), {}, first + acked));
  }
  EXPECT_EQ(acked, 8000u);
  EXPECT_LT(rounds, 10);
}

TEST(MirrorTcp, ARefusalOnlyCountsWithOurNumber)
{
  World world { {} };
  world.open();
  world.hand(world.injected(tcp_flag::rst | tcp_flag::ack, { 0 }, {}, world.mirror().initial_sequence));
  EXPECT_EQ(world.tcp->phase(), MirrorPhase::connecting);
  world.hand(world.injected(tcp_flag::rst | tcp_flag::ack, { 0 }, {}, world.mirror().initial_sequence + 1));
  EXPECT_EQ(world.tcp->phase(), MirrorPhase::closed);
  EXPECT_EQ(world.tcp->why(), "the server refused the mirror connection");
}

TEST(MirrorTcp, SkipsToAFarPieceAcrossTheWrapOfSequenceNumbers)
{
  WorldConfig config;
  config.server_initial = { 0xffff'ffffu - 2'000'000 };
  config.client_initial = { 0xffff'fff8u }; // inside the request
  World world { config };
  begin(world);
  for (const std::uint64_t from : { 1'999'000ull, 2'001'000ull, 9'000'000ull, 25'000'000ull })
    EXPECT_TRUE(world.fetch({ from, from + 3000 })) << from;
  EXPECT_EQ(world.tcp->stats().refused, 0u);
  // Most of it never went over the link.
  EXPECT_LT(world.delivered_bytes, 15'000'000u);
}

TEST(MirrorTcp, WithoutSkippingEverythingIsReceived)
{
  WorldConfig config;
  config.mirror.optimistic = false;
  config.server_limit = 500'000; // no more than link and queue hold: the server here repairs one loss a time
  World world { config };
  begin(world);
  EXPECT_TRUE(world.fetch({ 5'000'000, 5'003'000 }));
  EXPECT_EQ(world.unsent_acks, 0u);
  EXPECT_GE(world.delivered_bytes, 5'000'000u);
  EXPECT_EQ(world.tcp->stats().ahead, 0u);
}

TEST(MirrorTcp, NeverAcknowledgesAWantedByteThatIsNotThere)
{
  WorldConfig config;
  World world { config };
  std::mt19937 random { 3 };
  world.lose_down = [&](std::size_t, const Segment&) { return random() % 50 == 0; };
  begin(world);
  const Piece piece { 4'000'000, 4'020'000 };
  ASSERT_TRUE(world.tcp->want(piece, world.now));
  ASSERT_TRUE(world.run_until(
      [&]
      {
        for (const Segment& segment : world.said())
        {
          const std::int32_t beyond = segment.ack - world.server_seq(piece.from);
          if (beyond <= 0) continue;
          const std::uint64_t to = std::min(piece.from + static_cast<std::uint64_t>(beyond), piece.to);
          EXPECT_TRUE(world.tcp->holds({ piece.from, to }));
        }
        return world.tcp->holds(piece);
      }));
  EXPECT_EQ(world.tcp->read(piece), content(piece));
}

TEST(MirrorTcp, TheServerIsNotLetIntoTheWantedBytesBeforeTheGuardIsOver)
{
  WorldConfig config;
  config.mirror.early_guard = false;
  World world { config };
  begin(world);
  const Piece piece { 8'000'000, 8'003'000 };
  Tick guarded {}, opened {};
  ASSERT_TRUE(world.tcp->want(piece, world.now));
  world.run_until(
      [&]
      {
        if (world.tcp->move() == MirrorMove::guarding && guarded == Tick {}) guarded = world.now;
        if (world.window_edge() > piece.from && opened == Tick {}) opened = world.now;
        return world.tcp->holds(piece);
      });
  EXPECT_TRUE(world.tcp->holds(piece));
  ASSERT_NE(guarded, Tick {});
  EXPECT_GE(opened - guarded, config.mirror.guard);
}

TEST(MirrorTcp, TheGuardEndsEarlyOnAnEmptyLink)
{
  WorldConfig config;
  config.rate = 1_gbps;
  config.mirror.guard = 10s;
  World world { config };
  begin(world);
  EXPECT_TRUE(world.fetch({ 8'000'000, 8'003'000 }, 5s));
}

TEST(MirrorTcp, AnAcknowledgementOfWhatWasNotSentIsRareAndTakenBack)
{
  WorldConfig config;
  World world { config };
  begin(world);
  EXPECT_TRUE(world.fetch({ 10'000'000, 10'002'000 }));
  const std::uint64_t before = world.unsent_acks;
  EXPECT_LE(before, world.tcp->stats().ahead / 4);
  // From now on the server sends far less at a time than it did.
  config.server_limit = 40'000;
  World slow { config };
  begin(slow);
  EXPECT_TRUE(slow.fetch({ 10'000'000, 10'002'000 }, 120s));
}

TEST(MirrorTcp, WithoutTimestampsOnlyWhatWasSeenIsAcknowledged)
{
  WorldConfig config;
  config.timestamps = false;
  World world { config };
  begin(world);
  EXPECT_TRUE(world.fetch({ 3'000'000, 3'002'000 }, 120s));
  EXPECT_EQ(world.unsent_acks, 0u);
  EXPECT_EQ(world.tcp->stats().ahead, 0u);
}

TEST(MirrorTcp, WithoutSackALossIsRepairedAllTheSame)
{
  WorldConfig config;
  config.sack = false;
  World world { config };
  begin(world);
  bool lost = false;
  world.lose_down = [&](std::size_t, const Segment& segment)
  {
    if (lost || segment.seq.before(world.server_seq(2'000'000))) return false;
    return lost = true;
  };
  EXPECT_TRUE(world.fetch({ 2'000'000, 2'010'000 }));
  EXPECT_TRUE(lost);
}

TEST(MirrorTcp, ParkedItLetsNothingComeAndAnswersProbes)
{
  World world { {} };
  begin(world);
  ASSERT_TRUE(world.fetch({ 1'000'000, 1'003'000 }));
  settle(world);
  EXPECT_EQ(world.tcp->move(), MirrorMove::parked);
  const std::uint64_t delivered = world.delivered_bytes;
  const std::uint64_t answered = world.tcp->stats().packets_out, heard = world.tcp->stats().packets_in;
  world.run_until([] { return false; }, 30s);
  EXPECT_EQ(world.delivered_bytes, delivered);
  EXPECT_EQ(world.tcp->phase(), MirrorPhase::open);
  EXPECT_GT(world.tcp->stats().packets_in, heard); // probes came
  EXPECT_EQ(world.tcp->stats().packets_out - answered, world.tcp->stats().packets_in - heard);
  EXPECT_TRUE(world.fetch({ 3'000'000, 3'003'000 }));
}

TEST(MirrorTcp, WhatWasParkedForLongIsOfUseAgain)
{
  for (const Duration parked : { 60s, 230s })
  {
    World world { {} };
    begin(world);
    world.run_until([] { return false; }, parked);
    ASSERT_EQ(world.tcp->move(), MirrorMove::parked);
    EXPECT_TRUE(world.fetch({ 3'000'000, 3'003'000 }));
    EXPECT_EQ(world.tcp->phase(), MirrorPhase::open) << world.tcp->why();
  }
}

TEST(MirrorTcp, ADeadServerIsGivenUpThoughNobodyWantsAPieceForLong)
{
  World world { {} };
  begin(world);
  world.run_until([] { return false; }, 60s);
  world.lose_up = [](std::size_t, const Segment&) { return true; };
  const Tick since = world.now;
  while (world.tcp->phase() == MirrorPhase::open && world.now < since + 60s)
  {
    EXPECT_FALSE(world.fetch({ 3'000'000, 3'003'000 }, 2s));
    world.run_until([] { return false; }, 1s);
  }
  EXPECT_EQ(world.tcp->why(), "the mirror connection fell silent");
  EXPECT_GE(world.now - since, world.mirror().give_up);
  EXPECT_LT(world.now - since, world.mirror().give_up + 5s);
}

TEST(MirrorTcp, SeveralPiecesInOneSweep)
{
  World world { {} };
  begin(world);
  std::vector<Piece> pieces;
  for (std::uint64_t from = 1'000'000; from < 20'000'000; from += 1'300'000)
    pieces.push_back({ from, from + 1448 });
  pieces.push_back({ 5'000'000, 5'000'100 });
  for (const Piece& piece : pieces)
    ASSERT_TRUE(world.tcp->want(piece, world.now));
  EXPECT_TRUE(world.run_until(
      [&] { return std::all_of(pieces.begin(), pieces.end(), [&](const Piece& p) { return world.tcp->holds(p); }); }));
  for (const Piece& piece : pieces)
    EXPECT_EQ(world.tcp->read(piece), content(piece)) << piece.from;
}

TEST(MirrorTcp, APieceBehindIsRefusedUnlessItIsStillHere)
{
  World world { {} };
  begin(world);
  ASSERT_TRUE(world.fetch({ 5'000'000, 5'003'000 }));
  EXPECT_FALSE(world.tcp->want({ 1'000'000, 1'001'000 }, world.now));
  settle(world);
  // What came behind the piece, to show its loss.
  EXPECT_TRUE(world.tcp->want({ 5'003'100, 5'004'000 }, world.now));
}

TEST(MirrorTcp, ReorderingAndDuplicatesDoNoHarm)
{
  WorldConfig config;
  config.reorder = true;
  World world { config };
  begin(world);
  EXPECT_TRUE(world.fetch({ 2'000'000, 2'100'000 }));
  settle(world);
  const auto copy = content(Piece { 2'000'000, 2'001'448 });
  auto other = copy;
  other[7] ^= std::byte { 0xff };
  world.hand(world.injected(tcp_flag::ack, world.server_seq(2'000'000), other));
  EXPECT_EQ(world.tcp->read({ 2'000'000, 2'001'448 }), copy); // the first copy stays
  EXPECT_TRUE(world.fetch({ 2'500'000, 2'501'000 }));
}

TEST(MirrorTcp, ADuplicateIsReported)
{
  World world { {} };
  begin(world);
  ASSERT_TRUE(world.fetch({ 200'000, 203'000 }));
  settle(world);
  world.said();
  const auto copy = content(Piece { 200'000, 201'448 });
  world.hand(world.injected(tcp_flag::ack, world.server_seq(200'000), copy));
  // Parked: a bare answer; the report goes with the next acknowledgement.
  ASSERT_TRUE(world.tcp->want({ 210'000, 212'000 }, world.now));
  bool reported = false;
  for (const Segment& segment : world.said())
    for (const SackBlock& block : segment.sacks())
      reported = reported || block.left == world.server_seq(200'000);
  EXPECT_TRUE(reported);
}

TEST(MirrorTcp, OnlyAnExactResetEndsIt)
{
  World world { {} };
  begin(world);
  settle(world);
  const Seq exact = world.server_seq(world.tcp->position());
  world.hand(world.injected(tcp_flag::rst, exact + 40));
  EXPECT_EQ(world.tcp->phase(), MirrorPhase::open);
  ASSERT_EQ(world.said().size(), 1u); // a challenge ACK (RFC 5961)
  world.hand(world.injected(tcp_flag::rst, exact + 1'000'000'000));
  world.hand(world.injected(tcp_flag::rst, exact - 4000));
  EXPECT_EQ(world.tcp->phase(), MirrorPhase::open);
  EXPECT_EQ(world.said().size(), 0u);
  world.hand(world.injected(tcp_flag::rst, exact));
  EXPECT_EQ(world.tcp->phase(), MirrorPhase::closed);
  EXPECT_EQ(world.tcp->why(), "the server reset the mirror connection");
}

TEST(MirrorTcp, HostileSegmentsAreRefusedAndChallengesAreFew)
{
  World world { {} };
  begin(world);
  settle(world);
  const Seq next = world.server_seq(world.tcp->position());
  const Seq ours = world.mirror().initial_sequence + 1;
  const auto payload = content(Piece { 0, 1000 });
  for (int i = 0; i < 1000; ++i)
  {
    world.hand(world.injected(tcp_flag::syn, next));
    world.hand(world.injected(tcp_flag::ack, next, payload, ours + 100000));     // acknowledges what was not sent
    world.hand(world.injected(tcp_flag::ack, next, payload, ours - 200000));     // far too old
    world.hand(world.injected(tcp_flag::ack, next + 100'000'000, payload));      // outside the window
    world.hand(world.injected(0, next, payload));                                // no ACK
    world.hand(world.injected(tcp_flag::ack, next, payload, {}, TsClock { 5 })); // PAWS
  }
  EXPECT_EQ(world.tcp->phase(), MirrorPhase::open);
  EXPECT_GE(world.tcp->stats().refused, 5000u);
  EXPECT_LE(world.said().size(), 50u);
  EXPECT_TRUE(world.fetch({ 100'000, 101'000 }));
}

// Whoever sees neither number nor clock has half of all clocks, and would have half of all numbers.
TEST(MirrorTcp, ABlindSenderMustKnowTheWindowToHaveItsClockKept)
{
  World world { {} };
  begin(world);
  settle(world);
  const Seq next = world.server_seq(world.tcp->position());
  const TsClock ahead { static_cast<std::uint32_t>(world.now.time_since_epoch() / 1ms) + 1'000'000'000 };
  for (const std::uint32_t behind : { 9u << 20, 1u << 30, 0x7fff'0000u })
    world.hand(world.injected(tcp_flag::ack, next - behind, content(Piece { 0, 1000 }), {}, ahead));
  EXPECT_EQ(world.tcp->stats().refused, 3u);
  EXPECT_EQ(world.said().size(), 3u) << "each is answered by a challenge ACK";
  EXPECT_TRUE(world.fetch({ 100'000, 101'000 }));
}

TEST(MirrorTcp, AnOldDuplicateDoesNotFillAWantedPiece)
{
  World world { {} };
  begin(world);
  settle(world);
  const std::uint64_t at = world.tcp->position();
  ASSERT_TRUE(world.tcp->want({ at, at + 1000 }, world.now));
  auto wrong = content(Piece { at, at + 1000 });
  wrong[500] ^= std::byte { 1 };
  world.hand(
      world.injected(tcp_flag::ack, world.server_seq(at), wrong, {}, TsClock { 5 })); // RFC 7323 5: older than seen
  EXPECT_FALSE(world.tcp->holds({ at, at + 1000 }));
  EXPECT_TRUE(world.fetch({ at, at + 1000 }));
}

TEST(MirrorTcp, AServerThatSuddenlySendsLessIsStillFollowed)
{
  WorldConfig config;
  World world { config };
  begin(world);
  ASSERT_TRUE(world.fetch({ 8'000'000, 8'001'000 }));
  ASSERT_TRUE(world.tcp->want({ 14'000'000, 14'001'000 }, world.now));
  world.said();
  world.slow_down(60'000);
  const Tick since = world.now;
  ASSERT_TRUE(world.run_until([&] { return world.tcp->holds({ 14'000'000, 14'001'000 }); }, 60s));
  EXPECT_GT(world.tcp->stats().stalls, 0u);
  EXPECT_GT(world.unsent_acks, 0u);
  // 60 kB a round trip of 80 ms are 8 s for the whole way.
  EXPECT_LT(world.now - since, 20s);
}

TEST(MirrorTcp, ACloseIsTakenWhenNothingIsWanted)
{
  World world { {} };
  begin(world);
  settle(world);
  world.hand(world.injected(tcp_flag::ack | tcp_flag::fin, world.server_seq(world.tcp->position())));
  EXPECT_EQ(world.tcp->phase(), MirrorPhase::closed);
  EXPECT_EQ(world.tcp->why(), "the server closed the mirror connection");
  EXPECT_TRUE(world.tcp->end().has_value());
  const auto said = world.said();
  ASSERT_FALSE(said.empty());
  EXPECT_TRUE(said.back().has(tcp_flag::rst));
}

TEST(MirrorTcp, AbortSendsAResetThatTheServerAccepts)
{
  World world { {} };
  begin(world);
  settle(world);
  world.tcp->abort();
  const auto said = world.said();
  ASSERT_EQ(said.size(), 1u);
  EXPECT_TRUE(said[0].has(tcp_flag::rst));
  EXPECT_EQ(said[0].seq, world.mirror().initial_sequence + 1 + 18); // behind the request
}

TEST(MirrorTcp, RandomLossBothWaysAndRandomPieces)
{
  for (unsigned seed = 1; seed <= 12; ++seed)
  {
    WorldConfig config;
    config.queue = seed % 2 ? 60 : 300;
    config.rate = seed % 3 ? 30_mbps : 3_mbps;
    config.server_limit = seed % 4 ? 3'000'000 : 200'000;
    World world { config };
    std::mt19937 random { seed };
    const unsigned one_in = seed % 5 ? 100 : 20;
    world.lose_down = [&](std::size_t, const Segment&) { return random() % one_in == 0; };
    world.lose_up = world.lose_down;
    world.open();
    ASSERT_TRUE(world.fetch({ 0, 300 }));
    std::uint64_t from = 0;
    for (int i = 0; i < 8; ++i)
    {
      from += 1000 + random() % 3'000'000;
      EXPECT_TRUE(world.fetch({ from, from + 1 + random() % 5000 }, 300s)) << "seed " << seed << " piece " << i;
      from = std::max(from, world.tcp->position());
    }
  }
}

} // namespace
} // namespace tandem::fetch
