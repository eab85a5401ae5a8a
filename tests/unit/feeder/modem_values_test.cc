#include "src/feeder/sources/modem_values.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace tandem::feeder
{
namespace
{

constexpr std::uint64_t lte = 1 << 14, nr5g = 1 << 15, hspa = 1 << 8;

TEST(ModemValues, states_have_names)
{
  EXPECT_EQ(modem_state(-1), "failed");
  EXPECT_EQ(modem_state(0), std::nullopt); // unknown
  EXPECT_EQ(modem_state(8), "registered");
  EXPECT_EQ(modem_state(11), "connected");
  EXPECT_EQ(modem_state(12), std::nullopt);
  EXPECT_EQ(modem_state(-2), std::nullopt);
}

TEST(ModemValues, technologies_are_joined)
{
  EXPECT_EQ(modem_technology(0), std::nullopt);
  EXPECT_EQ(modem_technology(0xffffffff), std::nullopt); // any
  EXPECT_EQ(modem_technology(lte), "lte");
  EXPECT_EQ(modem_technology(lte | nr5g), "lte+5gnr");
  EXPECT_EQ(modem_technology(std::uint64_t { 1 } << 40), std::nullopt);
}

TEST(ModemValues, unknown_is_absent)
{
  EXPECT_EQ(modem_decibel(-std::numeric_limits<double>::max()), std::nullopt);
  EXPECT_EQ(modem_decibel(NAN), std::nullopt);
  EXPECT_EQ(modem_decibel(INFINITY), std::nullopt);
  EXPECT_EQ(modem_decibel(-32768), std::nullopt);
  EXPECT_EQ(modem_decibel(-97.5), -97.5F);
}

TEST(ModemValues, signals_of_technologies_are_not_mixed)
{
  const CellSignals signals { { Cell::lte, { .rssi = -60, .rsrp = -90 } },
                              { Cell::nr5g, { .rsrp = -100, .snr = 12 } } };
  ModemStats stats {};
  choose_signal(signals, lte | nr5g, stats);
  EXPECT_EQ(stats.rsrp, -100);
  EXPECT_EQ(stats.snr, 12);
  EXPECT_EQ(stats.rssi, std::nullopt);
  stats = {};
  choose_signal(signals, lte, stats);
  EXPECT_EQ(stats.rsrp, -90);
  EXPECT_EQ(stats.rssi, -60);
  stats = {};
  choose_signal(signals, hspa, stats);
  EXPECT_EQ(stats, ModemStats {});
  choose_signal({ { Cell::nr5g, {} }, { Cell::gsm, { .rssi = -71 } } }, 0, stats);
  EXPECT_EQ(stats.rssi, -71);
}

} // namespace
} // namespace tandem::feeder
