// The 802.11 exchanges behind a packet time of the weighted air, and what the daemon's own estimator makes of them: its
// packet times have its errors, and it has to learn.
#pragma once

#include "src/feeder/radio/airtime.h"
#include "src/feeder/radio/estimator.h"
#include "tools/lab/medium/random.h"

#include <tandem/link.h>

#include <cstdint>
#include <optional>

namespace tandem::sim
{

// One access point and its client: frames of 1500 bytes by 802.11a without QoS, at the fastest rate at which no more
// than three in ten attempts have to fail for the mean packet time to be what it is to be; where none is slow enough,
// at 6 Mb/s with more failures. Attempts fail independently, and are repeated up to six times.
class Exchanges
{
public:
  explicit Exchanges(std::uint64_t seed, std::uint64_t stream);

  // How long the next packet takes, when it begins at `now`; `mean` is the packet time of the link. Its frames are
  // shown to the estimator, failed ones as damaged where the radio hears them.
  Duration next(Duration mean, Tick now);
  // As the feeder tells modules; nothing without a frame in the window.
  RadioState radio(Tick now);

  static double failures(double mbps, Duration mean); // share of attempts, for this mean; 0 when the rate is too slow
  static double rate(Duration mean);                  // Mb/s

private:
  void set(Duration mean);
  void show(bool failed, bool retry, Tick at);

  feeder::ApEstimator estimator_;
  medium::Random random_;
  Duration mean_ {};
  feeder::PhySeen phy_ {};
  double fails_ = 0;
  std::uint16_t sequence_ = 0;
};

} // namespace tandem::sim
