// One TCP download over a card that visits its access point in every wireless period and is elsewhere for the rest of
// it, packet by packet: figures 3, 5, 6 and 7 of Giustiniano et al., without their model.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <string>

namespace tandem::sim
{

struct VisitsRun
{
  double on_ms = 50, off_ms = 50; // connection and disconnection; together the wireless period
  double delay_ms = 50;           // end-to-end wired delay, both ways together
  double mbps = 24;               // what the air carries, each way
  double cost_ms = 1.5;           // of a switch, of the connection's time (section III-A: 1.2 up, 1.5 down)
  double loss = 0.0032;           // congestion signals per packet (section VI-C)
  std::string cc = "reno";
  unsigned buffer = 1000; // packets at the access point
  double seconds = 300, warmup = 10;
  std::uint64_t seed = 1;
};

// {"mbps", "rtt_ms": mean over packets, "under_way": segments, "retransmissions", "timeouts"}. Throws BadScenario.
nlohmann::json visits(const VisitsRun& run);

} // namespace tandem::sim
