// Which rate each transmission attempt uses: one fixed rate, or a Minstrel-like controller.
#pragma once

#include "tools/lab/medium/phy.h"
#include "tools/lab/medium/random.h"

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

namespace tandem::medium
{

// After the Minstrel documentation (D. Smithies, F. Fietkau, "Minstrel rate control", MadWifi/mac80211): every
// `interval` the success ratio of each rate enters an EWMA; the rates are ranked by probability / air time; one packet
// in ten tries another rate; each packet gets a chain of rates for its attempts. Rates with less than 10 % success
// count as zero, above 95 % as 95 %.
class RateControl
{
public:
  // Fixed at `fixed`, or adaptive when it is empty.
  RateControl(const Phy& phy, std::optional<unsigned> fixed, Random random);

  // Chooses the rates of a new packet's attempts.
  void begin_packet(Tick now);
  // Rate of attempt 0, 1, ... of the packet begun last.
  unsigned rate(unsigned attempt) const;
  // Whether attempt 0 is to sample a faster rate than the leading one.
  bool samples_faster() const { return !fixed_ && chain_[0] != best_; }
  // Outcome of one attempt: `sent` MPDUs, `delivered` of them acknowledged.
  void report(unsigned rate, unsigned sent, unsigned delivered);

  // The rate that leads the chain when not sampling.
  unsigned best() const { return best_; }
  double probability(unsigned rate) const { return stats_[rate].probability; }

  static constexpr Duration interval = std::chrono::milliseconds { 100 };

private:
  struct Stats
  {
    double probability = 0;
    double airtime = 0; // seconds for a 1200-byte packet, with the fixed costs of an exchange
    unsigned sent = 0, delivered = 0;
    bool seen = false;
  };

  void update();

  std::vector<Stats> stats_;
  std::array<unsigned, 4> chain_ {};
  Random random_;
  Tick next_update_ {};
  unsigned best_ = 0, second_ = 0, safest_ = 0;
  unsigned packets_ = 0;
  bool fixed_ = false;
};

} // namespace tandem::medium
