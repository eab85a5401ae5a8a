// Packet times that change.

#include "tools/sim/variation.h"

#include <gtest/gtest.h>

#include <memory>

namespace tandem::sim::test
{

namespace
{

using namespace std::chrono_literals;

double mean_of(const Variation::Config& config, Duration length, std::uint64_t seed = 1)
{
  Loop loop;
  Variation variation(loop, config, seed, 0);
  loop.run_until(Tick {} + length);
  return variation.integral(loop.now()) / seconds(length) * 1e3;
}

TEST(Variation, TwoStatesByTheirMeanTimes)
{
  // 40 s of 0.7 ms, 5 s of 7 ms: 1.4 ms on average.
  EXPECT_NEAR(mean_of({ .good_ms = 0.7, .bad_ms = 7, .good_s = 40, .bad_s = 5 }, 400'000s), 1.4, 0.1);
}

TEST(Variation, LogNormalByMedianAndSpread)
{
  // exp(sigma^2 / 2) of the median.
  const Variation::Config config {
    .how = Variation::Config::How::log_normal, .median_ms = 1, .sigma = 0.5, .hold_s = 1
  };
  EXPECT_NEAR(mean_of(config, 100'000s), 1.133, 0.03);
}

// A download may begin at once.
TEST(Variation, IsStationaryFromTheBeginning)
{
  unsigned bad = 0;
  for (std::uint64_t seed = 0; seed < 2000; ++seed)
  {
    Loop loop;
    bad += Variation(loop, { .good_ms = 1, .bad_ms = 9, .good_s = 3, .bad_s = 1 }, seed, 0).now() > 5ms ? 1 : 0;
  }
  EXPECT_NEAR(bad / 2000.0, 0.25, 0.04);
}

TEST(Variation, IsOfItsSeedAndNumberAlone)
{
  const auto changes = [](std::uint64_t seed, std::uint64_t number)
  {
    Loop loop;
    auto variation = std::make_unique<Variation>(loop, Variation::Config {}, seed, number);
    std::vector<Tick> at;
    variation->follow([&] { at.push_back(loop.now()); });
    loop.run_until(Tick {} + 300s);
    return at;
  };
  EXPECT_EQ(changes(1, 0), changes(1, 0));
  EXPECT_NE(changes(1, 0), changes(1, 1));
  EXPECT_NE(changes(1, 0), changes(2, 0));
  EXPECT_GT(changes(1, 0).size(), 3u);
}

} // namespace

} // namespace tandem::sim::test
