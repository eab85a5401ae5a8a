// The formulas of the congestion controls, by hand.

#include "tools/sim/congestion.h"

#include <gtest/gtest.h>

namespace tandem::sim::test
{

namespace
{

using namespace std::chrono_literals;

Window window(double cwnd, Duration rtt, std::uint64_t since = 0, std::uint64_t between = 0)
{
  Window out;
  out.cwnd = cwnd;
  out.ssthresh = 1;
  out.rtt = rtt;
  out.established = true;
  out.delivered = since;
  out.between_losses = between;
  return out;
}

TEST(Congestion, LiaAlphaIsEquation2)
{
  const Window a = window(20, 100ms), b = window(10, 50ms);
  // total 30, best max(20 / 0.01, 10 / 0.0025) = 4000, sum 200 + 200.
  EXPECT_DOUBLE_EQ(lia_alpha({ &a, &b }), 30 * 4000.0 / (400.0 * 400.0));
  EXPECT_NEAR(lia_alpha({ &a }), 1, 1e-12);
}

TEST(Congestion, LiaIsNeverFasterThanTcp)
{
  Window a = window(2, 500ms), b = window(50, 10ms);
  const Group group { &a, &b };
  const auto control = make_congestion(Algorithm::lia, a, group);
  const double before = a.cwnd;
  control->increase(1, {});
  EXPECT_LE(a.cwnd - before, 1 / before + 1e-12);
  EXPECT_GT(a.cwnd, before);
}

TEST(Congestion, OliaMovesWindowToTheBestPathOnlyWhenItIsTheSmaller)
{
  // a: the larger window; b: fewer losses.
  const Window a = window(20, 100ms, 100), b = window(10, 100ms, 500);
  const Group group { &a, &b };
  EXPECT_DOUBLE_EQ(olia_alpha(group, a), -0.5);
  EXPECT_DOUBLE_EQ(olia_alpha(group, b), 0.5);
  const Window c = window(20, 100ms, 500), d = window(10, 100ms, 100);
  EXPECT_DOUBLE_EQ(olia_alpha({ &c, &d }, c), 0);
  EXPECT_DOUBLE_EQ(olia_alpha({ &c, &d }, d), 0);
  // The distance between the last two losses counts when it is the larger.
  const Window e = window(10, 100ms, 1, 900);
  EXPECT_DOUBLE_EQ(olia_alpha({ &c, &e }, e), 0.5);
}

TEST(Congestion, OliaAloneIsTcp)
{
  Window a = window(10, 100ms);
  const Group group { &a };
  make_congestion(Algorithm::olia, a, group)->increase(1, {});
  EXPECT_NEAR(a.cwnd, 10.1, 1e-9);
}

TEST(Congestion, Reductions)
{
  const Group none;
  for (const auto& [algorithm, share] : { std::pair { Algorithm::reno, 0.5 },
                                          { Algorithm::lia, 0.5 },
                                          { Algorithm::olia, 0.5 },
                                          { Algorithm::cubic, 0.7 } })
  {
    Window a = window(100, 100ms);
    EXPECT_NEAR(make_congestion(algorithm, a, none)->reduce(), share * 100, 0.5) << name(algorithm);
  }
}

TEST(Congestion, CubicReturnsToItsMaximumAfterK)
{
  // RFC 9438 4.2: K = cbrt((W_max - cwnd) / C); W_max 1000, cwnd 700: 9.09 s.
  Window a = window(1000, 100ms);
  const Group none;
  const auto control = make_congestion(Algorithm::cubic, a, none);
  a.cwnd = a.ssthresh = control->reduce();
  const double reduced = a.cwnd;
  double at_half = 0;
  for (Tick now {}; now < Tick { 9100ms }; now += 100ms)
  {
    control->sample(100ms, now);
    for (double left = a.cwnd; left > 0; left -= 10)
      control->increase(10, now);
    if (now == Tick { 4500ms }) at_half = a.cwnd;
  }
  EXPECT_NEAR(a.cwnd, 1000, 10);
  EXPECT_GT(at_half, reduced + 0.8 * (1000 - reduced)); // concave: most of it soon
}

} // namespace

} // namespace tandem::sim::test
