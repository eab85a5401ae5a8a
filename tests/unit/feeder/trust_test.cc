#include "src/feeder/radio/trust.h"
#include "tests/unit/feeder/capture.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace tandem::feeder
{
namespace
{

using namespace tandem::literals;

std::uint64_t count(const Trust& trust, Doubt what)
{
  return trust.counts()[static_cast<std::size_t>(what)];
}

Report frame_at(Tick at, float signal = -50)
{
  Frame frame { .kind = Frame::Kind::data, .receiver = own, .transmitter = ap, .from_ap = true };
  frame.signal = signal;
  return { .at = at, .what = frame };
}

TEST(Trust, impossible_rates_are_taken_out)
{
  Trust trust {};
  for (const double mbps : { 0.0, -1.0, 1e9, std::nan(""), std::numeric_limits<double>::infinity() })
  {
    StationStats stats { .ap = ap };
    stats.rx_mbps = mbps;
    stats.tx_mbps = 54;
    Report report { .at = Tick { 1s }, .what = stats };
    EXPECT_FALSE(trust.examine(report, Tick { 1s }));
    EXPECT_FALSE(std::get<StationStats>(report.what).rx_mbps) << mbps;
    EXPECT_EQ(std::get<StationStats>(report.what).tx_mbps, 54);
  }
  EXPECT_EQ(count(trust, Doubt::impossible_rate), 5u);
}

TEST(Trust, impossible_signals_are_taken_out)
{
  Trust trust {};
  for (const float dbm : { -128.F, 100.F })
  {
    Report report = frame_at(Tick { 1s }, dbm);
    trust.examine(report, Tick { 1s });
    EXPECT_FALSE(std::get<Frame>(report.what).signal);
  }
  ModemStats modem { .modem = "/0" };
  modem.rsrp = -32768.F;
  modem.snr = 8.F;
  Report report { .at = Tick { 1s }, .what = modem };
  trust.examine(report, Tick { 1s });
  EXPECT_FALSE(std::get<ModemStats>(report.what).rsrp);
  EXPECT_EQ(std::get<ModemStats>(report.what).snr, 8.F);
  EXPECT_EQ(count(trust, Doubt::impossible_signal), 3u);
}

TEST(Trust, a_clock_that_jumps_is_put_right_and_told)
{
  Trust trust {};
  Report early = frame_at(Tick { 100s });
  EXPECT_FALSE(trust.examine(early, Tick { 100s }));
  Report back = frame_at(Tick { 50s });
  EXPECT_TRUE(trust.examine(back, Tick { 101s }));
  EXPECT_EQ(back.at, Tick { 101s });
  Report ahead = frame_at(Tick { 500s });
  EXPECT_TRUE(trust.examine(ahead, Tick { 102s }));
  EXPECT_EQ(ahead.at, Tick { 102s });
  Report late = frame_at(Tick { 101s + 500ms });
  EXPECT_FALSE(trust.examine(late, Tick { 103s })) << "a little disorder is no jump";
  EXPECT_EQ(count(trust, Doubt::clock_jump), 2u);
}

TEST(Trust, a_signal_that_never_moves_is_not_measured)
{
  Trust trust {};
  for (int i = 0; i < 200; ++i)
  {
    Report report = frame_at(Tick { 1s } + i * 500ms);
    trust.examine(report, report.at);
  }
  EXPECT_FALSE(trust.signal_varies());
  EXPECT_EQ(count(trust, Doubt::constant_signal), 1u);
  Report other = frame_at(Tick { 200s }, -51);
  trust.examine(other, other.at);
  EXPECT_TRUE(trust.signal_varies()) << "it moves after all";
}

TEST(Trust, a_signal_that_moves_a_little_is_believed)
{
  Trust trust {};
  for (int i = 0; i < 2000; ++i)
  {
    Report report = frame_at(Tick { 1s } + i * 100ms, i % 50 == 0 ? -51.F : -50.F);
    trust.examine(report, report.at);
  }
  EXPECT_TRUE(trust.signal_varies());
}

} // namespace
} // namespace tandem::feeder
