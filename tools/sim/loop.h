// The event loop of the simulator: virtual time, no clock.
#pragma once

#include <tandem/units.h>

#include <cstdint>
#include <functional>
#include <queue>
#include <utility>

namespace tandem::sim
{

class Loop;

// Calls back at a time that may be moved. Must live as long as the loop runs.
class Timer
{
public:
  Timer(Loop& loop, std::function<void()> fire) : loop_(loop), fire_(std::move(fire)) {}
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  // Replaces what was set before. Tick::max(): never. A time in the past: at once, after what is due already.
  void set(Tick at);
  void stop() { due_ = Tick::max(); }
  bool armed() const { return due_ != Tick::max(); }
  Tick due() const { return due_; }

private:
  friend class Loop;
  Loop& loop_;
  std::function<void()> fire_;
  Tick due_ = Tick::max();
  Tick queued_ = Tick::max(); // the earliest entry in the loop's heap that stands for this timer
};

// Events of the same time happen in the order in which they were set: a run depends on its seed alone.
class Loop
{
public:
  Tick now() const { return now_; }
  // Everything up to and including `end`.
  void run_until(Tick end)
  {
    while (!heap_.empty() && heap_.top().at <= end)
      step();
    now_ = end;
  }
  // Until `over` says so, or `end`. Asked after every event.
  template <class Over>
  void run_until(Tick end, Over&& over)
  {
    while (!over() && !heap_.empty() && heap_.top().at <= end)
      step();
  }
  std::uint64_t events() const { return events_; }

private:
  friend class Timer;
  struct Entry
  {
    Tick at {};
    std::uint64_t order = 0;
    Timer* timer = nullptr;
    bool operator<(const Entry& other) const { return at != other.at ? at > other.at : order > other.order; }
  };

  void step()
  {
    const Entry entry = heap_.top();
    heap_.pop();
    Timer& timer = *entry.timer;
    if (timer.queued_ != entry.at) return; // an earlier entry has taken its place
    timer.queued_ = Tick::max();
    if (timer.due_ == Tick::max()) return;
    if (timer.due_ > entry.at) // was moved on
    {
      push(timer, timer.due_);
      return;
    }
    now_ = entry.at;
    timer.due_ = Tick::max();
    ++events_;
    timer.fire_();
  }
  void push(Timer& timer, Tick at)
  {
    timer.queued_ = at;
    heap_.push({ at, order_++, &timer });
  }

  std::priority_queue<Entry> heap_;
  Tick now_ {};
  std::uint64_t order_ = 0;
  std::uint64_t events_ = 0;
};

inline void Timer::set(Tick at)
{
  due_ = at;
  if (at == Tick::max()) return;
  if (at < loop_.now()) due_ = loop_.now();
  if (queued_ == Tick::max() || due_ < queued_) loop_.push(*this, due_);
}

} // namespace tandem::sim
