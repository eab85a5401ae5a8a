// How much of what the local TCP acknowledged may be kept from the server, whoever keeps it. What is let go in one
// piece draws a burst as large, in slow start twice as large, and most of that is lost where a queue is about to
// overflow (docs/decisions/0015).
#pragma once

#include <tandem/flow.h>
#include <tandem/module.h>

#include <cstdint>

namespace tandem::chain
{

// In segments of FlowView::mss.
struct ReleaseLimits
{
  std::uint32_t young = 2;    // while the sender may be in slow start
  std::uint32_t settled = 10; // then: an initial window (RFC 6928), which any path bears
  // Of these, what lowered ACK numbers leave to ACKs that are left out, while a module leaves some out: three of two
  // segments each, so that one in four can be enough. Without it `freeze` would take all and `offload` could leave out
  // none.
  std::uint32_t room = 6;
  // While a blackout is predicted, this share of the sender's window instead: the window is closed before what was
  // withheld is let go.
  double warned = 0.125;
};

// Bytes that may wait for the next ACK.
std::uint32_t may_wait(const ReleaseLimits& limits, const FlowView& flow, const LinkState& link);

// Bytes by which ACK numbers may be lowered. As above, less the room for ACKs that are `left_out` by another module,
// but nothing while holes stand, nor until the sender may have come back from its recovery: the ACK that reaches the
// recovery point leaves as it is.
std::uint32_t may_withhold(const ReleaseLimits& limits, const FlowView& flow, const LinkState& link, bool left_out,
                           Tick now);

} // namespace tandem::chain
