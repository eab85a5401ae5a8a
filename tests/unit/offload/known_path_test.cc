// By cellular on another flow's word, and what becomes of a word that is wrong.
#include "tests/unit/offload/session.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

namespace tandem::offload
{
namespace
{

using namespace test;

constexpr std::string_view on_word = "offload: path known from another flow";
constexpr std::string_view no_echo = "offload: no echo on a path known from another flow";

struct Known : Session
{
  explicit Known(Duration added = {}, Peers with = {}, chain::Chain::Options options = unlimited())
      : Session { with, options }
  {
    view().cell_path_known = added;
  }
  FlowView& view() { return fixture.flow(peers).view; }
  std::size_t told(CellPath::Is what) const
  {
    return static_cast<std::size_t>(std::count_if(fixture.actions.paths.begin(), fixture.actions.paths.end(),
                                                  [what](const auto& one) { return one.path.is == what; }));
  }
  // How long after its first data a flow's first ACK was taken by cellular.
  Duration first_by_cell()
  {
    const Tick begin = fixture.now();
    for (int i = 0; i < 5000; ++i)
    {
      peers.window = static_cast<std::uint16_t>(500 + i % 2); // as a young flow's does, it never stands still
      step();
      if (left.back().by == Link::cell && !left.back().injected) return fixture.now() - begin;
    }
    return Duration::max();
  }
};

TEST(OffloadKnownPath, NoCopyIsSentAndNoWindowWaitedFor)
{
  Known known {}, unknown {};
  unknown.view().cell_path_known.reset();
  EXPECT_LT(known.first_by_cell(), ms(400));
  EXPECT_GT(unknown.first_by_cell(), ms(3000));
  known.steps(500);
  EXPECT_EQ(known.fixture.count("offload: probe begins"), 0u);
  EXPECT_EQ(known.fixture.actions.injected.size(), known.fixture.chain.stats().own_way_told);
  EXPECT_EQ(known.phase(), Phase::by_cell);
  EXPECT_FALSE(known.state().on_word) << "its own echoes say so now";
  EXPECT_EQ(known.state().why, on_word);
  EXPECT_EQ(known.server.rejected, 0u);
  EXPECT_EQ(known.fixture.violations(), 0u);
}

TEST(OffloadKnownPath, TheFirstOddTsvalIsYoungerThanWhateverLeftByWifi)
{
  for (const std::uint32_t clock : { 1'000'000u, 1'000'001u, 0u - 300u })
  {
    Peers peers {};
    peers.local_clock = TsClock { clock };
    Known s { {}, peers };
    ASSERT_TRUE(s.until(on_word));
    TsClock by_wifi = s.left.back().value;
    s.steps(50);
    for (const Left& one : s.left)
      if (one.by == Link::cell)
        EXPECT_TRUE(one.value.at_or_after(by_wifi));
      else
        by_wifi = one.value;
    EXPECT_EQ(s.server.rejected, 0u);
    EXPECT_EQ(s.phase(), Phase::by_cell);
  }
}

TEST(OffloadKnownPath, EverythingElseIsWaitedForAsEver)
{
  Known small {};
  small.length = 1000;
  small.steps(500);
  EXPECT_EQ(small.fixture.count(on_word), 0u);
  EXPECT_GT(small.fixture.count("offload: window below threshold"), 0u);
  Known failed {};
  failed.view().cell_path_failed = true;
  failed.steps(500);
  EXPECT_EQ(failed.fixture.count(on_word), 0u);
  Known other {};
  other.view().sender.kind = SenderKind::unresponsive;
  other.steps(500);
  EXPECT_EQ(other.fixture.count(on_word), 0u);
}

TEST(OffloadKnownPath, ADelayThatDoesNotFitIsMeasuredAnewAfterAWhile)
{
  Known s { ms(30) };
  s.steps(2900);
  EXPECT_EQ(s.fixture.count("offload: probe begins"), 0u) << "a probe would find the same";
  EXPECT_EQ(s.state().why, "offload: known path adds more than the queue");
  EXPECT_TRUE(s.until("offload: path validated")) << "it was an old one";
  EXPECT_EQ(s.fixture.count(on_word), 0u);
  s.steps(100);
  EXPECT_LT(seconds(*s.fixture.actions.paths.back().path.added_delay), 0.004);
}

TEST(OffloadKnownPath, ADelayThatDoesNotFitDoesSoOnceTheQueueHasGrown)
{
  Known s { ms(20) };
  s.cell().delay = ms(30);
  s.steps(800);
  EXPECT_EQ(s.phase(), Phase::by_wifi);
  s.peers.downlink = ms(60);
  EXPECT_TRUE(s.until(on_word, 1500));
  EXPECT_EQ(s.fixture.count("offload: probe begins"), 0u);
  s.steps(300);
  EXPECT_EQ(s.phase(), Phase::by_cell);
}

TEST(OffloadKnownPath, ADelayThatIsLongerNowIsFoundAfterARound)
{
  Known s {};
  s.cell().delay = ms(30);
  ASSERT_TRUE(s.until(on_word));
  ASSERT_TRUE(s.until("offload: added delay costs more than it saves", 200));
  EXPECT_EQ(s.phase(), Phase::by_wifi);
  ASSERT_EQ(s.told(CellPath::Is::validated), 1u);
  EXPECT_NEAR(seconds(*s.fixture.actions.paths.back().path.added_delay), 0.020, 0.004) << "for those who come";
  EXPECT_EQ(s.told(CellPath::Is::doubted), 0u);
}

TEST(OffloadKnownPath, WhatAFlowMeasuredIsHandedOnByItsOwnValidation)
{
  Session s {};
  s.module.set("added_delay_free", 1);
  s.cell().delay = ms(30);
  ASSERT_TRUE(s.until("offload: path validated"));
  s.steps(300);
  ASSERT_EQ(s.fixture.actions.paths.size(), 2u) << "that it works, then the delay of a round";
  EXPECT_FALSE(s.fixture.actions.paths[0].path.added_delay) << "a lower bound is no measure for others";
  EXPECT_NEAR(seconds(*s.fixture.actions.paths[1].path.added_delay), 0.020, 0.004);
}

TEST(OffloadKnownPath, WhatStandsInTheUplinksQueueAtTheMoveIsNoPartOfTheWay)
{
  Session s {};
  s.module.set("added_delay_free", 1);
  s.module.set("window_mss", 10'000); // not yet
  s.steps(200);
  s.wifi().delay = s.wifi().delay + ms(15); // ACKs wait for the air
  s.steps(200);
  s.cell().delay = ms(30);
  s.module.set("window_mss", 20);
  ASSERT_TRUE(s.until("offload: path validated"));
  s.steps(300);
  EXPECT_NEAR(s.state().added_delay, 0.020, 0.004);
  ASSERT_EQ(s.fixture.actions.paths.size(), 2u);
  EXPECT_NEAR(seconds(*s.fixture.actions.paths[1].path.added_delay), 0.020, 0.004);
}

// ---- a word that is wrong ----

TEST(OffloadKnownPath, WhileDataArrivesAWrongWordEndsAfterARoundTripAndAMargin)
{
  Known s {};
  s.cell().delivers = false;
  ASSERT_TRUE(s.until(on_word));
  const Tick begin = s.fixture.now();
  const Duration rtt = s.view().rtt_smoothed;
  ASSERT_TRUE(s.until(no_echo));
  EXPECT_LE(s.fixture.now() - begin, rtt + ms(104)) << "however much arrives meanwhile";
  EXPECT_EQ(s.left.back().by, Link::wifi);
  EXPECT_EQ(s.left.back().ack, s.acked);
  EXPECT_EQ(s.told(CellPath::Is::doubted), 1u);

  // It still says so, and is not asked: this flow finds out by itself.
  ASSERT_TRUE(s.until("offload: path not validated (filtered, NAT or too slow)"));
  EXPECT_EQ(s.fixture.count(on_word), 1u);
  s.cell().delivers = true;
  s.state().retry_at = s.fixture.now();
  ASSERT_TRUE(s.until("offload: path validated"));
  EXPECT_FALSE(s.state().distrusts);
}

TEST(OffloadKnownPath, WhenTheServerWaitsTheNewestAckIsByWifiBeforeItsTimer)
{
  Known s {};
  s.cell().delivers = false;
  ASSERT_TRUE(s.until(on_word));
  s.steps(20); // the window is full now
  const Tick first = s.state().since;
  const Duration rtt = s.view().rtt_smoothed;
  s.wait(ms(300));
  ASSERT_EQ(s.fixture.count(no_echo), 1u);
  EXPECT_LE(s.left.back().at - first, rtt + ms(101));
  EXPECT_EQ(s.left.back().by, Link::wifi);
  EXPECT_EQ(s.left.back().ack, s.acked);
  EXPECT_EQ(s.told(CellPath::Is::doubted), 1u);
}

TEST(OffloadKnownPath, WhatWasNotUsedCostsNothing)
{
  Known s {};
  s.cell().delivers = false;
  ASSERT_TRUE(s.until(on_word));
  const std::size_t before = s.left.size();
  s.wait(ms(2000)); // the server has nothing more to send
  EXPECT_EQ(s.left.size(), before);
  EXPECT_EQ(s.told(CellPath::Is::doubted), 0u);
  s.cell().delivers = true;
  s.steps(300); // and now it has
  EXPECT_EQ(s.fixture.count(no_echo), 0u);
  EXPECT_EQ(s.phase(), Phase::by_cell);
}

// A NAT that nobody knows of may deliver the server's RST, which has the number of the ACK that drew it. While a hole
// stands the core lets nothing be withheld (decision 0015), not even the two bytes that take it out of the window.
TEST(OffloadKnownPath, NothingThatAnRstCouldMatchLeavesThatWayBeforeTheFirstEcho)
{
  for (const bool lost_first : { true, false })
  {
    Known s { {}, {}, {} };
    s.cell().delivers = false;
    ASSERT_TRUE(s.until(on_word));
    if (!lost_first) s.steps(3);
    const std::size_t before = s.left.size();
    s.wait(s.every); // one segment is lost, three behind it arrive
    for (std::uint32_t held = 1; held <= 3; ++held)
    {
      Segment shows = s.peers.ack(s.fixture.now());
      shows.options |= option::sack;
      const Seq beyond = shows.ack + s.peers.mss;
      shows.sack_blocks[shows.sack_count++] = { beyond, beyond + held * s.peers.mss };
      const chain::Outcome outcome = s.ack(shows);
      EXPECT_EQ(outcome.verdict, Verdict::pass);
      EXPECT_FALSE(outcome.edit.ack) << "the ACK that shows a hole leaves as it is";
      s.wait(ms(1));
    }
    s.peers.received += 4 * s.peers.mss; // filled
    s.ack();
    s.steps(3);
    ASSERT_GT(s.left.size(), before);
    for (const Left& one : s.left)
      EXPECT_TRUE(one.by == Link::wifi || one.lacks >= PathValidation::lag) << one.why << " lacks " << one.lacks;
    EXPECT_EQ(s.fixture.violations(), 0u);
  }
}

TEST(OffloadKnownPath, UploadDataMakesItNoLie)
{
  Known s {};
  ASSERT_TRUE(s.until(on_word));
  s.steps(5);
  s.peers.next += 500; // by Wi-Fi with the kernel's own TSval, and the newest ACK
  s.step();
  EXPECT_EQ(s.fixture.count("offload: first echo spoiled by upload data"), 1u);
  EXPECT_EQ(s.phase(), Phase::by_wifi);
  EXPECT_EQ(s.told(CellPath::Is::doubted), 0u);
  EXPECT_TRUE(s.until(on_word, 300)) << "again soon";
}

TEST(OffloadKnownPath, WithoutItsTsvalsNoAckLeavesThatWay)
{
  Known s {};
  ASSERT_TRUE(s.until(on_word));
  s.view().ts_reserved = {}; // another module was faster
  const chain::Outcome next = s.step();
  EXPECT_TRUE(next.edit.empty());
  EXPECT_EQ(s.phase(), Phase::by_wifi);
  EXPECT_EQ(s.told(CellPath::Is::doubted), 0u);
  EXPECT_TRUE(s.until(on_word, 300)) << "again soon";
}

TEST(OffloadKnownPath, APathThatDiesLaterIsDoubtedForOthers)
{
  Session s {};
  ASSERT_TRUE(s.until("offload: path validated"));
  s.steps(100);
  s.cell().delivers = false;
  s.fixture.actions.paths.clear();
  ASSERT_TRUE(s.until("offload: path validation lost"));
  ASSERT_EQ(s.fixture.actions.paths.size(), 1u);
  EXPECT_EQ(s.fixture.actions.paths[0].path.is, CellPath::Is::doubted);
  s.fixture.flow(s.peers).view.cell_path_known = Duration {};
  s.steps(3000);
  EXPECT_EQ(s.fixture.count(on_word), 0u) << "this flow validates by itself first";
}

TEST(OffloadKnownPath, ASilentServerIsNoDoubtOnceItHasEchoed)
{
  Known s {};
  ASSERT_TRUE(s.until(on_word));
  s.steps(300);
  s.wait(ms(1000));
  EXPECT_EQ(s.fixture.count("offload: silence, back to Wi-Fi"), 1u);
  EXPECT_EQ(s.told(CellPath::Is::doubted), 0u);
}

} // namespace
} // namespace tandem::offload
