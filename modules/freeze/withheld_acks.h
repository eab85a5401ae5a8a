// Acknowledgements that are withheld while all is well, so that there is something to acknowledge after a blackout: how
// many, and what that makes of an ACK at hand (docs/decisions/0006).
#pragma once

#include "modules/freeze/blackout_state.h"
#include "modules/freeze/knobs.h"

#include <tandem/module.h>

namespace tandem::freeze
{

// A download of which something may be withheld.
bool bulk(const FlowView& flow, const LinkStates& links, const Knobs& knobs);
// Whether what arrives while the link is away is kept by its access point: as the core says, else as this flow found.
bool keeps_frames(const FlowView& flow, const LinkStates& links, const BlackoutState& state);
// One that pays for every byte that is withheld, because its receive window limits it, and whose resume ACK would
// bring little: LCD does better (docs/results/freeze.md).
bool window_limited(const FlowView& flow);
// How long without progress means that the flow pauses. Shorter than the sender's tail loss probe, which waits for two
// round trips (RFC 8985 7.2).
Duration release_timeout(const FlowView& flow, const Knobs& knobs);
// A window into which no segment fits. With data in flight and a window of zero a Linux sender takes every expiry of
// its timer for a new one, and forgets the congestion window it had (tcp_retransmit_timer): one unit, if the scale
// allows. With nothing in flight it would fill that unit with a probe, which is then lost and counts as data: zero.
std::uint16_t closed_window(const FlowView& flow, bool in_flight);

// Whether the server learns something from an ACK by cellular, which leaves out PathValidation::lag bytes.
bool news_by_cell(const FlowView& flow);

// What is to become of the pure ACK at hand.
Plan withhold_acks(const Event& event, const FlowView& flow, BlackoutState& state, const Knobs& knobs, bool progress);

} // namespace tandem::freeze
