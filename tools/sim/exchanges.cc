#include "tools/sim/exchanges.h"

#include <algorithm>
#include <array>

namespace tandem::sim
{

namespace
{

constexpr feeder::Mac client_mac { 2, 0, 0, 0, 0, 2 }, access_point_mac { 2, 0, 0, 0, 0, 1 };
constexpr unsigned packet_bytes = 1500;
constexpr unsigned retries = 6; // as EstimatorSettings::retry_limit
constexpr double usual_failures = 0.3, most_failures = 0.95;
constexpr double heard_damaged = 0.9; // as in the bench `estimator`

feeder::PhySeen phy_of(double mbps)
{
  return { .mbps = mbps, .frequency = 5180 };
}

Duration microseconds(double us)
{
  return from_seconds(us * 1e-6);
}

} // namespace

Exchanges::Exchanges(std::uint64_t seed, std::uint64_t stream) : estimator_({ client_mac }), random_(seed, stream) {}

// Equation 1 the other way round.
double Exchanges::failures(double mbps, Duration mean)
{
  double low = 0, high = most_failures;
  const auto longer = [&](double p) { return feeder::packet_time(phy_of(mbps), packet_bytes, p, p, retries) > mean; };
  if (longer(low)) return 0;
  for (int i = 0; i < 40; ++i)
    (longer((low + high) / 2) ? high : low) = (low + high) / 2;
  return low;
}

double Exchanges::rate(Duration mean)
{
  constexpr std::array<double, 8> rates { 54, 48, 36, 24, 18, 12, 9, 6 };
  for (const double mbps : rates)
    if (failures(mbps, mean) <= usual_failures) return mbps;
  return rates.back();
}

void Exchanges::set(Duration mean)
{
  mean_ = mean;
  phy_ = phy_of(rate(mean));
  fails_ = failures(phy_.mbps, mean);
}

void Exchanges::show(bool failed, bool retry, Tick at)
{
  if (failed && !random_.chance(heard_damaged)) return;
  estimator_.take({ .kind = feeder::Frame::Kind::data,
                    .receiver = client_mac,
                    .transmitter = access_point_mac,
                    .from_ap = true,
                    .damaged = failed,
                    .sequence = sequence_,
                    .retry = retry,
                    .frequency = phy_.frequency,
                    .mbps = phy_.mbps,
                    .bytes = packet_bytes },
                  at);
}

Duration Exchanges::next(Duration mean, Tick now)
{
  if (mean != mean_) set(mean);
  const feeder::PhyTimes times = feeder::PhyTimes::of(phy_);
  const Duration exchange = microseconds(feeder::exchange_us(phy_, packet_bytes));
  Duration spent {};
  for (;;)
  {
    sequence_ = static_cast<std::uint16_t>((sequence_ + 1) % 4096);
    unsigned window = times.cw_min;
    for (unsigned attempt = 0; attempt <= retries; ++attempt)
    {
      spent += microseconds(times.slot_us * random_.up_to(window)) + exchange;
      const bool failed = random_.chance(fails_);
      show(failed, attempt > 0, now + spent);
      if (!failed) return spent;
      window = std::min(2 * window + 1, times.cw_max);
    }
    // Given up. On this air the packet arrives all the same: its next number is sent at once, which costs the time that
    // equation 1 counts for it.
  }
}

RadioState Exchanges::radio(Tick now)
{
  estimator_.advance(now);
  const auto known = estimator_.estimate(access_point_mac);
  if (!known) return {};
  RadioState state { .packet_time = known->packet_time, .confidence = static_cast<float>(known->confidence) };
  if (known->delivery) state.delivery = static_cast<float>(*known->delivery);
  return state;
}

} // namespace tandem::sim
