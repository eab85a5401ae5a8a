// Clients that switch between channels: what the benches switching and switching-users run.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace tandem::sim
{

// Croitoru et al., section 7.1: "a simplified model that assumes no channel switch overheads, and that bandwidth is
// shared equally amongst all clients using a channel". In steps of 1 ms.
struct UsersRun
{
  unsigned users = 3;
  std::vector<double> mbps { 22, 22, 22 }; // of each channel
  std::string rule = "published";          // published (equation 6), phase-shift, stay-or-move
  double alpha = 2;                        // published
  double cycle_ms = 200;                   // C
  // Of "published", what the paper does not print. order: all users' channels in the "same" one, in one "each" has of
  // its own, or in a "new" one each cycle. start: somewhere in the first "slot", somewhere in the "cycle", or all
  // "together".
  std::string order = "same", start = "slot";
  double jitter_least_ms = 1, jitter_most_ms = 10; // what the switch of every slot comes late, uniform
  double cost_ms = 0;                              // of a switch: nothing is received
  double drift_ppm = 50;                           // phase-shift: clocks go wrong by up to so much
  double arrive_s = 0;                             // users come evenly spread over so long
  double seconds = 120, warmup = 20;
  std::uint64_t seed = 1;
};

// {"share": of the optimum (the sum of the best min(users, channels) channels), "mbps": of each user, "jain"}. Throws
// BadScenario.
nlohmann::json users(const UsersRun& run);

// Section 7's experiment: one client, access points on different channels, one download, real TCP over them.
struct SwitchingRun
{
  std::vector<double> mbps { 20, 14 }; // of each channel
  std::string rule = "published";      // published (equation 6), best-channel
  double alpha = 2;
  double cycle_ms = 200, least_ms = 10, cost_ms = 5;
  unsigned interval = 1; // published: cycles between two changes of the slots ("the interval is a multiple of C")
  std::string cc = "olia";
  double rtt_ms = 20;          // without queues
  unsigned buffer = 200;       // packets at each access point
  double receive_buffer = 3e6; // bytes, of the connection
  double seconds = 60, warmup = 10;
  std::uint64_t seed = 1;
};

// One channel: plain TCP (reno) without switching. {"mbps", "subflows": [{"mbps", "rtt_ms", "timeouts", "share": of the
// time}]}. Throws BadScenario.
nlohmann::json switching(const SwitchingRun& run);

} // namespace tandem::sim
