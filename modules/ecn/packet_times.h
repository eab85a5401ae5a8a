// The packet time T_i of each Wi-Fi link as it is taken to be now: what the radio says, summed up where it says little,
// remembered where it can say nothing.
#pragma once

#include "modules/ecn/ranking.h"
#include "modules/ecn/signal_trend.h"

#include <tandem/module.h>

#include <array>
#include <cstdint>
#include <optional>
#include <span>

namespace tandem::ecn
{

// Whether a link is left out now, so that nothing arrives by which its packet time could be told.
using LeftOut = std::array<bool, most_wifi>;

class PacketTimes
{
public:
  // With every look. `least`: confidence from which on a packet time counts; `best`: that of the best link.
  void learn(const LinkStates& links, const LeftOut& left_out, std::uint64_t delivered, double least, Duration best,
             Tick now);

  std::span<const std::optional<Duration>, most_wifi> now() const { return times_; }
  // Links that are looked at again because their beacons have become the stronger ones, until a packet time is known.
  const std::array<bool, most_wifi>& sought() const { return sought_; }

private:
  // The last packet time of a link that could be validated.
  struct Memory
  {
    Duration packet_time {};
    Tick at {};
    Duration traffic_at {};         // on the clock that runs while something is downloaded
    Duration best_then {};          // packet time of the best link
    std::optional<float> signal {}; // of the beacons
  };
  // Packet times of too few frames each, added up by their confidence.
  struct Evidence
  {
    double weight = 0;
    double weighted_time = 0; // s
    Tick from {};
    Tick taken {};
  };

  bool outdated(const Memory& memory, const RadioState* radio, bool left_out, Duration best, Tick now) const;
  bool heard_better(const Memory& memory, const SignalTrend& trend) const;
  static std::optional<Duration> weigh(Evidence& evidence, const RadioState& radio, Tick now, double least);

  std::array<std::optional<Memory>, most_wifi> memory_ {};
  std::array<Evidence, most_wifi> evidence_ {};
  std::array<std::optional<Duration>, most_wifi> times_ {};
  std::array<SignalTrend, most_wifi> trends_ {};
  std::array<bool, most_wifi> sought_ {};
  std::array<Tick, most_wifi> sought_at_ {};
  std::optional<float> strongest_ {}; // signal of the links in use, by its trend
  Duration traffic_ {};               // time in which something was downloaded
  std::uint64_t delivered_ = 0;
  Tick learned_ {};
};

} // namespace tandem::ecn
