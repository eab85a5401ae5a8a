#include "modules/mirror/evidence.h"

#include <gtest/gtest.h>

#include <initializer_list>

namespace tandem::mirror
{
namespace
{

// One hole of one segment, 50 ms away, the queue at `part` of the 60 ms that it was seen to hold.
Evidence at(double part)
{
  return { .timed = true,
           .timestamps = true,
           .queued = part * 0.06,
           .top = 0.06,
           .rtt_min = 0.05,
           .recent = 0.06,
           .lost = 1448,
           .span = 60'000,
           .holes = 1 };
}

double score(const Evidence& e)
{
  return judge(e).congestion;
}

template <class Change>
double score(double part, Change change)
{
  Evidence e = at(part);
  change(e);
  return score(e);
}

TEST(Evidence, NothingKnownIsCongestion)
{
  EXPECT_EQ(score({}), 1);
  EXPECT_EQ(judge({}).why, Weight::none);
  EXPECT_EQ(judge({ .lost = 1448, .span = 60'000, .holes = 1 }).congestion, 1);
}

TEST(Evidence, AYoungFlowIsUndecided)
{
  const Score young = judge({ .timestamps = true, .lost = 1448, .span = 60'000, .holes = 1 });
  EXPECT_EQ(young.why, Weight::young);
  EXPECT_GT(young.congestion, 0);
  EXPECT_LT(young.congestion, 1);
}

TEST(Evidence, WhatOthersLoseCountsForOneThatKnowsLittle)
{
  Evidence e = at(0);
  e.others = true;
  EXPECT_EQ(judge(e).congestion, 1);
  EXPECT_EQ(judge(e).why, Weight::others);
  e.radio = true;
  e.damaged = 1;
  EXPECT_LT(judge(e).congestion, 0.85) << "but less than a damaged frame";
  e = at(0);
  e.others = e.steered = true;
  EXPECT_LT(judge(e).congestion, 0.85) << "and nothing under a short queue of its own";
}

TEST(Evidence, EmptyAndFull)
{
  EXPECT_EQ(score(at(0)), 0);
  EXPECT_EQ(score(at(1)), 1);
  EXPECT_EQ(judge(at(0.5)).why, Weight::queue);
}

// Under all other circumstances: a fuller queue never speaks for the air.
TEST(Evidence, NeverFallsWithTheQueue)
{
  for (const bool repeated : { false, true })
    for (const bool growing : { false, true })
      for (const bool steered : { false, true })
        for (const int radio : { 0, 1, 2 })
          for (const double expected : { 0.0, 0.7, 5.0 })
            for (const std::uint32_t holes : { 1u, 2u, 9u, 40u, 400u })
              for (const double recent : { 0.0, 0.02, 0.06 })
              {
                double before = 0;
                for (double part = 0; part <= 1.2; part += 0.01)
                {
                  Evidence e = at(part);
                  e.repeated = repeated, e.growing = growing, e.steered = steered, e.recent = recent;
                  e.expected = expected, e.holes = holes, e.lost = holes * 1448, e.span = 400 * 1448;
                  e.radio = radio > 0, e.damaged = radio == 2 ? holes : 0;
                  const double now = score(e);
                  ASSERT_GE(now, before) << part;
                  ASSERT_GE(now, 0);
                  ASSERT_LE(now, 1);
                  before = now;
                }
              }
}

TEST(Evidence, ATopThatWasHigherSpeaksForTheAir)
{
  EXPECT_LT(score(0.5, [](Evidence& e) { e.top *= 2; }), score(at(0.5)));
  EXPECT_GT(score(0.5, [](Evidence& e) { e.top /= 1.5; }), score(at(0.5)));
}

TEST(Evidence, SmallDelaysAreNoQueue)
{
  // A tick of a millisecond in 50 ms says nothing, however small the top was.
  EXPECT_LT(score(0, [](Evidence& e) { e.queued = 0.001, e.top = 0.001; }), 0.4);
  // A short path, too.
  EXPECT_LT(score(0, [](Evidence& e) { e.queued = 0.001, e.top = 0.001, e.rtt_min = 0.002; }), 0.4);
}

TEST(Evidence, TheSameDelayAgainAndAgainIsWhereTheQueueEnds)
{
  const auto repeated = [](Evidence& e) { e.repeated = true, e.recent = 0.03; };
  EXPECT_GT(score(0.45, repeated), score(at(0.45)));
  EXPECT_GT(score(0.45, repeated), 0.85);
  EXPECT_LT(score(0, repeated), 0.1) << "an empty queue has no end";
}

TEST(Evidence, InSlowStartTheQueueSaysLess)
{
  EXPECT_LT(score(0.9, [](Evidence& e) { e.growing = true; }), score(at(0.9)));
}

TEST(Evidence, LossesAsUsualSpeakForTheAir)
{
  EXPECT_LT(score(0.9, [](Evidence& e) { e.expected = 1; }), score(at(0.9)));
  EXPECT_EQ(score(0.9, [](Evidence& e) { e.expected = 1; }), score(0.9, [](Evidence& e) { e.expected = 2; }))
      << "no more";
}

TEST(Evidence, FarMoreThanUsualSpeaksForCongestion)
{
  const auto many = [](Evidence& e) { e.holes = 100, e.lost = 100 * 1448, e.span = 3000 * 1448; };
  EXPECT_GT(score(0.5, many), score(at(0.5)));
  const auto usual = [&](Evidence& e) { many(e), e.expected = 100; };
  EXPECT_LT(score(0.5, usual), score(0.5, many));
}

TEST(Evidence, MuchLostAtOnceSpeaksForCongestion)
{
  const auto much = [](Evidence& e) { e.holes = 8, e.lost = 20 * 1448, e.span = 60 * 1448; };
  Evidence e = at(0.2);
  much(e);
  EXPECT_EQ(judge(e).why, Weight::share);
  EXPECT_GT(score(e), 0.85);
  // A few segments of a small window are no share.
  EXPECT_LT(score(0.2, [](Evidence& few) { few.holes = 2, few.lost = 2 * 1448, few.span = 6 * 1448; }), 0.4);
  EXPECT_LT(score(0.2, [](Evidence& none) { none.span = 0, none.lost = 50 * 1448; }), 0.4) << "no span, no share";
}

TEST(Evidence, TheCapKeepsTheQueueFromBeingTheCause)
{
  Evidence e = at(1);
  e.steered = true;
  EXPECT_EQ(judge(e).why, Weight::steered);
  EXPECT_LE(score(e), 0.5);
  e = at(0.1);
  e.steered = true;
  EXPECT_LE(score(e), score(at(0.1))) << "never worse for the air";
}

TEST(Evidence, DamagedFramesSpeakForTheAirAndSilenceForCongestion)
{
  const auto heard = [](std::uint32_t damaged, std::uint32_t holes)
  { return [=](Evidence& e) { e.radio = true, e.damaged = damaged, e.holes = holes; }; };
  const auto deaf = [](std::uint32_t holes) { return [=](Evidence& e) { e.holes = holes; }; };
  EXPECT_LT(score(0.9, heard(1, 1)), score(at(0.9)));
  EXPECT_GT(score(0.4, heard(0, 1)), score(at(0.4)));
  EXPECT_GT(score(0.4, heard(1, 2)), score(0.4, deaf(2))) << "one hole of two is unexplained";
  EXPECT_LT(score(0.4, heard(1, 2)), score(0.4, heard(0, 2)));
  EXPECT_LT(score(0.9, heard(3, 2)), score(0.9, deaf(2))) << "more damaged frames than holes";
  Evidence e = at(0.9);
  e.radio = true, e.damaged = 1;
  EXPECT_EQ(judge(e).why, Weight::radio);
  // Without timestamps it is all there is.
  EXPECT_LT(score({ .lost = 1448, .span = 60'000, .holes = 1, .radio = true, .damaged = 1 }), 0.85);
  EXPECT_EQ(score({ .lost = 1448, .span = 60'000, .holes = 1, .radio = true }), 1);
}

} // namespace
} // namespace tandem::mirror
