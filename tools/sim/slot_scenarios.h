// Slot plans for several access points by one card, by the round-trip models: what the benches minislot-1 to 3 run.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace tandem::sim
{

struct SlotRun
{
  std::vector<double> duty { 0.5, 0.125, 0.375 }; // f_i
  double slot_ms = 12.5;                          // SlotTime
  double longest_ms = 0;                          // the longest period allowed; 0 = any
  std::vector<double> delays_ms { 50 };           // one point each: wired delay of the first access point
  std::vector<double> more_ms {};                 // what each one's delay is above that; none = 0
  std::string strategy = "delay-aware";           // no-policy, min-max, blind, delay-aware, upper-bound
  std::string model = "published";                // or self-clocked
  double mean_share = 1, air_ms = 0.5;            // published: modules/rate/rtt_model.h
  unsigned samples = 10'000; // published: round-trip times drawn for each access point; 0 = their expectation
  double loss = 0.0032;      // congestion signals per packet
  bool bound = true;         // say what the best of all allocations reaches
  std::uint64_t seed = 1;
};

// {"period_ms", "slots": g_i, "lengths_ms": SlotTime_i, "points": [{"delay_ms", "order", "searches", "mbps",
// "expected_mbps", "no_policy_mbps", "bound_mbps", "rtt_ms", "disconnection_ms"}]}. Throws BadScenario.
nlohmann::json slots(const SlotRun& run);

// Round-trip times of one connection of `on` and a disconnection of `off`: both models at each delay.
struct RttRun
{
  double on_ms = 50, off_ms = 50;
  std::vector<double> delays_ms { 50 };
  double mean_share = 1;
  double window = 22;  // packets: self-clocked
  double air_ms = 0.5; // of a packet with its ACK
  unsigned samples = 10'000;
  std::uint64_t seed = 1;
};

// {"points": [{"delay_ms", "published_ms", "self_clocked_ms", "published_mbps", "self_clocked_mbps"}]}. Throws
// BadScenario.
nlohmann::json rtts(const RttRun& run);

} // namespace tandem::sim
