// The invariants by name: what a plan was refused for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tandem::chain
{

enum class Violation : std::uint8_t
{
  none,
  ack_beyond_received, // acknowledges bytes this host does not hold
  window_raised,
  window_unscaled, // window edit while the scale is unknown
  ts_value_raised, // TSval newer than the local TCP's own
  ts_value_stale,  // TSval that PAWS would reject
  ts_echo_raised,  // TSecr newer than the local TCP's own
  no_timestamps,
  drop_forbidden,    // the ACK carries something that no later one repeats
  ecn_forbidden,     // ECN field of a packet that is not ECN-capable
  injected_sequence, // injected segment outside what this host has sent
  injected_flags,
  injected_sack, // SACK blocks that were never agreed, more than fit, or of bytes that are not acknowledged
  too_many_injected,
  authenticated,  // TCP-MD5 or TCP-AO
  route_unusable, // the link is down or has no route
  budget,         // the cellular budget is spent
  fetch_range,    // a fetch or a fill of something that is not a hole
  fetch_mptcp,    // likewise on an MPTCP subflow, whose bytes need a mapping
  too_many_fetches,
  content_unknown, // nothing is known any more of what the flow carries
};
constexpr std::size_t violation_count = 21;

std::string_view name(Violation violation);

// A refusal and a conflict pass the packet and count; everything else also takes the module out of the chain for this
// flow, because a module that asks for it is wrong rather than late.
constexpr bool is_refusal(Violation violation)
{
  return violation == Violation::route_unusable || violation == Violation::budget
         || violation == Violation::content_unknown;
}

// What another module did stood against the plan, which was right when its module last looked: it is asked again.
constexpr bool is_conflict(Violation violation)
{
  return violation == Violation::ts_value_stale;
}

} // namespace tandem::chain
