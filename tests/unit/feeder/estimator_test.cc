#include "src/feeder/radio/estimator.h"
#include "tests/unit/feeder/capture.h"

#include <gtest/gtest.h>

#include <random>

namespace tandem::feeder
{
namespace
{

using namespace tandem::literals;

Frame data(std::uint16_t sequence, bool retry = false)
{
  Frame frame { .kind = Frame::Kind::data, .receiver = own, .transmitter = ap, .from_ap = true };
  frame.sequence = sequence % 4096;
  frame.retry = retry;
  frame.mbps = 54;
  frame.frequency = 5180;
  frame.signal = -50.F;
  return frame;
}

Frame beacon(std::uint16_t sequence)
{
  Frame frame { .kind = Frame::Kind::beacon, .receiver = { 255, 255, 255, 255, 255, 255 }, .transmitter = ap };
  frame.sequence = sequence;
  frame.beacon_interval = 100;
  return frame;
}

struct Air
{
  double delivery = 0.7;
  bool damaged_heard = false;
  unsigned attempts = 7;
};

// Packets of 400 us and their independent attempts; returns the share of attempts that arrived.
double play(ApEstimator& estimator, const Air& air, Duration span, unsigned seed = 1, Tick from = Tick { 1s })
{
  std::mt19937 random { seed };
  std::bernoulli_distribution arrives { air.delivery };
  double attempts = 0, arrived = 0;
  std::uint16_t sequence = 0;
  for (Tick at = from; at < from + span; at += 400us, ++sequence)
    for (unsigned i = 0; i < air.attempts; ++i)
    {
      ++attempts;
      Frame frame = data(sequence, i > 0);
      if (arrives(random))
      {
        ++arrived;
        estimator.take(frame, at + i * 20us);
        break;
      }
      frame.damaged = true;
      if (air.damaged_heard) estimator.take(frame, at + i * 20us);
    }
  estimator.advance(from + span);
  return arrived / attempts;
}

// Rate control and channel widths go through hundreds of rates in an hour in which the frames never cease.
TEST(ApEstimator, rates_of_long_ago_make_room_for_those_of_now)
{
  ApEstimator estimator { { own } };
  Tick at { 1s };
  std::uint16_t sequence = 0;
  for (int rate = 0; rate < 100; ++rate)
    for (int i = 0; i < 100; ++i, at += 4ms)
    {
      Frame frame = data(sequence++);
      frame.mbps = 6 + rate;
      estimator.take(frame, at);
    }
  const auto seen = estimator.estimate(ap);
  ASSERT_TRUE(seen && seen->mbps && seen->packet_time);
  EXPECT_NEAR(*seen->mbps, 104.8, 0.5) << "the last half second: one rate, and a quarter second of the one before";
}

// A flood of forged rates does not push out those that count.
TEST(ApEstimator, more_rates_than_there_is_room_for_in_one_window_count_without_their_rate)
{
  ApEstimator estimator { { own } };
  Tick at { 1s };
  std::uint16_t sequence = 0;
  for (int i = 0; i < 400; ++i, at += 1ms)
  {
    Frame frame = data(sequence++);
    frame.mbps = 6 + i;
    estimator.take(frame, at);
  }
  const auto seen = estimator.estimate(ap);
  ASSERT_TRUE(seen && seen->mbps);
  EXPECT_EQ(seen->first, 400u);
  EXPECT_NEAR(*seen->mbps, 6 + 63 / 2.0, 1e-9) << "of those that came first";
}

TEST(ApEstimator, tells_delivery_from_retry_bits_and_numbers)
{
  for (const double delivery : { 0.3, 0.5, 0.7, 0.95, 1.0 })
  {
    ApEstimator estimator { { own } };
    play(estimator, { .delivery = delivery }, 3s);
    const auto seen = estimator.estimate(ap);
    ASSERT_TRUE(seen && seen->delivery);
    EXPECT_EQ(seen->basis, Basis::frames);
    EXPECT_NEAR(*seen->delivery, delivery, 0.06) << "1250 packets in the window: four standard deviations";
    EXPECT_FALSE(seen->hidden_terminal) << delivery;
    EXPECT_EQ(seen->confidence, 1);
  }
}

TEST(ApEstimator, counts_failures_that_the_radio_hears)
{
  ApEstimator estimator { { own } };
  const double truth = play(estimator, { .delivery = 0.6, .damaged_heard = true }, 490ms);
  EXPECT_NEAR(*estimator.estimate(ap)->delivery, truth, 0.002);
}

TEST(ApEstimator, forgets_what_is_older_than_the_window)
{
  ApEstimator estimator { { own } };
  play(estimator, { .delivery = 0.3 }, 2s);
  play(estimator, { .delivery = 1 }, 510ms, 2, Tick { 3s });
  EXPECT_EQ(*estimator.estimate(ap)->delivery, 1);
  estimator.advance(Tick { 5s });
  EXPECT_EQ(estimator.estimate(ap)->basis, Basis::none);
  estimator.advance(Tick { 60s });
  EXPECT_FALSE(estimator.estimate(ap));
}

TEST(ApEstimator, packet_time_is_that_of_the_phy)
{
  ApEstimator estimator { { own } };
  play(estimator, { .delivery = 1 }, 1s);
  const auto seen = estimator.estimate(ap);
  EXPECT_NEAR(milliseconds(*seen->packet_time), 0.3935, 0.001); // see airtime_test
  EXPECT_NEAR(*seen->mbps, 54, 1e-9);
}

TEST(ApEstimator, few_frames_make_little_confidence)
{
  ApEstimator estimator { { own } };
  for (std::uint16_t i = 0; i < 5; ++i)
    estimator.take(data(i), Tick { 1s } + i * 10ms);
  EXPECT_NEAR(estimator.estimate(ap)->confidence, 0.05, 1e-9);
}

// Half of the time every attempt fails: the retry bit alone is fooled, and says so.
TEST(ApEstimator, attempts_that_fail_together_are_told)
{
  for (const bool heard : { false, true })
  {
    ApEstimator estimator { { own } };
    std::uint16_t sequence = 0;
    // Seven attempts and their backoffs take their time.
    for (Tick at { 1s }; at < Tick { 6s }; ++sequence)
    {
      const bool hidden = sequence % 10 == 0;
      for (unsigned i = 0; i < (hidden ? 7 : 1); ++i)
      {
        Frame frame = data(sequence, i > 0);
        frame.damaged = hidden;
        if (!hidden || heard) estimator.take(frame, at);
        at += 330us + std::chrono::microseconds { 67 << i };
      }
    }
    EXPECT_TRUE(estimator.estimate(ap)->hidden_terminal) << heard;
  }
}

// The same losses of a sender that gives up after four attempts, of which each fails by itself.
TEST(ApEstimator, a_sender_that_gives_up_early_is_no_hidden_terminal)
{
  ApEstimator estimator { { own } };
  std::mt19937 random { 5 };
  std::uint16_t sequence = 0;
  for (Tick at { 1s }; at < Tick { 9s }; ++sequence)
    for (unsigned i = 0; i < 4; ++i)
    {
      at += 330us + std::chrono::microseconds { random() % (135U << i) };
      if (random() % 2 == 0) continue;
      estimator.take(data(sequence, i > 0), at);
      break;
    }
  const auto seen = estimator.estimate(ap);
  EXPECT_GT(seen->lost, 10u);
  EXPECT_FALSE(seen->hidden_terminal);
}

TEST(ApEstimator, an_acknowledgement_that_was_lost_is_no_loss)
{
  ApEstimator estimator { { own } };
  for (std::uint16_t i = 0; i < 200; ++i)
  {
    estimator.take(data(i), Tick { 1s } + i * 1ms);
    estimator.take(data(i, true), Tick { 1s } + i * 1ms);
  }
  EXPECT_EQ(estimator.estimate(ap)->retried, 0u);
  EXPECT_EQ(*estimator.estimate(ap)->delivery, 1);
}

TEST(ApEstimator, frames_for_others_are_not_missing_among_ours)
{
  ApEstimator estimator { { own } };
  for (std::uint16_t i = 0; i < 400; i += 2)
  {
    estimator.take(data(i), Tick { 1s } + i * 1ms);
    Frame other = data(static_cast<std::uint16_t>(i + 1));
    other.receiver = neighbour;
    if (i % 8 != 0) estimator.take(other, Tick { 1s } + i * 1ms); // some of them are not heard
  }
  EXPECT_LE(estimator.estimate(ap)->lost, 3u) << "until it knows that there are others";
  EXPECT_FALSE(estimator.estimate(ap)->hidden_terminal);
}

TEST(ApEstimator, aggregates_come_out_of_order)
{
  ApEstimator estimator { { own } };
  std::mt19937 random { 3 };
  std::uint32_t aggregate = 0;
  std::vector<std::uint16_t> again;
  std::uint16_t next = 0;
  int attempts = 0, arrived = 0;
  for (Tick at { 1s }; at < Tick { 1490ms }; at += 3ms, ++aggregate)
  {
    std::vector<std::pair<std::uint16_t, bool>> numbers;
    for (const auto number : again)
      numbers.emplace_back(number, true);
    while (numbers.size() < 16)
      numbers.emplace_back(next++, false);
    again.clear();
    for (const auto& [number, retry] : numbers)
    {
      ++attempts;
      if (random() % 4 == 0)
      {
        again.push_back(number);
        continue;
      }
      ++arrived;
      Frame frame = data(number, retry);
      frame.tid = std::uint8_t { 0 };
      frame.mcs = std::uint8_t { 7 };
      frame.mbps = 65;
      frame.aggregate = aggregate;
      estimator.take(frame, at);
    }
  }
  estimator.advance(Tick { 1490ms });
  EXPECT_NEAR(*estimator.estimate(ap)->delivery, double(arrived) / attempts, 0.03);
  EXPECT_EQ(estimator.estimate(ap)->lost, 0u);
  EXPECT_LT(milliseconds(*estimator.estimate(ap)->packet_time), 0.35) << "16 packets share an access to the channel";
}

TEST(ApEstimator, beacons_that_are_missing_are_counted)
{
  ApEstimator estimator { { own } };
  EXPECT_FALSE(estimator.estimate(ap));
  for (std::uint16_t i = 0; i < 60; ++i)
    if (i % 4 != 0) estimator.take(beacon(i), Tick { 1s } + i * 102400us);
  const auto seen = estimator.estimate(ap);
  ASSERT_TRUE(seen->beacon_loss);
  EXPECT_NEAR(*seen->beacon_loss, 0.25, 0.08);
  EXPECT_FALSE(seen->delivery) << "no data, nothing known";
}

StationStats counters(std::uint32_t packets, std::uint32_t retries, std::uint64_t beacons)
{
  StationStats stats { .ap = ap };
  stats.signal = -60.F;
  stats.rx_mbps = 26;
  stats.tx_packets = packets;
  stats.tx_retries = retries;
  stats.beacons = beacons;
  return stats;
}

TEST(ApEstimator, falls_back_to_the_drivers_counters)
{
  ApEstimator estimator { { own } };
  for (std::uint32_t i = 0; i <= 20; ++i)
    estimator.take(counters(0xfffffff0 + 8 * i, 2 * i, i), Tick { 1s } + i * 100ms); // wraps
  const auto seen = estimator.estimate(ap);
  EXPECT_EQ(seen->basis, Basis::driver);
  EXPECT_NEAR(*seen->delivery, 0.8, 1e-6);
  EXPECT_LE(seen->confidence, 0.3);
  EXPECT_NEAR(*seen->beacon_loss, 0, 0.06);
  EXPECT_EQ(seen->signal, -60.F);
  estimator.advance(Tick { 10s });
  EXPECT_EQ(estimator.estimate(ap)->basis, Basis::none) << "old counters say nothing";
}

TEST(ApEstimator, what_the_driver_lacks_is_absent)
{
  ApEstimator estimator { { own } };
  for (int i = 0; i < 10; ++i)
    estimator.take(StationStats { .ap = ap }, Tick { 1s } + i * 100ms);
  const auto seen = estimator.estimate(ap);
  EXPECT_FALSE(seen->delivery || seen->packet_time || seen->signal || seen->beacon_loss || seen->mbps);
}

TEST(ApEstimator, counters_that_began_anew_are_no_growth)
{
  ApEstimator estimator { { own } };
  estimator.take(counters(100000, 5000, 700), Tick { 1s });
  estimator.take(counters(10, 1, 3), Tick { 2s });
  EXPECT_FALSE(estimator.estimate(ap)->delivery);
}

TEST(ApEstimator, a_clock_that_goes_back_does_no_harm)
{
  ApEstimator estimator { { own } };
  estimator.take(data(1), Tick { 100s });
  estimator.take(data(2), Tick { 1s });
  estimator.take(data(3), Tick { 100s + 1ms });
  EXPECT_EQ(estimator.estimate(ap)->first, 3u);
}

TEST(ApEstimator, forged_access_points_do_not_fill_the_memory)
{
  ApEstimator estimator { { own } };
  for (unsigned i = 0; i < 10000; ++i)
  {
    Frame frame = beacon(1);
    frame.transmitter = Mac { 2, 9, 9, 9, static_cast<std::uint8_t>(i >> 8), static_cast<std::uint8_t>(i) };
    estimator.take(frame, Tick { 1s } + i * 10us);
  }
  EXPECT_LE(estimator.all().size(), 64u);
}

// 10 KB a channel (section 5.1): at the full rate of 802.11a, 1270 frames in half a second.
TEST(ApEstimator, keeps_within_the_published_memory)
{
  ApEstimator estimator { { own } };
  play(estimator, { .delivery = 1 }, 2s);
  EXPECT_GT(estimator.estimate(ap)->first, 1200u);
  EXPECT_LE(estimator.memory(), 10'000u);
}

} // namespace
} // namespace tandem::feeder
