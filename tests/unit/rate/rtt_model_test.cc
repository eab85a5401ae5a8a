#include "modules/rate/rtt_model.h"

#include <gtest/gtest.h>

#include <numeric>

namespace tandem::rate
{
namespace
{

using namespace std::chrono_literals;

double mean(const std::vector<double>& values)
{
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

TEST(rtt_model, has_the_published_conditions)
{
  const Schedule half(50ms, 50ms);
  // Condition 1 alone: the answer to everything sent in [0, 50) falls into the next connection.
  for (const double rtt : sampled_rtts(half, 0.1, 1000, 1, { .air_time = 0 }))
    EXPECT_NEAR(rtt, 0.1, 1e-9);
  // Condition 2 alone: T - t_i.
  for (const double rtt : sampled_rtts(half, 0.05, 1000, 1, { .air_time = 0 }))
  {
    EXPECT_GT(rtt, 0.05 - 1e-9);
    EXPECT_LE(rtt, 0.1 + 1e-9);
  }
  // Never more than d_i and the disconnection (section VI-B), where nothing is sent late.
  for (double delay = 0; delay < 0.3; delay += 0.003)
    for (const double rtt : sampled_rtts(half, delay, 200, 2, { .air_time = 0 }))
    {
      EXPECT_GE(rtt, delay - 1e-9);
      EXPECT_LE(rtt, delay + 0.05 + 1e-9);
    }
}

TEST(rtt_model, is_plain_tcp_without_disconnection)
{
  const Schedule always(50ms, 0ms);
  EXPECT_NEAR(expected_rtt(always, 0.03, { .air_time = 0 }), 0.03, 1e-9);
  EXPECT_NEAR(self_clocked_rtt(always, 0.03, { .window = 4, .air_time = 1e-6 }), 0.03, 1e-5);
}

TEST(rtt_model, expectation_is_the_mean_of_the_samples)
{
  const Slots slots = divide(std::vector { 0.5, 0.125, 0.375 }, 12500us);
  const Allocation orders[] = { { 0, 0, 0, 0, 1, 2, 2, 2 }, { 0, 2, 0, 2, 0, 2, 0, 1 }, { 2, 0, 0, 1, 2, 0, 0, 2 } };
  for (const Allocation& order : orders)
    for (Station station = 0; station < 3; ++station)
      for (const double delay : { 0.0, 0.004, 0.0125, 0.02, 0.0375, 0.05, 0.0777, 0.1, 0.163, 0.3 })
        for (const ModelSettings& settings :
             { ModelSettings {}, ModelSettings { .mean_share = 0.2, .air_time = 3e-3 } })
        {
          const Schedule schedule(slots, order, station);
          const double drawn = mean(sampled_rtts(schedule, delay, 20000, 7, settings));
          EXPECT_NEAR(expected_rtt(schedule, delay, settings), drawn, 0.0012)
              << delay << " station " << int { station };
        }
}

TEST(rtt_model, less_disconnection_can_be_worse_at_some_delays)
{
  // Section V-A: at 125 ms the disconnection of 50 ms costs more than that of 75 ms.
  EXPECT_GT(expected_rtt(Schedule(50ms, 50ms), 0.125), expected_rtt(Schedule(75ms, 75ms), 0.125));
}

TEST(rtt_model, self_clocked_window_follows_its_own_answers)
{
  // One packet: sent at 0, 20, 40 (the answer to the third, at 60, waits for 100): three round trips a period.
  EXPECT_NEAR(self_clocked_rtt(Schedule(50ms, 50ms), 0.02, { .window = 1, .air_time = 1e-6 }), 0.1 / 3, 1e-3);
  // Whole periods never wait.
  EXPECT_NEAR(self_clocked_rtt(Schedule(50ms, 50ms), 0.1, { .window = 1, .air_time = 1e-6 }), 0.1, 1e-3);
}

TEST(rtt_model, self_clocked_window_waits_for_its_own_packets)
{
  // 20 packets of 1 ms on a link that is always there: the window is longer than the wired delay.
  EXPECT_NEAR(self_clocked_rtt(Schedule(50ms, 0ms), 0.001, { .window = 20, .air_time = 1e-3 }), 0.02, 1e-3);
  // Half of the time there: twice as long.
  EXPECT_NEAR(self_clocked_rtt(Schedule(10ms, 10ms), 0.001, { .window = 20, .air_time = 1e-3 }), 0.04, 2e-3);
}

TEST(rtt_model, maps_to_throughput_by_mathis)
{
  EXPECT_NEAR(mathis(1448, 0.1, 0.0032) * 8 / 1e6, 2.048, 0.001);
  EXPECT_NEAR(mathis(1448, 0.05, 0.0032) / mathis(1448, 0.1, 0.0032), 2, 1e-12);
}

} // namespace
} // namespace tandem::rate
