#include "modules/rate/connection.h"

#include <algorithm>
#include <cmath>
#include <string>

namespace tandem::rate
{

namespace
{

[[noreturn]] void no_slot(std::size_t station)
{
  throw BadInput("access point " + std::to_string(station + 1) + " has no slot in this allocation");
}

} // namespace

Schedule::Schedule(const Slots& slots, const Allocation& allocation, Station station)
{
  connections_.reserve(slots.count[station]);
  double at = 0;
  bool before = false; // the slot before was ours, too
  for (const Station owner : allocation)
  {
    const double end = at + seconds(slots.length[owner]);
    if (owner == station) add(at, end, before);
    before = owner == station;
    at = end;
  }
  if (connections_.empty()) no_slot(station);
  close(at, before && allocation.front() == station);
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

void Schedule::add(double begin, double end, bool joined)
{
  if (joined)
    connections_.back().end = end;
  else
    connections_.push_back({ begin, end });
}

void Schedule::close(double period, bool over_the_end)
{
  period_ = period;
  if (connections_.size() < 2 || !over_the_end) return;
  connections_.back().end += connections_.front().length();
  connections_.erase(connections_.begin());
}

double Schedule::connected_until(double time, const Phase& phase) const
{
  if (const double end = connections_.back().end - period_; phase.at < end) return phase.start + end;
  for (const Connection& one : connections_)
    if (phase.at >= one.begin && phase.at < one.end) return phase.start + one.end;
  return time;
}

double Schedule::next_begin(double time, const Phase& phase) const
{
  for (const Connection& one : connections_)
    if (phase.at <= one.begin + 2 * rounding) return std::max(time, phase.start + one.begin);
  return phase.start + period_ + connections_.front().begin;
}

Schedule::Look Schedule::look(double time) const
{
  const Phase now = phase(time);
  const double until = connected_until(time, now);
  return { until > time ? time : next_begin(time, now), until };
}

double Schedule::connected_until(double time) const
{
  return connected_until(time, phase(time));
}

double Schedule::next_connected(double time) const
{
  return look(time).next_connected;
}

double Schedule::next_begin(double time) const
{
  return next_begin(time, phase(time));
}

Timetable::Timetable(const Slots& slots)
{
  for (std::size_t i = 0; i < slots.stations(); ++i)
  {
    lengths_.push_back(seconds(slots.length[i]));
    schedules_.push_back(Schedule());
    schedules_.back().connections_.reserve(slots.count[i]);
  }
}

void Timetable::set(const Allocation& allocation)
{
  for (Schedule& one : schedules_)
    one.connections_.clear();
  double at = 0;
  std::size_t before = schedules_.size(); // whose the slot before is: nobody's
  for (const Station owner : allocation)
  {
    const double end = at + lengths_[owner];
    schedules_[owner].add(at, end, owner == before);
    before = owner;
    at = end;
  }
  for (std::size_t i = 0; i < schedules_.size(); ++i)
  {
    if (schedules_[i].connections_.empty()) no_slot(i);
    schedules_[i].close(at, i == before && allocation.front() == i);
  }
}

} // namespace tandem::rate
