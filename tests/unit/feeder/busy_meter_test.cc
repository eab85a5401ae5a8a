#include "src/feeder/radio/busy_meter.h"

#include <gtest/gtest.h>

#include <tuple>

namespace tandem::feeder
{
namespace
{

using namespace std::chrono_literals;

Survey survey(Duration active, Duration busy, unsigned frequency = 2412)
{
  return { .frequency = frequency, .in_use = true, .active = active, .busy = busy };
}

TEST(BusyMeter, IsTheDifferenceOfTwoSurveys)
{
  BusyMeter meter;
  const Tick start { 1h };
  meter.take(survey(100s, 90s), start);
  EXPECT_FALSE(meter.share(start)) << "what was before our time says nothing";
  meter.take(survey(101s, 90250ms), start + 1s);
  EXPECT_FLOAT_EQ(*meter.share(start + 1s), 0.25F);
  meter.take(survey(102s, 91250ms), start + 2s);
  EXPECT_FLOAT_EQ(*meter.share(start + 2s), 1.F);
}

TEST(BusyMeter, ShortSpansAreAddedUp)
{
  BusyMeter meter;
  const Tick start { 1h };
  meter.take(survey(0s, 0s), start);
  meter.take(survey(100ms, 100ms), start + 100ms);
  EXPECT_FALSE(meter.share(start + 100ms));
  meter.take(survey(500ms, 100ms), start + 500ms);
  EXPECT_FLOAT_EQ(*meter.share(start + 500ms), 0.2F);
}

// 2.5 MB at 54 Mb/s take 370 ms of air, headers and gaps not counted.
TEST(BusyMeter, ASurveyThatLeavesNoRoomForWhatWasReceivedIsNotBelieved)
{
  for (const auto& [busy, mbps, believed] : { std::tuple { 300ms, 54.0, false }, std::tuple { 360ms, 54.0, true },
                                              std::tuple { 300ms, 72.2, true }, std::tuple { 0ms, 0.0, true } })
  {
    BusyMeter meter;
    const Tick start { 1h };
    meter.take(StationStats { .rx_mbps = 1.0, .rx_bytes = 1'000'000'000 });
    meter.take(survey(0s, 0s), start);
    meter.take(StationStats { .rx_mbps = mbps, .rx_bytes = 1'001'000'000 });
    meter.take(StationStats { .rx_mbps = mbps / 9, .rx_bytes = 1'002'500'000 });
    meter.take(survey(1s, busy), start + 1s);
    EXPECT_EQ(meter.share(start + 1s).has_value(), believed) << busy.count() << " ms at " << mbps;
    meter.take(survey(2s, busy + 200ms), start + 2s);
    EXPECT_TRUE(meter.share(start + 2s)) << "nothing came since";
  }
}

TEST(BusyMeter, CountersOfAnotherStationSayNothing)
{
  BusyMeter meter;
  const Tick start { 1h };
  meter.take(survey(0s, 0s), start);
  meter.take(StationStats { .rx_mbps = 6.0, .rx_bytes = 1'000'000'000 });
  meter.take(survey(1s, 100ms), start + 1s);
  EXPECT_TRUE(meter.share(start + 1s)) << "nobody knows what was received before";
  meter.take(StationStats { .rx_mbps = 6.0, .rx_bytes = 10'000 });
  meter.take(survey(2s, 200ms), start + 2s);
  EXPECT_TRUE(meter.share(start + 2s));
}

TEST(BusyMeter, GoesStale)
{
  BusyMeter meter;
  const Tick start { 1h };
  meter.take(survey(0s, 0s), start);
  meter.take(survey(1s, 500ms), start + 1s);
  EXPECT_TRUE(meter.share(start + 5s));
  EXPECT_FALSE(meter.share(start + 5001ms));
}

TEST(BusyMeter, AnotherChannelAndResetCountersBeginAnew)
{
  BusyMeter meter;
  const Tick start { 1h };
  meter.take(survey(0s, 0s), start);
  meter.take(survey(1s, 500ms), start + 1s);
  meter.take(survey(9s, 100ms, 5180), start + 2s);
  EXPECT_FALSE(meter.share(start + 2s));
  meter.take(survey(10s, 200ms, 5180), start + 3s);
  EXPECT_FLOAT_EQ(*meter.share(start + 3s), 0.1F);
  meter.take(survey(1s, 900ms, 5180), start + 4s); // ran backwards
  EXPECT_FLOAT_EQ(*meter.share(start + 4s), 0.1F) << "the last good one";
  meter.take(survey(2s, 1400ms, 5180), start + 5s);
  EXPECT_FLOAT_EQ(*meter.share(start + 5s), 0.5F);
  meter.take(survey(3s, 5s, 5180), start + 6s); // more busy than time
  EXPECT_FLOAT_EQ(*meter.share(start + 6s), 0.5F);
}

TEST(BusyMeter, OtherChannelsAndMissingTimesAreIgnored)
{
  BusyMeter meter;
  const Tick start { 1h };
  meter.take(survey(0s, 0s), start);
  Survey other = survey(5s, 5s, 5180);
  other.in_use = false;
  meter.take(other, start + 500ms);
  meter.take({ .frequency = 2412, .in_use = true, .active = 1s }, start + 800ms);
  meter.take(survey(1s, 300ms), start + 1s);
  EXPECT_FLOAT_EQ(*meter.share(start + 1s), 0.3F);
}

} // namespace
} // namespace tandem::feeder
