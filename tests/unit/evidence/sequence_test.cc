#include "src/evidence/sequence.h"
#include "src/evidence/tally.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace tandem::evidence
{
namespace
{

// Log goodput of stretch after stretch, as networks are: it wanders, it drifts, and now and then all but stops.
class Goodput
{
public:
  explicit Goodput(std::uint64_t seed, double drift = 0) : random_ { seed }, drift_ { drift } {}
  double next()
  {
    level_ = 0.8 * level_ + 0.1 * normal_(random_);
    trend_ += drift_;
    return level_ + trend_ + 0.1 * normal_(random_) - (uniform_(random_) < 0.03 ? 2.5 : 0);
  }
  bool lot() { return uniform_(random_) < 0.5; }

private:
  std::mt19937_64 random_;
  std::normal_distribution<double> normal_ {};
  std::uniform_real_distribution<double> uniform_ {};
  double level_ = 0, trend_ = 0, drift_;
};

// One comparison: the module's `effect` is in the stretch that has it.
double compared(Goodput& goodput, double effect, bool by_lot = true)
{
  const double first = goodput.next(), second = goodput.next();
  const bool without_first = !by_lot || goodput.lot();
  return (without_first ? second - first : first - second) + effect;
}

constexpr int experiments = 2000;
constexpr double gets_slower = -0.15; // log goodput, from stretch to stretch

// The share of experiments in which somebody who looks after every comparison finds an effect that is not there.
template <class Finds>
double false_alarms(double drift, bool by_lot, Finds finds)
{
  int alarms = 0;
  for (int experiment = 0; experiment < experiments; ++experiment)
  {
    Goodput goodput { 1000u + static_cast<unsigned>(experiment), drift };
    Sequence sequence {};
    bool alarm = false;
    for (int i = 0; i < 300 && !alarm; ++i)
    {
      sequence.add(compared(goodput, 0, by_lot));
      alarm = finds(sequence);
    }
    alarms += alarm;
  }
  return alarms / double { experiments };
}

bool excluded(const Sequence& sequence)
{
  return sequence.excludes(0);
}

TEST(Sequence, LooksEveryTimeAndIsWrongInOneOfTwentyAtMost)
{
  EXPECT_LE(false_alarms(0, true, excluded), 0.05);
  EXPECT_LE(false_alarms(gets_slower, true, excluded), 0.05) << "a network that gets slower and slower";
}

TEST(Sequence, WithoutTheLotADriftIsTakenForAnEffect)
{
  EXPECT_GT(false_alarms(gets_slower, false, excluded), 0.5);
}

TEST(Sequence, AnIntervalForOneLookIsWrongWhenOneLooksEveryTime)
{
  const auto naive = [](const Sequence& sequence)
  {
    const Sums& sums = sequence.sums();
    return sums.count >= 4 && std::abs(sums.differences) > 1.96 * std::sqrt(sums.squares);
  };
  EXPECT_GT(false_alarms(0, true, naive), 0.15);
}

TEST(Sequence, TheIntervalHoldsTheEffectAtAllTimes)
{
  for (const double effect : { -0.3, -0.05, 0.0, 0.1 })
  {
    int outside = 0;
    for (int experiment = 0; experiment < 300; ++experiment)
    {
      // Symmetric around the effect.
      std::mt19937_64 random { static_cast<unsigned>(experiment) };
      std::normal_distribution<double> noise { effect, 0.15 };
      Sequence sequence {};
      bool missed = false;
      for (int i = 0; i < 100; ++i)
      {
        sequence.add(noise(random), i % 2 == 0 ? 0.5 : 2.5);
        missed = missed || sequence.excludes(effect);
      }
      outside += missed;
      const Interval interval = sequence.interval();
      EXPECT_LT(interval.low, sequence.mean());
      EXPECT_GT(interval.high, sequence.mean());
      EXPECT_LT(interval.high - interval.low, 0.4);
    }
    EXPECT_LE(outside, 300 * 0.05) << effect;
  }
}

TEST(Sequence, AnEffectIsFoundSoonWhenItIsLarge)
{
  const auto needed = [](double effect)
  {
    double sum = 0;
    for (unsigned seed = 1; seed <= 50; ++seed)
    {
      Goodput goodput { seed };
      Sequence sequence {};
      while (!sequence.excludes(0) && sequence.count() < 5000)
        sequence.add(compared(goodput, effect));
      sum += sequence.count();
    }
    return sum / 50;
  };
  EXPECT_LT(needed(-1.0), 15);
  EXPECT_LT(needed(-0.3), 120);
}

TEST(Sequence, NothingIsKnownOfNothing)
{
  const Sequence none {};
  EXPECT_EQ(none.interval().low, -Sequence::widest);
  EXPECT_EQ(none.interval().high, Sequence::widest);
  Sequence odd {};
  odd.add(std::nan(""));
  odd.add(0.1, 0);
  EXPECT_EQ(odd.count(), 0u);
  odd.add(1e300);
  EXPECT_EQ(odd.mean(), Sequence::most);
}

// ---- what follows from it ----

void feed(Tally& tally, double difference, int times, WallTime now)
{
  // Not all the same: a network is never.
  for (int i = 0; i < times; ++i)
    tally.add(difference + (i % 2 == 0 ? 0.02 : -0.02), 1, now);
}

TEST(Tally, HarmIsPutToRestAndGainIsKept)
{
  Tally harm {}, gain {};
  feed(harm, -0.3, 30, 1000);
  feed(gain, 0.3, 30, 1000);
  EXPECT_EQ(harm.standing, Standing::resting);
  EXPECT_EQ(gain.standing, Standing::acting);
  EXPECT_TRUE(gain.harmless());
}

TEST(Tally, ALittleHarmIsNoReason)
{
  Tally tally {};
  feed(tally, -0.005, 500, 1000);
  EXPECT_EQ(tally.standing, Standing::acting);
}

TEST(Tally, ARestEndsInATrialAndGrowsWhenThatFails)
{
  Tally tally {};
  WallTime now = 1000;
  WallTime before = 0;
  for (int times = 0; times < 12; ++times)
  {
    feed(tally, -0.3, 30, now);
    ASSERT_EQ(tally.standing, Standing::resting);
    const WallTime rest = tally.until - now;
    EXPECT_GE(rest, before);
    EXPECT_LE(rest, Tally::longest_rest);
    before = rest;
    now = tally.until - 1;
    tally.refresh(now);
    EXPECT_EQ(tally.standing, Standing::resting);
    now += 1;
    tally.refresh(now);
    EXPECT_EQ(tally.standing, Standing::trial);
  }
  EXPECT_EQ(before, Tally::longest_rest);
  feed(tally, 0.1, 20, now);
  EXPECT_EQ(tally.standing, Standing::acting);
}

TEST(Tally, AClockSetBackMakesNoRestEndless)
{
  Tally tally {};
  feed(tally, -0.3, 30, 2'000'000'000);
  ASSERT_EQ(tally.standing, Standing::resting);
  const WallTime set_back = 1000;
  tally.refresh(set_back);
  EXPECT_LE(tally.until, set_back + Tally::longest_rest);
  EXPECT_LE(tally.used, set_back);
  tally.refresh(set_back + Tally::longest_rest);
  EXPECT_EQ(tally.standing, Standing::trial);
}

TEST(Tally, WhatWasFoundLongAgoIsForgotten)
{
  Tally tally {};
  feed(tally, -0.3, 30, 1000);
  tally.refresh(1001 + Tally::lasts);
  EXPECT_EQ(tally.standing, Standing::acting);
  EXPECT_EQ(tally.gains.count(), 0u);
}

TEST(Tally, ComparisonsGetRareWhenAllIsClearAndMoreFrequentInDoubt)
{
  Tally tally {};
  EXPECT_EQ(tally.urgency(), 1);
  feed(tally, -0.2, 3, 1000);
  EXPECT_GT(tally.urgency(), 1);
  Tally sure {};
  feed(sure, 0.3, 60, 1000);
  EXPECT_LT(sure.urgency(), 1);
  EXPECT_GT(sure.urgency(), 0) << "it is looked again now and then";
}

} // namespace
} // namespace tandem::evidence
