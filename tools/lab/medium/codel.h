// CoDel (RFC 8289): whether the packet at the head of a queue is dropped.
#pragma once

#include "tools/lab/medium/outbox.h"

#include <cmath>
#include <cstdint>
#include <optional>

namespace tandem::medium
{

// One queue's state, with the names of RFC 8289, section 5.3. Drops ever more often while every packet of an interval
// has waited longer than TARGET; INTERVAL is the RFC's 100 ms.
class Codel
{
public:
  // Asked once for each packet that leaves the queue at `at`: true when it is dropped, and the next one is asked about.
  // `waited`: since it came; `behind`: bytes that are left in the queue.
  bool drops(Duration waited, std::uint64_t behind, Duration target, Tick at)
  {
    // Below one packet there is no standing queue.
    const bool below = waited < target || behind <= max_packet;
    if (below)
      first_above_time_.reset();
    else if (!first_above_time_)
      first_above_time_ = at + interval;
    const bool ok_to_drop = !below && at >= *first_above_time_;
    if (dropping_)
    {
      dropping_ = ok_to_drop;
      if (!dropping_ || at < drop_next_) return false;
      ++count_;
      drop_next_ = control_law(drop_next_);
      return true;
    }
    if (!ok_to_drop) return false;
    dropping_ = true;
    const std::uint32_t delta = count_ - last_count_;
    count_ = delta > 1 && at - drop_next_ < 16 * interval ? delta : 1;
    drop_next_ = control_law(at);
    last_count_ = count_;
    return true;
  }

private:
  static constexpr Duration interval = std::chrono::milliseconds { 100 };
  static constexpr std::uint64_t max_packet = 1500;

  Tick control_law(Tick from) const
  {
    return from + Duration { static_cast<std::int64_t>(static_cast<double>(interval.count()) / std::sqrt(count_)) };
  }

  std::optional<Tick> first_above_time_ {};
  Tick drop_next_ {};
  std::uint32_t count_ = 0, last_count_ = 0;
  bool dropping_ = false;
};

} // namespace tandem::medium
