// A walk past access points while data is sent by Wi-Fi and cellular: what the bench cla runs (Sinky et al., section
// V).
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>

namespace tandem::sim
{

struct HandoffRun
{
  std::string arm = "promise"; // uncoupled (Reno), coupled (LIA), olia, cla (as published), promise (ours)
  // cla: "set": windows are set while R_tot < R0 and grow on, R2 counts against itself, the round trip is the smoothed
  // one. "held": what was set last stays, R2 = R0 - R1, the round trip is the least one.
  std::string reading = "set";
  bool forget = true; // cla: algorithm 3, line 13: the timer is the initial one of a new connection, 1 s
  double R0 = 18, C1 = 25, C2 = 18, R1h = 5;    // Mb/s
  double delta0 = 20, delta1 = 25, delta2 = 12; // dB
  double offered = 30;                          // Mb/s
  double wifi_ms = 5, lte_ms = 20;              // each way
  double apart_m = 100, speed = 2;              // access points, and the user: m and m/s
  unsigned access_points = 3;                   // one handoff less
  double associate_ms = 100;                    // Wi-Fi carries nothing meanwhile, and what it had is lost
  unsigned wifi_queue = 100, lte_queue = 300;   // packets
  double near_s = 5;                            // before and after each handoff: what "near handoffs" means
  std::uint64_t seed = 1;
};

// {"mbps", "held_at_handoff_mbps": what R0 can be there, "near": {"mbps", "rtt_ms", "jitter_ms": from packet to packet,
// "variation_ms": RFC 5481, per subflow, "gap_ms", "retransmissions", "duplicate_acks", "loss_mbps": R0 less what is
// carried in the second around the handoff}, "lte_bytes", "handoffs_s", "curve": [[s, Wi-Fi, LTE, in order, signal]],
// "series": [[s, RTT ms, jitter ms, retransmissions, duplicate ACKs]], both every half second}. Throws BadScenario.
nlohmann::json handoff(const HandoffRun& run);

} // namespace tandem::sim
