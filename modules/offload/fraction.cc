#include "modules/offload/fraction.h"

#include <cstdint>

namespace tandem::offload
{

// Chance comes from the seed and the ACK number, so that a replay draws the same.
Plan Fraction::decide(const Event& event, const FlowView& flow, State&)
{
  if (event.kind != EventKind::segment || !event.queued || event.segment->direction != Direction::egress
      || !event.segment->is_pure_ack())
    return {};
  if (flow.window_estimate < knobs.window_mss * flow.mss || !usable(Link::cell, *event.links, flow)) return {};
  std::uint64_t h =
      event.seed ^ (static_cast<std::uint64_t>(event.segment->ack.raw) << 32) ^ flow.bytes_delivered ^ flow.id;
  h = (h ^ (h >> 33)) * 0xff51afd7ed558ccdull;
  h = (h ^ (h >> 33)) * 0xc4ceb9fe1a85ec53ull;
  const double draw = static_cast<double>((h ^ (h >> 33)) >> 11) * 0x1p-53;
  if (draw >= knobs.fraction) return {};
  return { .edit = { .route = Link::cell }, .why = "offload: fraction by cellular" };
}

void Fraction::describe(const FlowView&, const State&, Facts& facts) const
{
  facts.add("share of ACKs by cellular", knobs.fraction);
}

} // namespace tandem::offload
