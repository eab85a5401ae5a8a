// The marking of Croitoru et al. (NSDI 2015) 5.2, as published.
#pragma once

#include "tools/sim/client_host.h"
#include "tools/sim/transfer.h"

#include <functional>
#include <vector>

namespace tandem::sim
{

// Equation 5: the share of packets to mark so that a TCP flow over an access point with this packet time, alone there,
// keeps its throughput. Capped (6.2.1: 5 %). The formula has a pole at rtt = 50 packet times and is taken literally on
// both sides of it, the cap at the pole itself; without a packet time or a round-trip time the answer is 0.
double published_delta(Duration packet_time, Duration rtt, double cap = 0.05);

struct MarkingConfig
{
  double cap = 0.05;
  double threshold = 1.2;                              // of the best packet time: 5.2
  Duration period = std::chrono::milliseconds { 100 }; // how often the rates are computed anew
};

// Sets the rates of interfaces from given packet times and the round-trip times that the client measures.
class PublishedMarking
{
public:
  struct Entry
  {
    std::uint16_t interface = 0;
    std::function<Duration()> packet_time;
    std::function<Duration()> rtt;
  };
  PublishedMarking(World& world, const MarkingConfig& config, ClientHost& client, std::vector<Entry> entries);

private:
  void update();

  World& world_;
  MarkingConfig config_;
  ClientHost& client_;
  std::vector<Entry> entries_;
  Timer timer_;
};

} // namespace tandem::sim
