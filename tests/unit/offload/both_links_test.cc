// ACKs by Wi-Fi that leave by cellular as well, where that is too slow to be the only way.
#include "tests/unit/offload/session.h"

#include <gtest/gtest.h>

namespace tandem::offload
{
namespace
{

using namespace test;

constexpr std::string_view copied = "offload: by cellular as well";
constexpr std::string_view declined = "offload: added delay costs more than it saves";

// A flow that has found its cellular path, 20 ms slower than Wi-Fi, too slow.
struct Declined : Session
{
  Declined()
  {
    module.set("probe_copies", 1);
    cell().delay = ms(30);
    EXPECT_TRUE(until(declined));
    steps(600); // the back-off is over
  }
  std::uint64_t copies() const { return fixture.count(copied); }
};

TEST(OffloadBothLinks, NothingIsCopiedWhileWiFiIsInTime)
{
  Declined s {};
  s.steps(2000);
  EXPECT_EQ(s.copies(), 0u);
  s.wait_for_air(ms(7));
  s.steps(100);
  EXPECT_EQ(s.copies(), 0u) << "not half as late as a copy";
}

TEST(OffloadBothLinks, OnceWiFiIsLateForTwoSeconds)
{
  Declined s {};
  s.wait_for_air(ms(40));
  s.steps(900);
  const std::uint64_t first = s.copies();
  EXPECT_GT(first, 100u);
  EXPECT_LT(first, 500u) << "not of every ACK, eight in a round trip";
  s.steps(2000);
  const std::uint64_t then = s.copies();
  s.steps(1000);
  EXPECT_EQ(s.copies(), then) << "and no longer";
  EXPECT_EQ(s.phase(), Phase::by_wifi);
  EXPECT_EQ(s.fixture.violations(), 0u);
}

// A clock of milliseconds in 32 bits says after 25 days that what is old is still to come.
TEST(OffloadBothLinks, OnceWiFiWasLateDoesNotComeBackAfterWeeks)
{
  Declined s {};
  s.wait_for_air(ms(40));
  s.steps(3000);
  const std::uint64_t then = s.copies();
  ASSERT_GT(then, 100u);
  s.state().late_at = s.state().late_at - (std::uint32_t { 1 } << 31);
  s.steps(1000);
  EXPECT_EQ(s.copies(), then);
}

// The connection goes to another machine behind a load balancer, and its TSval leaps. No ACK is late by that.
TEST(OffloadBothLinks, AServerWhoseClockLeapsDoesNotMakeWiFiLate)
{
  for (const std::uint32_t leap : { 5'000u, 2'000'000'000u, 0u - 5'000u, 0u - 2'000'000'000u })
  {
    Declined s {};
    s.peers.remote_clock = s.peers.remote_clock + leap;
    s.steps(2000);
    EXPECT_EQ(s.copies(), 0u) << leap;
    s.wait_for_air(ms(40));
    s.steps(300);
    EXPECT_GT(s.copies(), 50u) << leap << ": what is late is seen as ever";
  }
}

TEST(OffloadBothLinks, NorMakesItASlowPathOfAnotherOne)
{
  Session s {};
  ASSERT_TRUE(s.until("offload: path validated"));
  s.steps(500);
  s.peers.remote_clock = s.peers.remote_clock + 5'000u;
  s.steps(3000);
  EXPECT_EQ(s.phase(), Phase::by_cell);
  EXPECT_EQ(s.state().stretch, 1) << "nor a thin uplink";
}

TEST(OffloadBothLinks, AnotherFlowsWordIsEnough)
{
  Session s {};
  s.cell().delay = ms(30);
  auto& known = s.fixture.flow(s.peers).view.cell_path_known;
  known = ms(20);
  s.steps(600);
  s.wait_for_air(ms(40));
  s.steps(300);
  EXPECT_GT(s.fixture.count(copied), 50u);
  EXPECT_EQ(s.fixture.count("offload: probe begins"), 0u);
  known.reset();
  const std::uint64_t before = s.fixture.count(copied);
  s.steps(100);
  EXPECT_EQ(s.fixture.count(copied), before) << "somebody has found that the path is gone";
}

TEST(OffloadBothLinks, TheServerIsToldByTheFasterOne)
{
  Declined s {};
  s.wait_for_air(ms(40));
  s.wifi().delay = ms(200);
  const Seq before = s.server.acknowledged;
  s.steps(100);
  s.server.echo(s.fixture.now());
  EXPECT_GT(s.server.acknowledged - before, 50 * 2896) << "after 100 ms nothing of them has come by Wi-Fi";
}

TEST(OffloadBothLinks, ACopyTellsNothingThatHasNotLeftByWiFi)
{
  Declined s {};
  s.wait_for_air(ms(40));
  s.steps(500);
  Seq told = s.left.front().ack;
  TsClock newest = s.left.front().value;
  std::uint64_t seen = 0;
  for (const Left& one : s.left)
    if (one.why == copied && one.injected)
    {
      ++seen;
      EXPECT_EQ(one.by, Link::cell);
      EXPECT_FALSE(one.ack.after(told));
      EXPECT_FALSE(one.value.after(newest));
      EXPECT_GE(one.lacks, PathValidation::lag) << "or a NAT that begins later could have the connection reset";
    }
    else
    {
      told = later(told, one.ack);
      newest = one.value.after(newest) ? one.value : newest;
    }
  EXPECT_GT(seen, 50u);
}

TEST(OffloadBothLinks, OnlyForSendersThatAnswerABurstWithOne)
{
  for (const SenderKind kind :
       { SenderKind::unknown, SenderKind::loss_based, SenderKind::rate_based, SenderKind::unresponsive })
  {
    Declined s {};
    s.fixture.flow(s.peers).view.sender.kind = kind;
    s.module.set("window_mss", 10'000); // and no other move
    s.wait_for_air(ms(40));
    s.steps(500);
    EXPECT_EQ(s.copies() > 0, kind == SenderKind::unknown || kind == SenderKind::loss_based) << name(kind);
  }
}

TEST(OffloadBothLinks, NotWhereTheyWouldDoNoGood)
{
  Declined s {};
  s.wait_for_air(ms(40));
  s.steps(100);
  const std::uint64_t before = s.copies();
  ASSERT_GT(before, 0u);
  for (int i = 0; i < 50; ++i)
  {
    s.wait(s.every);
    Segment hole = s.peers.ack(s.fixture.now());
    report_hole(hole);
    s.ack(hole);
  }
  EXPECT_EQ(s.copies(), before);
  const auto ends_when = [](std::string_view why, auto happens)
  {
    Declined flow {};
    flow.wait_for_air(ms(40));
    happens(flow);
    const std::uint64_t then = flow.copies();
    flow.steps(200);
    EXPECT_EQ(flow.copies(), then) << why;
  };
  ends_when("they would queue there", [](Declined& flow) { flow.state().thin_uplink = true; });
  ends_when("another link may be its own", [](Declined& flow) { flow.fixture.flow(flow.peers).view.mptcp = true; });
  ends_when("there is no link",
            [](Declined& flow)
            {
              flow.fixture.links[static_cast<std::size_t>(Link::cell)].up = false;
              flow.fixture.chain.links(flow.fixture.links, flow.fixture.now());
            });
}

} // namespace
} // namespace tandem::offload
