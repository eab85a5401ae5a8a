// The air against the analysis of the distributed coordination function: G. Bianchi, "Performance analysis of the IEEE
// 802.11 distributed coordination function", IEEE JSAC 18(3), 2000, basic access.

#include "tests/sim/medium/bench.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tandem::medium::test
{

namespace
{

struct FixedPoint
{
  double tau = 0; // a station transmits in a slot
  double p = 0;   // a transmission collides
};

// Equations (7) and (9): tau = 2(1-2p) / ((1-2p)(W+1) + pW(1-(2p)^m)), p = 1-(1-tau)^(n-1). Solved by bisection in tau.
FixedPoint solve(unsigned stations, double window, unsigned stages)
{
  const auto tau_of = [&](double p)
  {
    // The sum form of the denominator has no singular point at p = 1/2.
    double sum = 0;
    for (unsigned i = 0; i < stages; ++i)
      sum += std::pow(2 * p, i);
    return 2 / (1 + window + p * window * sum);
  };
  double low = 0, high = 1;
  for (int i = 0; i < 200; ++i)
  {
    const double tau = (low + high) / 2;
    const double p = 1 - std::pow(1 - tau, stations - 1.0);
    (tau_of(p) > tau ? low : high) = tau;
  }
  return { low, 1 - std::pow(1 - low, stations - 1.0) };
}

FixedPoint solve(unsigned stations, const Phy& phy)
{
  const double window = phy.cw_min + 1;
  return solve(stations, window, static_cast<unsigned>(std::lround(std::log2((phy.cw_max + 1) / window))));
}

// Equation (13), in packets per second of the whole channel. A slot is empty, a success of `success` seconds or a
// collision.
double packets_per_second(unsigned stations, const FixedPoint& point, const Phy& phy, Duration success,
                          Duration collision)
{
  const double busy = 1 - std::pow(1 - point.tau, stations);
  const double alone = stations * point.tau * std::pow(1 - point.tau, stations - 1.0);
  return alone / ((1 - busy) * seconds(phy.slot) + alone * seconds(success) + (busy - alone) * seconds(collision));
}

constexpr std::uint32_t udp_packet = 1464 + 28;

struct Case
{
  std::string name;
  Standard standard;
  double mbps;
};

class Saturation : public ::testing::TestWithParam<Case>
{
};

TEST_P(Saturation, OneToTenStationsAreWithinFivePercentOfBianchi)
{
  AirConfig config = quiet(GetParam().standard, GetParam().mbps);
  config.retry_limit = 100; // the model never gives up
  const Phy& phy = config.phy;
  for (unsigned stations = 1; stations <= 10; ++stations)
  {
    Outbox box;
    Air air(config, 7, box);
    const NodeId ap = air.add_access_point(Tick {}, 1);
    std::vector<NodeId> nodes;
    for (unsigned i = 0; i < stations; ++i)
    {
      nodes.push_back(air.add_station(ap));
      air.add_background(Tick {}, nodes.back(), Traffic::up, udp_packet, std::nullopt);
    }
    const Duration length = 60s;
    air.run_until(at(length));
    std::uint64_t packets = 0, collisions = 0, attempts = 0;
    for (NodeId node : nodes)
    {
      packets += air.stats(node).delivered;
      attempts += air.stats(node).exchanges;
      collisions += air.stats(node).collisions;
    }
    const FixedPoint point = solve(stations, phy);
    const Duration success = exchange_time(config, udp_packet);
    const Duration collision = phy.airtime(phy.rates[*config.rate], phy.mpdu(udp_packet)) + phy.eifs();
    const double expected = packets_per_second(stations, point, phy, success, collision);
    const double measured = static_cast<double>(packets) / seconds(length);
    EXPECT_NEAR(measured / expected, 1.0, 0.05) << stations << " stations";
    // A station's collisions, too, or two errors could cancel in the throughput.
    const double collided = static_cast<double>(collisions) / static_cast<double>(attempts);
    EXPECT_NEAR(collided, point.p, 0.05) << stations << " stations";
    RecordProperty("ratio_" + std::to_string(stations), std::to_string(measured / expected));
    std::printf("%s %2u stations: %7.1f packets/s, Bianchi %7.1f, ratio %.4f; collisions %.3f, Bianchi %.3f\n",
                GetParam().name.c_str(), stations, measured, expected, measured / expected, collided, point.p);
  }
}

INSTANTIATE_TEST_SUITE_P(Standards, Saturation,
                         ::testing::Values(Case { "b11", Standard::b, 11 }, Case { "g54", Standard::g, 54 },
                                           Case { "a54", Standard::a, 54 }, Case { "a6", Standard::a, 6 }),
                         [](const auto& each) { return each.param.name; });

// UDP of 1464 bytes one way, alone and against 32 bytes the other way: the self-contention of Tsao and Sivakumar
// (CoNEXT 2009).
class SelfContention : public ::testing::TestWithParam<Case>
{
};

TEST_P(SelfContention, AloneMatchesTheClosedForm)
{
  const AirConfig config = quiet(GetParam().standard, GetParam().mbps);
  Outbox box;
  Air air(config, 3, box);
  const NodeId ap = air.add_access_point(Tick {}, 1);
  const NodeId station = air.add_station(ap);
  air.add_background(Tick {}, station, Traffic::down, udp_packet, std::nullopt);
  air.run_until(at(30s));
  // One exchange and the mean backoff of CWmin / 2 slots.
  const double cycle = seconds(exchange_time(config, udp_packet)) + config.phy.cw_min / 2.0 * seconds(config.phy.slot);
  const double measured = static_cast<double>(air.stats(ap).delivered) / 30;
  EXPECT_NEAR(measured * cycle, 1.0, 0.01);
  std::printf("%s alone: %.2f Mb/s of UDP payload, closed form %.2f\n", GetParam().name.c_str(), measured * 1464 * 8e-6,
              1464 * 8e-6 / cycle);
}

TEST_P(SelfContention, SmallPacketsTheOtherWayCostWhatTheClosedFormSays)
{
  const AirConfig config = quiet(GetParam().standard, GetParam().mbps);
  const Phy& phy = config.phy;
  Outbox box;
  Air air(config, 3, box);
  const NodeId ap = air.add_access_point(Tick {}, 1);
  const NodeId station = air.add_station(ap);
  air.add_background(Tick {}, station, Traffic::down, udp_packet, std::nullopt);
  air.add_background(Tick {}, station, Traffic::up, 32 + 28, std::nullopt);
  air.run_until(at(30s));
  // Two saturated contenders: half of the successes are long, half short; a collision always contains a long one.
  const FixedPoint point = solve(2, phy);
  const Duration success = (exchange_time(config, udp_packet) + exchange_time(config, 60)) / 2;
  const Duration collision = phy.airtime(phy.rates[*config.rate], phy.mpdu(udp_packet)) + phy.eifs();
  const double expected = packets_per_second(2, point, phy, success, collision) / 2;
  const double measured = static_cast<double>(air.stats(ap).delivered) / 30;
  EXPECT_NEAR(measured / expected, 1.0, 0.05);
  EXPECT_NEAR(static_cast<double>(air.stats(station).delivered) / 30 / expected, 1.0, 0.05);
  const double alone = 1 / (seconds(exchange_time(config, udp_packet)) + phy.cw_min / 2.0 * seconds(phy.slot));
  std::printf("%s with 32 B back: %.2f Mb/s, closed form %.2f, %.0f %% less than alone\n", GetParam().name.c_str(),
              measured * 1464 * 8e-6, expected * 1464 * 8e-6, 100 * (1 - measured / alone));
}

INSTANTIATE_TEST_SUITE_P(Profiles, SelfContention,
                         ::testing::Values(Case { "b11", Standard::b, 11 }, Case { "b2", Standard::b, 2 },
                                           Case { "g54", Standard::g, 54 }, Case { "g24", Standard::g, 24 },
                                           Case { "a54", Standard::a, 54 }, Case { "a6", Standard::a, 6 }),
                         [](const auto& each) { return each.param.name; });

} // namespace

} // namespace tandem::medium::test
