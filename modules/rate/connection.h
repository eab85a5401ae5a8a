// When a virtual station is connected to its access point.
#pragma once

#include "modules/rate/slot_plan.h"

#include <span>
#include <vector>

namespace tandem::rate
{

// The connected times of one station in a period that repeats, in seconds: neighbouring slots are one connection, also
// over the period's end. begin lies in [0, period); end may lie behind the period.
struct Connection
{
  double begin = 0, end = 0;
  double length() const { return end - begin; }
};

class Schedule
{
public:
  Schedule(const Slots& slots, const Allocation& allocation, Station station);
  // One connection of `on` and then a disconnection of `off`.
  Schedule(Duration on, Duration off);

  double period() const { return period_; }
  double connected() const; // seconds of each period
  std::span<const Connection> connections() const { return connections_; }
  // `time` itself when the station is connected then, else the beginning of its next connection.
  double next_connected(double time) const;
  // The end of the connection at `time`; `time` itself when there is none.
  double connected_until(double time) const;
  // The beginning of the first connection that begins at or after `time`.
  double next_begin(double time) const;
  // The beginning of the connection behind the i-th one.
  double begin_after(std::size_t i) const
  {
    return i + 1 < connections_.size() ? connections_[i + 1].begin : period_ + connections_.front().begin;
  }
  // next_connected() and connected_until() at once.
  struct Look
  {
    double next_connected = 0, connected_until = 0;
  };
  Look look(double time) const;

private:
  friend class Timetable;
  struct Phase
  {
    double start = 0, at = 0; // of the period, and the place in it, which lies `rounding` too far
  };
  static constexpr double rounding = 1e-10; // s: a time that near before a boundary is at it
  Schedule() = default;
  Phase phase(double time) const;
  double connected_until(double time, const Phase& phase) const;
  double next_begin(double time, const Phase& phase) const;
  void add(double begin, double end, bool joined); // a slot; `joined`: the slot before was this station's, too
  void close(double period, bool over_the_end);    // all slots are added

  double period_ = 0;
  std::vector<Connection> connections_; // by begin; never empty
};

// The schedules of all stations, made in one pass over the slots, in memory that is used again: a search asks for them
// after every exchange of two slots.
class Timetable
{
public:
  explicit Timetable(const Slots& slots);
  // Throws BadInput when a station has no slot.
  void set(const Allocation& allocation);
  const Schedule& of(Station station) const { return schedules_[station]; }

private:
  std::vector<double> lengths_; // s, of a station's slots
  std::vector<Schedule> schedules_;
};

} // namespace tandem::rate
