// What freeze says of the access point at the end of a blackout, and what it does when others have said it.
#include "modules/freeze/combined.h"
#include "modules/freeze/proactive_freeze.h"
#include "modules/freeze/resume_acks.h"
#include "tests/unit/freeze/download.h"

#include <gtest/gtest.h>

#include <optional>

namespace tandem::freeze
{
namespace
{

using namespace std::chrono_literals;

// A download over 40 ms. Its server's clock has 1 kHz and shows 10'000 as the link goes.
struct Blackout : ::testing::Test
{
  Blackout()
  {
    flow.link = Link::wifi;
    flow.rcv_nxt = { 20'000 };
    flow.local_window_scale = 7;
    flow.sent_ack = { 20'000 };
    links[0].up = true;
  }
  Plan ack(std::uint32_t more, std::uint32_t echo)
  {
    Segment segment { .flags = tcp_flag::ack, .window = 60'000 };
    segment.ack = flow.rcv_nxt + more;
    segment.timestamps = Timestamps { { 1 }, { echo } };
    flow.rcv_nxt = segment.ack;
    flow.ts_recent = { echo };
    const Plan plan =
        strategy.decide({ .now = now, .segment = &segment, .queued = true, .links = &links }, flow, state);
    if (plan.verdict == Verdict::pass) flow.sent_ack = plan.edit.ack.value_or(segment.ack);
    return plan;
  }
  Plan link(bool up)
  {
    links[0].up = up;
    return strategy.decide({ .kind = EventKind::link, .now = now, .links = &links }, flow, state);
  }
  Plan alarm() { return strategy.decide({ .kind = EventKind::alarm, .now = now, .links = &links }, flow, state); }
  // So much that something is withheld if it ever is, in no recovery.
  bool withholds()
  {
    now += 1100ms;
    bool lowered = false;
    for (int i = 0; i < 60; ++i)
    {
      now += 1ms;
      const Plan plan = ack(2 * 1448, 10'000);
      lowered = lowered || plan.edit.ack || plan.verdict == Verdict::drop;
    }
    return lowered;
  }
  Plan two_seconds_away()
  {
    now += 1ms;
    link(false);
    now += 2s;
    return link(true);
  }

  ResumeAcks strategy {};
  BlackoutState state {};
  FlowView flow = a_download(8);
  LinkStates links {};
  Tick now { 10s };
};

// As `tandem flows` shows it.
struct Why final : Facts
{
  void add(std::string_view key, std::string_view value) override
  {
    if (key == "why") why = value;
  }
  void add(std::string_view, double, std::string_view) override {}
  std::string why {};
};

TEST_F(Blackout, ALongDownloadIsNotCalledAYoungFlow)
{
  withholds();
  Why facts {};
  strategy.describe(flow, state, facts);
  EXPECT_EQ(facts.why, "freeze: no blackout yet");
}

TEST_F(Blackout, AFlowThatGoesOnAfterAResetIsNotCalledReset)
{
  withholds();
  Segment reset { .direction = Direction::ingress, .flags = tcp_flag::rst };
  reset.seq = flow.rcv_nxt + 1000;
  strategy.decide({ .now = now, .segment = &reset, .links = &links }, flow, state);
  Why facts {};
  strategy.describe(flow, state, facts);
  EXPECT_EQ(facts.why, "freeze: reset");
  ack(0, 10'000); // RFC 5961 3.2
  strategy.describe(flow, state, facts);
  EXPECT_EQ(facts.why, "freeze: a reset that TCP did not take");
}

TEST(FreezeProactive, AWindowThatWasOpenedAgainIsNotCalledClosed)
{
  ProactiveFreeze strategy {};
  ProactiveFreeze::State state {};
  FlowView flow = a_download(8);
  flow.link = Link::wifi;
  LinkStates links {};
  Tick now { 10s };
  state.progress_at = now;
  links[0].up = true;
  const auto risk = [&](bool at_risk)
  {
    links[0].at_risk = at_risk;
    return strategy.decide({ .kind = EventKind::link, .now = now, .links = &links }, flow, state);
  };
  ASSERT_FALSE(risk(true).inject.empty());
  now += 200ms;
  ASSERT_FALSE(risk(false).inject.empty());
  now += 200ms;
  strategy.decide({ .kind = EventKind::alarm, .now = now, .links = &links }, flow, state);
  Why facts {};
  strategy.describe(flow, state, facts);
  EXPECT_EQ(facts.why, "freeze: warning withdrawn, window reopens");
}

TEST_F(Blackout, FramesThatWereKeptAreToldOnce)
{
  EXPECT_TRUE(withholds());
  EXPECT_FALSE(two_seconds_away().inject.empty());
  now += 2ms;
  EXPECT_EQ(ack(1448, 10'001).frames_kept, true);
  now += 1ms;
  EXPECT_FALSE(ack(1448, 10'002).frames_kept);
}

TEST_F(Blackout, WhatMayBeAnAnswerIsNotToldToOthers)
{
  withholds();
  two_seconds_away();
  now += 45ms; // by a clock of 1 Hz it may have been sent just now
  EXPECT_FALSE(ack(1448, 10'002).frames_kept);
}

TEST_F(Blackout, AnAnswerAloneSaysThatNothingWasKept)
{
  withholds();
  two_seconds_away();
  now += 45ms;
  EXPECT_EQ(ack(1448, 12'040).frames_kept, false);
}

// Of 100 Hz, as Linux had it where a jiffy was that long; of 250 Hz; and of 2 Hz, as in NetBSD.
TEST_F(Blackout, AnAnswerByASlowClockIsNotTakenForAFrameThatWasKept)
{
  for (const std::uint32_t tick : { 4u, 10u, 500u }) // ms
  {
    state = {};
    const auto clock = [&] { return 10'000 + static_cast<std::uint32_t>((now - Tick { 10s }) / 1ms) / tick; };
    const auto download = [&]
    {
      bool lowered = false;
      for (int i = 0; i < 3000; ++i)
      {
        now += 1ms;
        const Plan plan = ack(2 * 1448, clock());
        lowered = lowered || plan.edit.ack || plan.verdict == Verdict::drop;
      }
      return lowered;
    };
    ASSERT_TRUE(download()) << tick;
    two_seconds_away();
    now += 2ms; // the server's timer found the link back
    EXPECT_NE(ack(1448, clock()).frames_kept, true) << tick;
    EXPECT_TRUE(download()) << tick << ": nothing is withheld any more";
    const std::uint32_t gone = clock();
    two_seconds_away();
    now += 2ms;
    EXPECT_EQ(ack(1448, gone).frames_kept, true) << tick;
  }
}

// Nothing is withheld of it, but it is looked at.
TEST(FreezeAccessPoint, NorIsThatOfAFlowThatItsReceiveWindowLimits)
{
  Combined combined {};
  Combined::State state {};
  FlowView flow = a_download(8);
  flow.link = Link::wifi;
  LinkStates links {};
  links[0].up = true;
  Tick now { 10s };
  const auto ack = [&]
  {
    Segment segment { .flags = tcp_flag::ack, .window = 60'000 };
    segment.ack = flow.rcv_nxt = flow.rcv_nxt + 2 * 1448;
    flow.ts_recent = { static_cast<std::uint32_t>((now - Tick {}) / 10ms) };
    segment.timestamps = Timestamps { { 1 }, flow.ts_recent };
    flow.sent_ack = segment.ack;
    return combined.decide({ .now = now, .segment = &segment, .queued = true, .links = &links }, flow, state);
  };
  for (int i = 0; i < 3000; ++i)
  {
    now += 1ms;
    ASSERT_TRUE(ack().edit.empty());
  }
  for (const bool up : { false, true })
  {
    now += up ? 2s : 1ms;
    links[0].up = up;
    combined.decide({ .kind = EventKind::link, .now = now, .links = &links }, flow, state);
  }
  now += 2ms;
  EXPECT_NE(ack().frames_kept, true);
}

TEST_F(Blackout, AFlowOfAnAccessPointThatIsKnownToKeepFramesDoesNothing)
{
  links[0].keeps_frames = true;
  EXPECT_FALSE(withholds());
  const Plan plan = two_seconds_away();
  EXPECT_TRUE(plan.inject.empty());
  EXPECT_EQ(plan.wake, now + 50ms) << "behind other flows' frames";
  now += 2ms;
  EXPECT_EQ(ack(1448, 10'001).frames_kept, true);
  EXPECT_TRUE(alarm().inject.empty());
}

TEST_F(Blackout, WaitsInVainOnceAndSaysSo)
{
  links[0].keeps_frames = true;
  withholds();
  Plan plan = two_seconds_away();
  now = *plan.wake;
  plan = alarm();
  EXPECT_EQ(plan.frames_kept, false);
  EXPECT_FALSE(plan.inject.empty());
  links[0].keeps_frames = false; // as the core says then
  now += 45ms;
  ack(1448, 12'040);
  EXPECT_TRUE(withholds());
}

TEST_F(Blackout, OfAnotherAccessPointTheFlowsOwnExperienceSaysNothing)
{
  withholds();
  two_seconds_away();
  now += 2ms;
  EXPECT_EQ(ack(1448, 10'001).frames_kept, true);
  EXPECT_FALSE(withholds()) << "nobody knows which access point it is: it goes by its own";
  links[0].keeps_frames = false;
  EXPECT_TRUE(withholds());
  EXPECT_FALSE(two_seconds_away().inject.empty());
}

TEST_F(Blackout, AFlowThatGoesByItsOwnExperienceWaitsShorter)
{
  withholds();
  two_seconds_away();
  now += 2ms;
  ack(1448, 10'001);
  withholds();
  const Plan plan = two_seconds_away();
  EXPECT_EQ(plan.wake, now + 10ms) << "a quarter of a round trip";
}

TEST_F(Blackout, WithAClosedWindowNothingWasOnTheWay)
{
  for (const bool closed : { false, true })
  {
    withholds();
    state.window_closed = closed;
    two_seconds_away();
    now += 45ms;
    EXPECT_EQ(ack(1448, 12'040).frames_kept.has_value(), !closed);
  }
}

TEST_F(Blackout, FlowsThatHadNothingOnTheWaySayNothingOfFramesThatDidNotCome)
{
  links[0].keeps_frames = true;
  withholds();
  now += 3s; // the flow pauses
  const Plan plan = two_seconds_away();
  EXPECT_FALSE(plan.frames_kept);
  now += 45ms;
  EXPECT_FALSE(ack(1448, 15'040).frames_kept);
}

} // namespace
} // namespace tandem::freeze
