// Access points on one channel that do not sense each other, and a card with an interface at each.

#include "tests/sim/medium/bench.h"

#include <gtest/gtest.h>

#include <array>
#include <optional>

namespace tandem::medium::test
{

namespace
{

struct Load
{
  double signal = -60;
  std::optional<Traffic> direction = Traffic::down; // saturated; empty: nothing is sent
};

// Mb/s that two access points bring, at whose stations one card is.
std::array<double, 2> rates(bool apart, const Load& one, const Load& two)
{
  Outbox box;
  Air air(quiet(Standard::a, 6), 3, box);
  std::array<NodeId, 2> ap {}, station {};
  const std::array<Load, 2> loads { one, two };
  for (unsigned i = 0; i < 2; ++i)
  {
    ap[i] = air.add_access_point(Tick {}, 36, loads[i].signal, apart ? i : 0);
    station[i] = air.add_station(ap[i]);
    if (loads[i].direction) air.add_background(Tick {}, station[i], *loads[i].direction, 1500, std::nullopt);
  }
  constexpr Duration length = 10s;
  air.run_until(at(length));
  const auto rate = [&](unsigned i)
  { return mbps(air.stats(loads[i].direction == Traffic::up ? station[i] : ap[i]).delivered_bytes, length); };
  return { rate(0), rate(1) };
}

double sum(const std::array<double, 2>& both)
{
  return both[0] + both[1];
}

constexpr Load idle { -60, std::nullopt };

} // namespace

TEST(Apart, EqualOnesLoseMostOfWhatOneAloneBrings)
{
  const double alone = sum(rates(true, {}, idle));
  EXPECT_NEAR(alone, 5.4, 0.2);
  EXPECT_NEAR(sum(rates(false, {}, {})), alone, 0.4) << "in range they take turns";
  EXPECT_LT(sum(rates(true, {}, {})), 0.4 * alone) << "frames of 2 ms overlap again and again";
}

TEST(Apart, TheStrongerFrameIsCaptured)
{
  const double alone = sum(rates(true, {}, idle));
  const auto [strong, weak] = rates(true, { .signal = -55 }, { .signal = -80 });
  EXPECT_GT(strong, 0.95 * alone);
  EXPECT_LT(weak, 0.05 * alone);
}

TEST(Apart, EveryAccessPointSensesTheCard)
{
  const Load up { -60, Traffic::up };
  const double in_range = sum(rates(false, up, {}));
  EXPECT_NEAR(sum(rates(true, up, {})), in_range, 0.1 * in_range);
}

TEST(Apart, SilenceOfOneGroupChangesNothingForTheOther)
{
  EXPECT_EQ(rates(true, {}, idle)[0], rates(false, {}, idle)[0]);
}

} // namespace tandem::medium::test
