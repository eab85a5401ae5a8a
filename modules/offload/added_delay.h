// How much slower than Wi-Fi the way of the ACKs may be.
#pragma once

#include <tandem/flow.h>

namespace tandem::offload
{

// The added delay, in seconds, that is worth while without any queue: `free`, or for a rate-based sender the shortest
// round trip. Such a sender is limited by its rate, with up to twice its bandwidth-delay product in flight (BBR's
// cwnd_gain), so that its rate lasts while a round trip takes twice as long; it empties its queue on purpose, and each
// change of path would be a false sample of its bandwidth (docs/results/offload-again.md).
double unqueued_delay(const FlowView& flow, double free);

// The added delay beyond which the cellular path is not worth while, in seconds; `queue`: the standing queue by Wi-Fi,
// in seconds. What a sender of window W delivers is min(C, W / (shortest + added)); as long as `added` is no more than
// what stands in queues on average, W delivers as much at the moment of the change as before, and grows on from there
// into the air that is free. Once it has grown more would do: a loss-based sender over R whose queue swings between Ql
// and Qh keeps the link full up to Ql (R + Qh) / (Qh - Ql), but until then it is the slower for it
// (docs/results/offload-virtual.md).
double longest_delay(const FlowView& flow, double free, double queue);

} // namespace tandem::offload
