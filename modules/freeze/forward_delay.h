// How much of the way of the data stands in queues, by the server's clock: its least of the last tenth of a second or
// two, above its least of all.
#pragma once

#include "modules/freeze/least_lately.h"

#include <tandem/seq.h>
#include <tandem/units.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <optional>

namespace tandem::freeze
{

// A round trip also counts the queue that ACKs stand in, where the uplink takes fewer than are sent: data that is
// withheld for it is missing on the way, and nothing is queued there (docs/results/thin-uplinks.md). The TSval that an
// ACK echoes is when its data was sent (RFC 7323 4.2), in units that only the server knows; here: only where it ticks
// in milliseconds, as Linux and FreeBSD do.
class ForwardDelay
{
public:
  // Of an ACK of the local TCP: what it echoes, and when it was sent, ms.
  void look(TsClock echoed, std::uint32_t clock)
  {
    const std::uint32_t offset = clock - echoed.raw;
    if (!begun_)
    {
      begun_ = true;
      first_ = offset;
      began_ = raised_ = clock;
      lately_.restart(clock);
    }
    const auto delay = static_cast<std::int32_t>(offset - first_);
    // A queue that has just filled is no other clock: it is looked at again.
    const std::uint32_t passed = clock - began_;
    if (!agrees_ && passed >= settle) agrees_ = std::abs(std::int64_t { delay }) < passed / 4;
    static_cast<void>(lately_.turns(clock));
    lately_.take(delay);
    const std::uint32_t rise = (clock - raised_) / parting;
    raised_ += rise * parting;
    base_ = std::min(base_ + static_cast<std::int32_t>(rise), delay);
  }

  // Seconds; nothing while the server's clock is not known to tick in milliseconds.
  std::optional<double> delay() const
  {
    if (!agrees_) return {};
    return static_cast<double>(std::max(std::int64_t { lately_.least() } - base_, std::int64_t { 0 })) * 1e-3;
  }

  // Ticks of the server's clock in a millisecond, at most 1, of which the newest TSval came at `clock`; also 1 while
  // that is not known.
  double pace(TsClock newest, std::uint32_t clock) const
  {
    const auto passed = static_cast<std::int32_t>(clock - began_);
    if (!begun_ || agrees_ || passed < known_after) return 1;
    const std::uint32_t ticks = newest.raw - (began_ - first_);
    return std::min(1.0, static_cast<double>(ticks) / passed);
  }

private:
  static constexpr std::uint32_t settle = 500; // ms, for a clock to show its pace
  // ms, for it to show which one: a queue that has filled meanwhile makes it seem slower.
  static constexpr std::int32_t known_after = 2000;
  // ms, in which clocks that part by 200 ppm do so by one. The least rises by as much: a queue may stand for minutes.
  static constexpr std::uint32_t parting = 5000;

  std::uint32_t first_ = 0; // this host's clock less the server's, ms, at the first ACK
  std::uint32_t began_ = 0; // when that was
  std::uint32_t raised_ = 0;
  LeastLately<std::int32_t> lately_ {}; // ms more than at the first ACK
  std::int32_t base_ = 0;               // likewise
  bool begun_ = false;
  bool agrees_ = false; // the server's clock ticks in milliseconds
};

} // namespace tandem::freeze
