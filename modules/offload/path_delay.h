// The delay of a flow's ACK path, read from the server's timestamps: TSval of the server minus TSecr is that delay plus
// a constant, in ticks. Part of a flow's state; pure.
#pragma once

#include <tandem/flow.h>
#include <tandem/segment.h>
#include <tandem/units.h>

#include <chrono>
#include <cstdint>
#include <optional>

namespace tandem::offload
{

// a - b of two delays whose common constant is arbitrary, so that the difference may wrap; in ticks.
constexpr std::int32_t wrapped(std::int32_t a, std::int32_t b)
{
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(a) - static_cast<std::uint32_t>(b));
}

// Two clocks that nobody disciplines part by up to 200 ppm. By so much a delay that stays the same may seem to grow or
// to shrink, a tick in this time.
constexpr Duration tick_apart = std::chrono::seconds { 5 };

// Whether ACKs leave faster than the uplink takes them: then each waits longer in the queue that those before it have
// made. With r ACKs sent and c taken in a second, one that was sent s later waits s (r / c - 1) longer, so that two
// echoes tell r / c long before the queue is full.
class UplinkLoad
{
public:
  // Takes the delay of the ACK that left with the TSval `sent`, when its echo arrives for the first time. How many
  // times more ACKs were sent than the uplink took, above 1, once their delay has grown by more than `limit`; of those
  // that the server took within a `window` the least delay counts. All in ticks.
  std::optional<double> hear(TsClock sent, std::int32_t delay, std::int32_t window, std::int32_t limit);
  // From here on they are sent at another rate, or another way: what left with `sent` and before says nothing of it.
  void restart(TsClock sent)
  {
    mark_ = sent;
    waits_ = true;
    known_ = window_any_ = false;
  }

private:
  struct Ack
  {
    TsClock sent {};
    std::int32_t delay = 0;
  };

  Ack least_ {};       // with the least delay since restart()
  Ack in_window_ {};   // likewise in the running window
  TsClock mark_ {};    // restart()'s; then when the running window began, by the clock of which delays count
  bool waits_ = true;  // for what was sent since restart()
  bool known_ = false; // least_ is
  bool window_any_ = false;
};

class PathDelay
{
public:
  struct Heard
  {
    // Of the ACK whose echo the segment is the first to bring; not behind a pause of the server, which would count.
    std::optional<std::int32_t> ack {};
    std::optional<std::int32_t> round {}; // the smallest of a round trip, when one is complete
    bool clock_set = false; // the server's clock has leapt ahead: delays of before and of now are not of one kind
  };
  // Takes an arriving segment with timestamps.
  Heard hear(const Segment& segment, const FlowView& flow, Tick now);

  // Both clocks tick in milliseconds: delays can be compared.
  bool clocks_agree() const { return clocks_agree_; }
  // ACKs take another path from now on.
  void new_round() { round_any_ = false; }

private:
  void compare_clocks(TsClock local, TsClock remote, Tick now);
  bool leaps(TsClock remote, Tick now);

  TsClock last_echo_ {}; // newest TSecr seen
  TsClock first_local_ {}, first_remote_ {};
  TsClock last_remote_ {}; // newest TSval seen
  Tick first_at_ {};
  Tick round_at_ {};
  std::int32_t round_delay_ = 0; // smallest in the running round
  bool round_any_ = false;
  bool first_known_ = false;
  bool clocks_agree_ = false;
};

} // namespace tandem::offload
