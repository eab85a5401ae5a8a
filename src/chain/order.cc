// ACKs of a flow that leave by two links reach the server in the order in which the local TCP sent them.
#include "src/chain/chain.h"

#include <tandem/path_validation.h>
#include <tandem/pure_ack.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

namespace tandem::chain
{

namespace
{

constexpr std::size_t most_waiting = 4096; // of all flows

// Whether an injected copy says all that the ACK says.
bool can_be_copied(const Segment& ack, const Edit& edit, const FlowView& flow)
{
  return ack.is_pure_ack() && !edit.ecn && !ack.has_option(option::mptcp) && !tied_to_its_flags(ack, flow)
         && ack.sack_count <= InjectedSegment {}.sack_blocks.size();
}

} // namespace

Elsewhere* Chain::elsewhere(std::uint64_t flow)
{
  const auto found = elsewhere_.find(flow);
  return found == elsewhere_.end() ? nullptr : &found->second;
}

// Until now all ACKs have left by the flow's own link.
Elsewhere& Chain::begin_elsewhere(const FlowView& flow)
{
  return elsewhere_
      .try_emplace(flow.id, Elsewhere { .told = flow.sent_ack,
                                        .any = flow.sent_any,
                                        .until = {},
                                        .way = flow.sent_any ? OwnWay { flow.sent_ack + flow.scaled(flow.sent_window) }
                                                             : OwnWay {} })
      .first->second;
}

// When an ACK number may leave by the flow's own link. What left by a slower one is still on its way: an ACK that
// overtakes it tells the server at once what the others would have told it one after the other, and the sender answers
// with a burst as large (docs/decisions/0015). Such an ACK waits until the others are there. Those behind it wait less
// and less, so that they leave at twice the rate at which the local TCP sent them, until none has to wait. `own`: what
// the local TCP's own ACK is ahead of the one before it.
Tick Chain::leaves_at(Seq ack, std::uint32_t own, const flow::Flow& flow, Tick now)
{
  const FlowView& view = flow.view;
  const Elsewhere* const other = elsewhere(view.id);
  if (other == nullptr) return now;
  // No longer than the sender's timer bears: Linux's is 200 ms above the round trip.
  const Duration added = std::min(other->added, view.rtt_smoothed / 2);
  const Duration since = now - other->last;
  if (added <= Duration {} || since >= 2 * added || waiting_.size() >= most_waiting) return now;
  if (now >= other->until)
  {
    const std::uint32_t most = may_wait(options_.release, view, links_[static_cast<std::size_t>(view.link)]);
    if (!(ack - most - own).after(other->told)) return now;
    // Who has not been heard of lately may have heard nothing: what left by the other link is lost, and waited for.
    if (!usable(Link::cell, links_, view) || now - view.rtt_at >= view.rtt_smoothed / 2) return now;
  }
  return other->last + added + since / 2;
}

// The ACK at hand is to leave, by whichever link. Where it would overtake others it waits for them, as a copy.
void Chain::keep_order(const Segment& ack, const LastAck& before, Outcome& outcome, flow::Flow& flow, Tick now)
{
  const Link by = outcome.edit.route.value_or(flow.view.link);
  const Edit& edit = outcome.edit;
  if (by != flow.view.link || !can_be_copied(ack, edit, flow.view)) return;
  const Seq number = edit.ack.value_or(ack.ack);
  const std::uint32_t own = ack.ack.after(before.ack) ? static_cast<std::uint32_t>(ack.ack - before.ack) : 0;
  if (leaves_at(number, own, flow, now) <= now) return;
  InjectedSegment copy { .by = by,
                         .seq = ack.seq,
                         .ack = number,
                         .window = edit.window.value_or(ack.window),
                         .window_waits = edit.window && *edit.window < outcome.told_window,
                         .flags = ack.flags,
                         .timestamps = ack.timestamps,
                         .sack_blocks = ack.sack_blocks,
                         .sack_count = ack.sack_count };
  if (copy.timestamps)
    copy.timestamps = { edit.ts_value.value_or(copy.timestamps->value), edit.ts_echo.value_or(copy.timestamps->echo) };
  send(flow, copy, false, "chain: ACK that waits for those by cellular", now, own);
  outcome.verdict = Verdict::drop;
  outcome.edit = {};
  outcome.why = "chain: waits for the ACKs by cellular";
}

// `ack` leaves by `by` at `now` or, by the flow's own link, at `at`.
void Chain::note_order(Seq ack, std::uint16_t window, Link by, Tick at, flow::Flow& flow, Tick now)
{
  const FlowView& view = flow.view;
  // Who goes by another flow's word begins at once: what is said before must be known by then.
  const bool on_word = view.cell_path_known && view.window_estimate > 0 && view.sent_any;
  Elsewhere* other = on_word ? &begin_elsewhere(view) : elsewhere(view.id);
  if (other != nullptr && view.sent_any) other->way.left(view.sent_ts_value, view.sent_ack, now, view.rtt_smoothed);
  if (by != view.link)
  {
    if (other == nullptr) other = &begin_elsewhere(view);
    // A copy of what leaves by the flow's own link as well tells the server nothing that could be overtaken.
    if (!other->any || ack.after(other->told)) other->last = now;
    // So far back it is as old as can be; farther, it would come to be ahead.
    constexpr std::int32_t farthest = 1 << 30;
    if (ack - other->told > farthest) other->told = ack - std::uint32_t { farthest };
    return;
  }
  if (other == nullptr) return;
  other->told = other->any ? later(other->told, ack) : ack;
  other->any = true;
  other->way.opened(ack + view.scaled(window));
  if (at > now) other->until = at;
}

// The server has echoed something of a flow whose ACKs leave by another link. What keeps the state of connections on
// the way of the data hears of an older number, which the server is known to have and ignores.
void Chain::tell_own_way(TsClock echo, flow::Flow& flow, Tick now)
{
  const FlowView& view = flow.view;
  Elsewhere* const other = elsewhere_.empty() ? nullptr : elsewhere(view.id);
  if (other == nullptr || !view.sent_any || view.bypass != Bypass::none) return;
  // What never left is not echoed: the copy is damaged, since nobody has verified its checksum.
  if (echo.after(view.sent_ts_value)) return;
  const std::optional<Seq> newest = other->way.known_by(echo);
  if (!newest || now - other->last > view.rtt_smoothed + std::chrono::milliseconds { 200 }) return;
  // Below it, so that it is no duplicate; and what leaves by another link acknowledges a little less.
  const Seq number = *newest - PathValidation::lag - 1;
  const std::uint16_t window = window_for_firewalls(view);
  const Seq edge = number + view.scaled(window);
  if (!other->way.due(edge, view.scaled(window), view)) return;
  other->way.opened(edge);
  InjectedSegment ack { .by = view.link, .seq = view.snd_nxt, .ack = number, .window = window };
  ack.flags = injected_flags(ack.flags, view);
  // A TSval that the server has, too: a younger one would make it refuse what is on its way by a slower link (PAWS).
  ack.timestamps = Timestamps { view.ts_reserved.free(echo), view.ts_recent };
  ++stats_.own_way_told;
  output_.segments.push_back(
      { view.id, view.key, ack, "chain: for firewalls on the way of the data", known(view), no_slot, flow.ip_class });
}

// What waits leaves now: the segment at hand must not overtake it, or nothing is to be waited for any more.
void Chain::end_wait(flow::Flow& flow)
{
  Elsewhere* const other = elsewhere(flow.view.id);
  if (other == nullptr || other->until == Tick {}) return;
  other->until = {};
  const auto mine = std::partition(waiting_.begin(), waiting_.end(),
                                   [&](const Waiting& one) { return one.injection.flow != flow.view.id; });
  std::sort(mine, waiting_.end(), [](const Waiting& a, const Waiting& b) { return leaves_later(b, a); });
  for (auto one = mine; one != waiting_.end(); ++one)
    output_.segments.push_back(std::move(one->injection));
  waiting_.erase(mine, waiting_.end());
  std::make_heap(waiting_.begin(), waiting_.end(), leaves_later<Waiting, Waiting>);
}

void Chain::wait(Injection injection, Tick at)
{
  ++stats_.kept_in_order;
  waiting_.push_back({ at, waiting_order_++, std::move(injection) });
  std::push_heap(waiting_.begin(), waiting_.end(), leaves_later<Waiting, Waiting>);
}

void Chain::send_waiting(Tick now)
{
  while (!waiting_.empty() && waiting_.front().at <= now)
  {
    std::pop_heap(waiting_.begin(), waiting_.end(), leaves_later<Waiting, Waiting>);
    Injection due = std::move(waiting_.back().injection);
    waiting_.pop_back();
    const flow::Flow* flow = table_.by_id(due.flow);
    // Without its address nobody may speak in the flow's name.
    if (flow == nullptr || flow->view.bypass != Bypass::none)
    {
      ++stats_.injected_outdated;
      continue;
    }
    output_.segments.push_back(std::move(due));
  }
}

} // namespace tandem::chain
