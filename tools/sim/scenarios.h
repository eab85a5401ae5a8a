// Simulations described by JSON: what sweeps and benches run. docs/sim.md has the format.
#pragma once

#include <nlohmann/json.hpp>

#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace tandem::sim
{

// What is wrong with a description, with its place ("flows[0].cc").
struct BadScenario : std::runtime_error
{
  using std::runtime_error::runtime_error;
};

// Runs it and tells what came of it: {"flows": [...], "links": [...], "client": {...}, "events", "wall_seconds"}.
// Everything but wall_seconds depends on the description alone. Throws BadScenario.
nlohmann::json simulate(const nlohmann::json& description);

// The settings of the paper's simulations (6.2.1) that a bench varies.
struct Paper
{
  double rtt_ms = 50;
  double t1_ms = 3;             // packet time of AP1
  double t2_ms = 0.5;           // of AP2: a perfect 802.11a/g connection
  double weight = 1;            // AP1 wins contention so often for once of AP2
  std::string fair = "packets"; // what the weights share: packets (contention) or air (its time)
  std::string cc = "olia";
  std::string repair = "rack";
  std::string scheduler = "lowest-rtt";
  std::string arm = "mptcp";            // mptcp; ap1, ap2 (of many: the first, the last): plain TCP (reno)
  std::string marking = "none";         // none, published, fixed
  std::string marking_rtt = "smoothed"; // of the formula: as the client measures it now, or the least it has seen
  double mark1 = 0;                     // fixed: rate on AP1
  bool ecn = true;                      // the sender negotiates ECN
  double buffer = 200;                  // packets at each access point
  double receive_buffer = 3e6;
  double uplink_flows = 0; // uplink: TCP flows that compete for the uplink of AP2
  double uplink_mbps = 25;
  double uplink_queue = 100;              // packets
  unsigned aps = 2;                       // many: all together, the good one included
  std::string others = "poor";            // many: poor (6 ms) or mixed (uniform between 0.5 and 6 ms)
  std::string best = "last";              // many: which one is the good one (first: it is among those with roles)
  std::vector<std::string> modules {};    // of the daemon, that run at the client
  std::map<std::string, double> knobs {}; // "offload.window_mss": value
  bool radio = true;                      // modules are told the packet times
  bool estimator = false;                 // as the daemon's estimator measures them, not the true ones
  bool survey = true;                     // and how much of the air is in use
  double seconds = 60, warmup = 20;
  std::uint64_t seed = 1;
};

nlohmann::json grid(const Paper& paper);   // scenario 1 (figures 4a, 6a)
nlohmann::json uplink(const Paper& paper); // scenario 2 (figures 4b, 6b)
nlohmann::json many(const Paper& paper);   // figure 6c

double mean(const std::vector<double>& values); // 0 of none

} // namespace tandem::sim
