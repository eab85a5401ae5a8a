// An A-MPDU download and the delayed ACKs that it makes, against the numbers of IEEE 802.11-2020 alone: what 802.11n at
// MCS 7 carries for TCP, and what it would carry if ACKs took no air. Nothing of the air's own code is used for the
// expectation.

#include "tests/sim/medium/bench.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace tandem::medium::test
{

namespace
{

constexpr double packet = 1500, ack = 52, payload = 1448; // bytes: IPv4 and TCP with timestamps

// Clause 19, MCS 7 at 20 MHz: 260 data bits a symbol (table 19-27); 10.2.2, table 9-155: best effort.
struct Edca
{
  double symbol = 3.6; // us; 4 with the long guard interval
  static constexpr double slot = 9, sifs = 16, aifs = 16 + 3 * 9;
  static constexpr unsigned cw_min = 15, cw_max = 1023;

  // L-STF, L-LTF, L-SIG, HT-SIG, HT-STF, HT-LTF: 36 us; 16 service and 6 tail bits; on a 4 us boundary (19.3.9.4.1).
  double ampdu(double bytes) const { return 36 + 4 * std::ceil(std::ceil((8 * bytes + 22) / 260) * symbol / 4 - 1e-9); }
  // Clause 17: 20 us of preamble, 4 us a symbol of 96 bits at 24 Mb/s, of 24 bits at 6 Mb/s.
  static double legacy(double bytes, double bits) { return 20 + 4 * std::ceil((8 * bytes + 22) / bits); }
  static double block_ack() { return legacy(32, 96); }
  static double normal_ack() { return legacy(14, 96); }
  static double eifs() { return sifs + legacy(14, 24) + aifs; }
  // Delimiter, QoS header, LLC, FCS, on four octets (9.7.1).
  static double subframe(double ip) { return 4 + 4 * std::ceil((ip + 26 + 8 + 4) / 4); }
};

struct Expected
{
  double mbps = 0; // of TCP payload
  double collided = 0;
};

// Two stations that contend by EDCA: one always has data, 4 ms of it at a time; the other has an ACK for every second
// packet that arrived, all of which leave in one A-MPDU.
Expected expected(const Edca& edca, bool acks_take_air)
{
  std::mt19937 random { 11 };
  const auto draw = [&](unsigned cw) { return std::uniform_int_distribution<unsigned> { 0, cw }(random); };
  unsigned frames = 1;
  while (edca.ampdu((frames + 1) * Edca::subframe(packet)) <= 4000)
    ++frames;
  const double data = edca.ampdu(frames * Edca::subframe(packet));
  unsigned data_cw = Edca::cw_min, ack_cw = Edca::cw_min, data_backoff = draw(data_cw), ack_backoff = 0;
  unsigned waiting = 0, odd = 0, sent = 0, collisions = 0, attempts = 0;
  double now = 0;
  bool contends = false;
  while (now < 60e6)
  {
    if (waiting > 0 && !contends)
    {
      contends = true;
      ack_backoff = draw(ack_cw);
    }
    const unsigned slots = contends ? std::min(data_backoff, ack_backoff) : data_backoff;
    const bool data_now = data_backoff == slots, ack_now = contends && ack_backoff == slots;
    now += Edca::aifs + slots * Edca::slot;
    data_backoff -= slots;
    ack_backoff -= contends ? slots : 0;
    const unsigned in_one = std::min(waiting, 32u);
    attempts += data_now;
    if (data_now && ack_now)
    {
      now += std::max(data, edca.ampdu(in_one * Edca::subframe(ack))) + Edca::eifs() - Edca::aifs;
      ++collisions;
      data_backoff = draw(data_cw = std::min(2 * data_cw + 1, Edca::cw_max));
      ack_backoff = draw(ack_cw = std::min(2 * ack_cw + 1, Edca::cw_max));
    }
    else if (data_now)
    {
      now += data + Edca::sifs + Edca::block_ack();
      sent += frames;
      odd += frames;
      waiting += acks_take_air ? odd / 2 : 0;
      odd %= 2;
      data_backoff = draw(data_cw = Edca::cw_min);
    }
    else
    {
      now +=
          edca.ampdu(in_one * Edca::subframe(ack)) + Edca::sifs + (in_one > 1 ? Edca::block_ack() : Edca::normal_ack());
      waiting -= in_one;
      ack_cw = Edca::cw_min;
      contends = false;
    }
  }
  return { sent * payload * 8 / now, static_cast<double>(collisions) / attempts };
}

// The same on the air: the access point's queue never runs dry, and the station answers every second packet at once.
Expected measured(bool short_guard, bool acks_take_air)
{
  AirConfig config;
  config.phy = Phy::of(Standard::n, short_guard);
  config.rate = 7;
  config.aggregation.frames = 32;
  config.ap_queue = 200;
  config.retry_limit = 100;
  Outbox box;
  Air air(config, 5, box);
  const NodeId ap = air.add_access_point(Tick {}, 36);
  const NodeId station = air.add_station(ap);
  Feeder feeder;
  std::uint64_t arrived = 0;
  const Duration length = 30s;
  for (Tick now {}; now < at(length); now = air.next_event())
  {
    air.run_until(now);
    for (const auto& delivery : box.deliveries)
      if (delivery.to == station && ++arrived % 2 == 0)
      {
        Packet answer = feeder.make(static_cast<std::uint32_t>(ack));
        answer.airless = !acks_take_air;
        air.submit(now, answer, station, ap);
      }
    box.clear();
    while (air.queued(ap, station) < 150)
      air.submit(now, feeder.make(static_cast<std::uint32_t>(packet)), ap, station);
  }
  const auto& stats = air.stats(ap);
  return { static_cast<double>(arrived) * payload * 8e-6 / seconds(length),
           static_cast<double>(stats.collisions) / static_cast<double>(stats.exchanges) };
}

class AckContention : public ::testing::TestWithParam<bool>
{
};

TEST_P(AckContention, TcpGetsOfMcs7WhatTheStandardsNumbersGive)
{
  const Edca edca { .symbol = GetParam() ? 3.6 : 4.0 };
  for (const bool acks_take_air : { true, false })
  {
    const Expected wanted = expected(edca, acks_take_air), got = measured(GetParam(), acks_take_air);
    EXPECT_NEAR(got.mbps / wanted.mbps, 1.0, 0.01) << acks_take_air;
    EXPECT_NEAR(got.collided, wanted.collided, 0.005) << acks_take_air;
    std::printf("MCS 7, %s guard interval, %s: %.1f Mb/s, by the standard %.1f; collisions %.3f, %.3f\n",
                GetParam() ? "short" : "long", acks_take_air ? "delayed ACKs" : "ACKs without air", got.mbps,
                wanted.mbps, got.collided, wanted.collided);
  }
}

// By hand. Short guard interval: 23 frames of 1544 bytes are 3972 us; with AIFS 43, 7.5 slots, SIFS 16 and a block ACK
// of 32 us a cycle takes 4130.5 us. Long: 20 frames, 3840 us, 3998.5 us.
TEST_P(AckContention, WithoutAcksOnTheAirACycleIsOneAmpdu)
{
  const double by_hand = GetParam() ? 23 * 1448 * 8 / 4130.5 : 20 * 1448 * 8 / 3998.5;
  EXPECT_NEAR(by_hand, GetParam() ? 64.5 : 57.9, 0.05);
  EXPECT_NEAR(measured(GetParam(), false).mbps / by_hand, 1.0, 0.005);
}

INSTANTIATE_TEST_SUITE_P(GuardInterval, AckContention, ::testing::Values(true, false),
                         [](const auto& each) { return each.param ? "short_guard" : "long_guard"; });

} // namespace

} // namespace tandem::medium::test
