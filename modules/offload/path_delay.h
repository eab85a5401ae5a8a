// The delay of a flow's ACK path, read from the server's timestamps: TSval of the server minus TSecr is that delay plus
// a constant, in ticks. Part of a flow's state; pure.
#pragma once

#include <tandem/flow.h>
#include <tandem/segment.h>
#include <tandem/units.h>

#include <cstdint>
#include <optional>

namespace tandem::offload
{

// a - b of two delays whose common constant is arbitrary, so that the difference may wrap; in ticks.
constexpr std::int32_t wrapped(std::int32_t a, std::int32_t b)
{
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(a) - static_cast<std::uint32_t>(b));
}

class PathDelay
{
public:
  // Takes an arriving segment with timestamps. The smallest delay of a round trip when one is complete.
  std::optional<std::int32_t> hear(const Segment& segment, const FlowView& flow, Tick now);

  // Both clocks tick in milliseconds: delays can be compared.
  bool clocks_agree() const { return clocks_agree_; }
  // ACKs take another path from now on.
  void new_round() { round_any_ = false; }

private:
  void compare_clocks(TsClock local, TsClock remote, Tick now);

  TsClock last_echo_ {}; // newest TSecr seen
  TsClock first_local_ {}, first_remote_ {};
  Tick first_at_ {};
  Tick round_at_ {};
  std::int32_t round_delay_ = 0; // smallest in the running round
  bool round_any_ = false;
  bool first_known_ = false;
  bool clocks_agree_ = false;
};

} // namespace tandem::offload
