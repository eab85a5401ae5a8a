#include "src/feeder/radio/report_validation.h"
#include "tests/unit/feeder/capture.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace tandem::feeder
{
namespace
{

using namespace tandem::literals;

std::uint64_t count(const ReportValidation& validation, Doubt what)
{
  return validation.counts()[static_cast<std::size_t>(what)];
}

Report frame_at(Tick at, float signal = -50)
{
  Frame frame { .kind = Frame::Kind::data, .receiver = own, .transmitter = ap, .from_ap = true };
  frame.signal = signal;
  return { .at = at, .what = frame };
}

TEST(ReportValidation, impossible_rates_are_taken_out)
{
  ReportValidation validation {};
  for (const double mbps : { 0.0, -1.0, 1e9, std::nan(""), std::numeric_limits<double>::infinity() })
  {
    StationStats stats { .ap = ap };
    stats.rx_mbps = mbps;
    stats.tx_mbps = 54;
    Report report { .at = Tick { 1s }, .what = stats };
    EXPECT_FALSE(validation.examine(report, Tick { 1s }));
    EXPECT_FALSE(std::get<StationStats>(report.what).rx_mbps) << mbps;
    EXPECT_EQ(std::get<StationStats>(report.what).tx_mbps, 54);
  }
  EXPECT_EQ(count(validation, Doubt::impossible_rate), 5u);
}

TEST(ReportValidation, impossible_times_are_taken_out)
{
  constexpr Duration least = Duration::min(), most = Duration::max();
  ReportValidation validation {};
  Report survey { .at = Tick { 1s },
                  .what = Survey { .frequency = 2412, .active = most, .busy = least, .receiving = 1s } };
  validation.examine(survey, Tick { 1s });
  EXPECT_FALSE(std::get<Survey>(survey.what).active);
  EXPECT_FALSE(std::get<Survey>(survey.what).busy);
  EXPECT_EQ(std::get<Survey>(survey.what).receiving, 1s);
  EXPECT_EQ(count(validation, Doubt::impossible_time), 2u);
  const auto age = [&](Duration span)
  {
    Candidate candidate {};
    candidate.ap = ap;
    candidate.age = span;
    Report report { .at = Tick { 1s }, .what = candidate };
    validation.examine(report, Tick { 1s });
    return std::get<Candidate>(report.what).age;
  };
  EXPECT_EQ(age(3s), 3s);
  EXPECT_EQ(age(least), std::nullopt);
  ASSERT_TRUE(age(most)) << "long ago is not just now";
  EXPECT_GT(*age(most), 24h);
  EXPECT_LT(*age(most), most / 2) << "a sum of it and of a time fits";
}

TEST(ReportValidation, impossible_signals_are_taken_out)
{
  ReportValidation validation {};
  for (const float dbm : { -128.F, 100.F })
  {
    Report report = frame_at(Tick { 1s }, dbm);
    validation.examine(report, Tick { 1s });
    EXPECT_FALSE(std::get<Frame>(report.what).signal);
  }
  ModemStats modem { .modem = "/0" };
  modem.rsrp = -32768.F;
  modem.snr = 8.F;
  Report report { .at = Tick { 1s }, .what = modem };
  validation.examine(report, Tick { 1s });
  EXPECT_FALSE(std::get<ModemStats>(report.what).rsrp);
  EXPECT_EQ(std::get<ModemStats>(report.what).snr, 8.F);
  EXPECT_EQ(count(validation, Doubt::impossible_signal), 3u);
}

TEST(ReportValidation, a_clock_that_jumps_is_put_right_and_told)
{
  ReportValidation validation {};
  Report early = frame_at(Tick { 100s });
  EXPECT_FALSE(validation.examine(early, Tick { 100s }));
  Report back = frame_at(Tick { 50s });
  EXPECT_TRUE(validation.examine(back, Tick { 101s }));
  EXPECT_EQ(back.at, Tick { 101s });
  Report ahead = frame_at(Tick { 500s });
  EXPECT_TRUE(validation.examine(ahead, Tick { 102s }));
  EXPECT_EQ(ahead.at, Tick { 102s });
  Report late = frame_at(Tick { 101s + 500ms });
  EXPECT_FALSE(validation.examine(late, Tick { 103s })) << "a little disorder is no jump";
  EXPECT_EQ(count(validation, Doubt::clock_jump), 2u);
}

TEST(ReportValidation, a_signal_that_never_moves_is_not_measured)
{
  ReportValidation validation {};
  for (int i = 0; i < 200; ++i)
  {
    Report report = frame_at(Tick { 1s } + i * 500ms);
    validation.examine(report, report.at);
  }
  EXPECT_FALSE(validation.signal_varies());
  EXPECT_EQ(count(validation, Doubt::constant_signal), 1u);
  Report other = frame_at(Tick { 200s }, -51);
  validation.examine(other, other.at);
  EXPECT_TRUE(validation.signal_varies()) << "it moves after all";
}

// iwlwifi while nothing is transferred: its firmware keeps the beacons to itself.
TEST(ReportValidation, of_an_idle_link_the_signal_may_stay)
{
  ReportValidation validation {};
  std::uint32_t packets = 5;
  const auto poll = [&](Tick from, std::uint32_t more)
  {
    for (int i = 0; i < 1200; ++i)
    {
      StationStats stats { .ap = ap };
      stats.signal = -50.F;
      stats.rx_packets = packets += more;
      Report report { .at = from + i * 100ms, .what = stats };
      validation.examine(report, report.at);
    }
  };
  poll(Tick { 1s }, 0);
  EXPECT_TRUE(validation.signal_varies());
  poll(Tick { 200s }, 1);
  EXPECT_FALSE(validation.signal_varies());
}

TEST(ReportValidation, a_signal_that_moves_a_little_is_a_measured_one)
{
  ReportValidation validation {};
  for (int i = 0; i < 2000; ++i)
  {
    Report report = frame_at(Tick { 1s } + i * 100ms, i % 50 == 0 ? -51.F : -50.F);
    validation.examine(report, report.at);
  }
  EXPECT_TRUE(validation.signal_varies());
}

} // namespace
} // namespace tandem::feeder
