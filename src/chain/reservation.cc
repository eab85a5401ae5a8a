// One owner at a time for the TSvals of a flow (docs/decisions/0003).
#include "src/chain/chain.h"

#include <tandem/ts_reservation.h>

namespace tandem::chain
{

// A value is a module's own only when nothing ever carried it and no data of this host, whose TSvals nobody chooses, is
// waiting to be sent once more. What is sent while the module has a reservation is lowered, or ends it.
void Chain::reserve(std::size_t i, const TsReservation& wanted, flow::Flow& flow)
{
  FlowView& view = flow.view;
  const bool own = view.ts_reserved.what != TsReservation::What::none && flow.ts_owner == i;
  if (wanted.what == TsReservation::What::none)
  {
    if (own) view.ts_reserved = {};
    return;
  }
  const bool taken = view.ts_reserved.what != TsReservation::What::none && !own;
  const bool used = view.sent_any && !wanted.from.after(view.sent_ts_value);
  if (taken || used || (!own && view.snd_una != view.snd_nxt))
  {
    ++slots_[i].stats.conflicts;
    return;
  }
  view.ts_reserved = wanted;
  flow.ts_owner = static_cast<std::uint8_t>(i);
}

// Segments of this host of another origin leave with a TSval that is free. What arrives has the server's clock.
void Chain::keep_reservation(const Segment& segment, Outcome& outcome, flow::Flow& flow, bool by_owner)
{
  if (segment.direction != Direction::egress || !segment.timestamps || outcome.verdict != Verdict::pass) return;
  if (by_owner && outcome.edit.route && *outcome.edit.route != flow.view.link) return;
  const TsClock value = outcome.edit.ts_value.value_or(segment.timestamps->value);
  const TsClock free = flow.view.ts_reserved.free(value);
  if (free == value) return;
  outcome.edit.ts_value = free;
  if (outcome.why.empty()) outcome.why = "chain: TSval kept for a path validation";
  ++stats_.ts_lowered;
}

// Data of this host leaves with the kernel's own TSval: what it may have carried is nobody's any more. Of unseen data
// the server's acknowledgement tells; `una` and `next` are SND.UNA and SND.NXT before the segment.
void Chain::spoil_reservation(const Segment& segment, bool queued, Seq una, Seq next, flow::Flow& flow)
{
  TsReservation& reserved = flow.view.ts_reserved;
  if (reserved.what == TsReservation::What::none || !segment.timestamps) return;
  const bool arrived = segment.direction == Direction::ingress;
  if (arrived && !(segment.has(tcp_flag::ack) && segment.ack.after(una))) return;
  // What is queued can be given another TSval; what left before it unseen could not.
  if (!arrived && !segment.seq.after(next) && (queued || segment.sequence_length() == 0)) return;
  const TsClock carried = arrived ? segment.timestamps->echo : segment.timestamps->value;
  if (reserved.what == TsReservation::What::onward)
  {
    reserved = {};
    ++stats_.ts_spoiled;
  }
  else if (carried.at_or_after(reserved.from))
    reserved.from = carried + 1;
}

} // namespace tandem::chain
