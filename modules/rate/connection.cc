#include "modules/rate/connection.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace tandem::rate
{

Schedule::Schedule(const Slots& slots, const Allocation& allocation, Station station)
{
  connections_.reserve(slots.count[station]);
  double at = 0;
  bool before = false; // the slot before was ours, too
  for (const Station owner : allocation)
  {
    const double end = at + seconds(slots.length[owner]);
    if (owner == station && before)
      connections_.back().end = end;
    else if (owner == station)
      connections_.push_back({ at, end });
    before = owner == station;
    at = end;
  }
  period_ = at;
  if (connections_.empty())
    throw BadInput("access point " + std::to_string(station + 1) + " has no slot in this allocation");
  if (connections_.size() > 1 && before && allocation.front() == station) // one connection over the end
  {
    connections_.back().end += connections_.front().length();
    connections_.erase(connections_.begin());
  }
}

Schedule::Schedule(Duration on, Duration off) : period_(seconds(on + off)), connections_ { { 0, seconds(on) } }
{
  if (on <= Duration {} || off < Duration {})
    throw BadInput("a connection must be above 0 and a disconnection not below it");
}

double Schedule::connected() const
{
  double sum = 0;
  for (const Connection& one : connections_)
    sum += one.length();
  return sum;
}

Schedule::Phase Schedule::phase(double time) const
{
  const double start = std::floor((time + rounding) / period_) * period_;
  return { start, time - start + rounding };
}

double Schedule::connected_until(double time) const
{
  const auto [start, at] = phase(time);
  if (const double end = connections_.back().end - period_; at < end) return start + end;
  for (const Connection& one : connections_)
    if (at >= one.begin && at < one.end) return start + one.end;
  return time;
}

double Schedule::next_connected(double time) const
{
  return connected_until(time) > time ? time : next_begin(time);
}

double Schedule::next_begin(double time) const
{
  const auto [start, at] = phase(time);
  for (const Connection& one : connections_)
    if (at <= one.begin + 2 * rounding) return std::max(time, start + one.begin);
  return start + period_ + connections_.front().begin;
}

} // namespace tandem::rate
