#include "tools/sim/card.h"

#include <algorithm>
#include <utility>

namespace tandem::sim
{

Card::Card(World& world, const std::vector<double>& rates, Duration cost, std::uint32_t buffer, Rule rule)
    : world_(world), cost_(cost), rule_(std::move(rule)), slot_over_(world.loop, [this] { next(); }),
      ready_(world.loop, [this] { arrived(); })
{
  for (const double mbps : rates)
  {
    auto made = std::make_unique<Channel>();
    made->down = std::make_unique<Wire>(world, medium::PipeConfig { .rate = { mbps * 1e6 }, .queue_packets = buffer });
    made->up = std::make_unique<Wire>(world, medium::PipeConfig { .rate = { mbps * 1e6 }, .queue_packets = buffer });
    hold(*made, true);
    channels_.push_back(std::move(made));
  }
  slot_over_.set(world.now());
}

void Card::hold(Channel& channel, bool away)
{
  channel.down->set_down(away, true);
  channel.up->set_down(away, true);
}

void Card::next()
{
  const std::size_t before = at_;
  bool cycle_over = !begun_;
  if (begun_)
  {
    Channel& left = *channels_[at_];
    const auto bytes = static_cast<double>(left.down->pipe().stats().delivered_bytes);
    left.visit.bytes += bytes - left.bytes_before;
    left.bytes_before = bytes;
  }
  do
  {
    if (begun_) at_ = (at_ + 1) % channels_.size();
    if (at_ == 0) cycle_over = true;
    if (cycle_over)
    {
      std::vector<Visit> visits;
      for (const auto& channel : channels_)
      {
        visits.push_back(channel->visit);
        channel->visit = {};
      }
      slots_ = rule_(visits);
      cycle_over = false;
    }
    begun_ = true;
  } while (slots_[at_] <= Duration {});

  Channel& here = *channels_[at_];
  const bool moved = at_ != before || away_;
  if (at_ != before) hold(*channels_[before], true);
  const Duration cost = moved && channels_.size() > 1 ? cost_ : Duration {};
  here.visit.there = slots_[at_];
  here.visit.receiving = std::max(Duration {}, slots_[at_] - cost);
  here.total += slots_[at_];
  away_ = moved;
  if (moved) ready_.set(world_.now() + cost);
  slot_over_.set(world_.now() + slots_[at_]);
}

void Card::arrived()
{
  away_ = false;
  hold(*channels_[at_], false);
}

} // namespace tandem::sim
