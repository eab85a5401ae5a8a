#include "src/feeder/radio/airtime.h"

#include <gtest/gtest.h>

namespace tandem::feeder
{
namespace
{

double in_us(Duration d)
{
  return milliseconds(d) * 1e3;
}

// By hand from IEEE 802.11-2016: 54 Mb/s carries 216 bits a symbol; 1536 bytes of MPDU take 57 symbols of 4 us behind a
// preamble of 20; the ACK at 24 Mb/s 28 us; SIFS 16, DIFS 34.
TEST(Airtime, of_802_11a)
{
  const PhySeen phy { .mbps = 54, .frequency = 5180 };
  EXPECT_DOUBLE_EQ(exchange_us(phy, 1500), 20 + 57 * 4 + 16 + 28 + 34);
  EXPECT_NEAR(in_us(packet_time(phy, 1500, 0, 0, 6)), 326 + 7.5 * 9, 1e-3);
}

TEST(Airtime, of_802_11g_has_shorter_gaps_and_extensions)
{
  const PhySeen phy { .mbps = 54, .frequency = 2437 };
  EXPECT_DOUBLE_EQ(exchange_us(phy, 1500), 248 + 6 + 10 + 28 + 6 + 28);
}

// 11 Mb/s: long preambles of 192 us, the acknowledgement at 2 Mb/s.
TEST(Airtime, of_802_11b)
{
  const PhySeen phy { .mbps = 11, .frequency = 2437 };
  EXPECT_DOUBLE_EQ(exchange_us(phy, 1500), 192 + 1118 + 10 + 192 + 56 + 50);
  EXPECT_NEAR(in_us(packet_time(phy, 1500, 0, 0, 6)), 1618 + 15.5 * 20, 1e-3);
}

TEST(Airtime, equation_1_by_hand_for_one_retry)
{
  const PhySeen phy { .mbps = 54, .frequency = 5180 };
  const double first = 326 + 67.5, second = 326 + 15.5 * 9;
  EXPECT_NEAR(in_us(packet_time(phy, 1500, 0.5, 0.5, 1)), (first + 0.5 * second) / 0.75, 1e-3);
}

TEST(Airtime, grows_with_failures_and_shrinks_with_the_rate)
{
  Duration before {};
  for (const double p : { 0.0, 0.1, 0.3, 0.6, 0.9, 0.98 })
  {
    const Duration time = packet_time({ .mbps = 54, .frequency = 5180 }, 1500, p, p, 6);
    EXPECT_GT(time, before);
    before = time;
  }
  EXPECT_GT(packet_time({ .mbps = 6 }, 1500, 0.1, 0.1, 6), packet_time({ .mbps = 12 }, 1500, 0.1, 0.1, 6));
}

TEST(Airtime, an_aggregate_shares_its_fixed_costs)
{
  const PhySeen one { .mbps = 65, .ht = true, .frequency = 5180, .qos = true };
  PhySeen sixteen = one;
  sixteen.per_aggregate = 16;
  EXPECT_LT(exchange_us(sixteen, 1500), 0.65 * exchange_us(one, 1500));
  EXPECT_GT(exchange_us(sixteen, 1500), 1500 * 8 / 65.0);
}

} // namespace
} // namespace tandem::feeder
