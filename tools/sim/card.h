// One Wi-Fi card that visits access points on different channels: while it is elsewhere, each keeps its packets (power
// save).
#pragma once

#include "tools/sim/stages.h"

#include <functional>
#include <memory>
#include <vector>

namespace tandem::sim
{

class Card
{
public:
  // What a cycle brought: bytes of each channel, how long the card was there, and how long of that it could receive.
  struct Visit
  {
    double bytes = 0;
    Duration there {}, receiving {};
  };
  // Slots of the next cycle from what the last one brought; 0: the channel is left out. One at least must be above 0.
  using Rule = std::function<std::vector<Duration>(const std::vector<Visit>&)>;

  // `rates`: Mb/s of each channel; `cost`: of a switch, in which nothing is received or sent. `buffer`: packets at each
  // access point.
  Card(World& world, const std::vector<double>& rates, Duration cost, std::uint32_t buffer, Rule rule);

  // Packets to the client, and from it, by an access point.
  Stage& down(std::size_t channel) { return *channels_[channel]->down; }
  Stage& up(std::size_t channel) { return *channels_[channel]->up; }
  const std::vector<Duration>& slots() const { return slots_; }
  // Time spent on the channel since the start, costs included.
  Duration total(std::size_t channel) const { return channels_[channel]->total; }

private:
  struct Channel
  {
    std::unique_ptr<Wire> down, up;
    Visit visit {};
    Duration total {};
    double bytes_before = 0;
  };
  void next();
  void arrived();
  void hold(Channel& channel, bool away);

  World& world_;
  Duration cost_;
  Rule rule_;
  std::vector<std::unique_ptr<Channel>> channels_;
  std::vector<Duration> slots_;
  std::size_t at_ = 0;
  bool begun_ = false;
  bool away_ = true; // on its way to the channel
  Timer slot_over_, ready_;
};

} // namespace tandem::sim
