// A-MPDU aggregation of the n profile.

#include "tests/sim/medium/bench.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

namespace tandem::medium::test
{

namespace
{

AirConfig n_config(unsigned frames)
{
  AirConfig config;
  config.phy = Phy::of(Standard::n, true);
  config.rate = 7;
  config.aggregation.frames = frames;
  config.retry_limit = 20;
  return config;
}

TEST(Aggregation, EfficiencyMatchesTheClosedForm)
{
  for (unsigned frames : { 2u, 8u, 16u, 32u })
  {
    const AirConfig config = n_config(frames);
    const Phy& phy = config.phy;
    Outbox box;
    Air air(config, 2, box);
    const NodeId ap = air.add_access_point(Tick {}, 36);
    air.add_background(Tick {}, air.add_station(ap), Traffic::down, 1500, std::nullopt);
    air.run_until(at(20s));
    // Delimiter of 4 bytes and padding to 4 around each MPDU; at most 65535 bytes and 4 ms.
    const std::uint32_t subframe = 4 + (phy.mpdu(1500) + 3) / 4 * 4;
    unsigned carried = frames;
    while (phy.airtime(phy.rates[7], carried * subframe) > config.aggregation.time)
      --carried;
    const Duration cycle = phy.difs() + phy.airtime(phy.rates[7], carried * subframe) + phy.sifs
                           + phy.airtime(phy.response_rate(phy.rates[7]), mac_bytes::block_ack);
    const double expected = carried / (seconds(cycle) + phy.cw_min / 2.0 * seconds(phy.slot));
    EXPECT_NEAR(static_cast<double>(air.stats(ap).delivered) / 20 / expected, 1.0, 0.01) << frames;
    std::printf("A-MPDU of %2u (limit %2u): %.1f Mb/s, closed form %.1f\n", carried, frames,
                mbps(air.stats(ap).delivered_bytes, 20s), expected * 1500 * 8e-6);
  }
}

TEST(Aggregation, LimitsInFramesBytesAndTimeHold)
{
  AirConfig config = n_config(10);
  config.aggregation.bytes = 8000;
  for (int limit = 0; limit < 3; ++limit)
  {
    AirConfig limited = n_config(limit == 0 ? 10 : 64);
    if (limit == 1) limited.aggregation.bytes = 8000;
    if (limit == 2) limited.aggregation.time = 1ms;
    Outbox box;
    box.want_frames = true;
    Air air(limited, 2, box);
    const NodeId ap = air.add_access_point(Tick {}, 36);
    const NodeId station = air.add_station(ap);
    air.observe(station);
    for (Handle i = 0; i < 90; ++i)
      air.submit(Tick {}, { .handle = i, .bytes = 1500 }, ap, station);
    air.run_until(at(1s));
    std::map<std::uint32_t, unsigned> sizes;
    Duration longest {};
    for (const auto& frame : box.frames)
      if (frame.aggregated)
      {
        ++sizes[frame.aggregate];
        longest = std::max(longest, frame.duration);
      }
    unsigned most = 0;
    for (const auto& [id, count] : sizes)
      most = std::max(most, count);
    const std::uint32_t subframe = 4 + (limited.phy.mpdu(1500) + 3) / 4 * 4;
    const unsigned by_time = static_cast<unsigned>(1000 * 72.2 / 8 / subframe);
    EXPECT_EQ(most, limit == 0 ? 10 : limit == 1 ? 8000 / subframe : by_time) << limit;
    EXPECT_LE(longest, limited.aggregation.time);
  }
}

TEST(Aggregation, FailedSubframesAreSentAgainAndOrderIsRestored)
{
  AirConfig config = n_config(32);
  config.frame_error = 0.2;
  Outbox box;
  box.want_frames = true;
  Air air(config, 6, box);
  const NodeId ap = air.add_access_point(Tick {}, 36);
  const NodeId station = air.add_station(ap);
  air.observe(station);
  std::vector<Handle> order;
  std::map<std::uint16_t, int> retries;
  Feeder feeder;
  std::size_t single_retry = 0, block_acks = 0;
  for (Tick now {}; now < at(3s); now += 200us)
  {
    air.run_until(now);
    while (air.queued(ap, station) < 80)
      air.submit(now, feeder.make(1500), ap, station);
    for (const auto& d : box.deliveries)
      order.push_back(d.handle);
    for (const auto& f : box.frames)
    {
      single_retry += f.retry && f.aggregated;
      block_acks += f.type == FrameType::block_ack;
    }
    EXPECT_TRUE(box.drops.empty());
    box.clear();
  }
  ASSERT_GT(order.size(), 5000u);
  // Nothing missing, nothing twice, nothing out of order.
  for (std::size_t i = 0; i < order.size(); ++i)
    ASSERT_EQ(order[i], i);
  EXPECT_NEAR(static_cast<double>(single_retry) / static_cast<double>(order.size()), 0.25, 0.02); // 0.2 / (1 - 0.2)
  EXPECT_GT(block_acks, 100u);
}

TEST(Aggregation, AGivenUpSubframeReleasesTheOnesBehindIt)
{
  AirConfig config = n_config(32);
  config.frame_error = 0.5;
  config.retry_limit = 2;
  Outbox box;
  Air air(config, 6, box);
  const NodeId ap = air.add_access_point(Tick {}, 36);
  const NodeId station = air.add_station(ap);
  for (Handle i = 0; i < 90; ++i)
    air.submit(Tick {}, { .handle = i, .bytes = 1500 }, ap, station);
  air.run_until(at(1s));
  EXPECT_EQ(box.deliveries.size() + box.drops.size(), 90u);
  EXPECT_GT(box.drops.size(), 8u);
  EXPECT_EQ(air.queued(ap, station), 0u);
  for (std::size_t i = 1; i < box.deliveries.size(); ++i)
    EXPECT_LT(box.deliveries[i - 1].handle, box.deliveries[i].handle);
}

TEST(Aggregation, WindowOfTheBlockAckIsNeverExceeded)
{
  AirConfig config = n_config(64);
  config.aggregation.time = 10ms;
  config.frame_error = 0.3;
  Outbox box;
  box.want_frames = true;
  Air air(config, 6, box);
  const NodeId ap = air.add_access_point(Tick {}, 36);
  const NodeId station = air.add_station(ap);
  air.observe(station);
  for (Handle i = 0; i < 100; ++i)
    air.submit(Tick {}, { .handle = i, .bytes = 600 }, ap, station);
  air.run_until(at(1s));
  std::map<std::uint32_t, std::set<std::uint16_t>> aggregates;
  for (const auto& f : box.frames)
    if (f.aggregated) aggregates[f.aggregate].insert(f.sequence);
  for (const auto& [id, sequences] : aggregates)
    EXPECT_LT(*sequences.rbegin() - *sequences.begin(), 64);
}

} // namespace

} // namespace tandem::medium::test
