#include "modules/freeze/withheld_acks.h"

#include <tandem/path_validation.h>
#include <tandem/pure_ack.h>

#include <algorithm>

namespace tandem::freeze
{

namespace
{

using namespace std::chrono_literals;

// After a recent blackout at least this share of the window, and a segment. An eighth cost flows that their receive
// window limits 12 % of goodput (docs/decisions/0006). A segment of 20 to 50 costs more in a minute than a blackout
// does, so that it is worth it only where another one is near.
constexpr double recent_share = 0.02;
constexpr Duration recent = 20s;
// While a warning is in force at least this share: it costs the flow for seconds only, and the first flight after
// link-up is as large.
constexpr double warned_share = 0.125;
// And never more than this: the other ACKs have to clock the sender.
constexpr double largest_share = 1.0 / 3;
// ACKs between two changes of the target by a segment: slower than the sender's own growth.
constexpr std::uint8_t acks_per_step = 4;

// Moves the target towards what the flow can spare.
void aim(const Event& event, const FlowView& flow, BlackoutState& state, const Knobs& knobs)
{
  // gVisor's netstack gained nothing after blackouts by a withheld ACK, and lost through random losses (eight and ten
  // pairs: docs/results/together-losses.md).
  if (!bulk(flow, *event.links, knobs) || keeps_frames(flow, *event.links, state) || flow.sender.user_space)
  {
    state.target = 0;
    return;
  }
  const double window = flow.window_estimate;
  const double standing = flow.delivery_rate * state.standing.delay(flow);
  double share = knobs.withheld_share;
  if (state.blackouts > 0 && event.now - state.up_at < recent) share = std::max(share, recent_share);
  if ((*event.links)[static_cast<std::size_t>(flow.link)].at_risk) share = std::max(share, warned_share);
  double wanted = std::max(share * window, knobs.withheld_queue * standing);
  // Where nothing stands in queues a withheld segment is a part of the rate.
  if (wanted < flow.mss) wanted = share > knobs.withheld_share ? flow.mss : 0;
  wanted = std::min({ wanted, largest_share * window, 1.0 * flow.may_withhold });
  if (state.target > flow.may_withhold) state.target = flow.may_withhold;
  if (++state.growing < acks_per_step) return;
  state.growing = 0;
  if (wanted >= state.target + flow.mss)
    state.target += flow.mss;
  else if (wanted + flow.mss < state.target || wanted <= 0)
    state.target -= std::min<std::uint32_t>(state.target, flow.mss);
}

} // namespace

bool bulk(const FlowView& flow, const LinkStates& links, const Knobs& knobs)
{
  return static_cast<double>(flow.bytes_delivered) >= knobs.bulk_bytes && flow.sack_ok && !flow.fin_sent
         && flow.window_estimate >= knobs.bulk_window * flow.mss && !faster_than_wifi(flow, links);
}

bool keeps_frames(const FlowView& flow, const LinkStates& links, const BlackoutState& state)
{
  return links[static_cast<std::size_t>(flow.link)].keeps_frames.value_or(state.buffers);
}

bool window_limited(const FlowView& flow)
{
  return 4.0 * flow.window_estimate > 3.0 * flow.scaled(flow.last_window);
}

Duration release_timeout(const FlowView& flow, const Knobs& knobs)
{
  return std::max(from_seconds(knobs.release_after), flow.rtt_smoothed * 3 / 4);
}

bool news_by_cell(const FlowView& flow)
{
  return flow.sent_any && PathValidation::most_by_cell(flow).after(flow.sent_ack);
}

std::uint16_t closed_window(const FlowView& flow, bool in_flight)
{
  return in_flight && flow.scaled(1) < flow.mss ? std::min<std::uint16_t>(1, flow.last_window) : 0;
}

Plan withhold_acks(const Event& event, const FlowView& flow, BlackoutState& state, const Knobs& knobs, bool progress)
{
  const Segment& segment = *event.segment;
  state.standing.look(flow, event.now);
  if (state.undo.watching) return {};
  aim(event, flow, state, knobs);
  // With SACK blocks above it, what is withheld would look lost and be sent again.
  if (state.target == 0 || segment.sack_count > 0 || !flow.sent_any || !segment.ack.after(flow.sent_ack)) return {};
  Plan plan { .wake = event.now + release_timeout(flow, knobs), .why = "freeze: ACK withheld" };
  if (!progress)
  {
    // A window update is passed on without giving up what is withheld; a duplicate is what it is.
    if (segment.window == flow.told_window) return {};
    plan.edit.ack = flow.sent_ack;
    plan.wake = state.progress_at + release_timeout(flow, knobs);
    return plan;
  }
  const auto untold = static_cast<std::uint32_t>(segment.ack - flow.sent_ack);
  if (untold > state.target + flow.mss)
    plan.edit.ack = segment.ack - state.target;
  else if (untold >= 2u * flow.mss)
    plan.edit.ack = flow.sent_ack + static_cast<std::uint32_t>(flow.mss);
  else if (repeats_in_next(segment, flow))
  {
    plan.verdict = Verdict::drop;
    return plan;
  }
  else
    return {};
  // RFC 9293 3.8.6: a window is not shrunk; the offered edge must not move back because more is withheld.
  const Seq offered = flow.sent_ack + flow.scaled(flow.sent_window);
  const Seq least = offered - flow.scaled(segment.window);
  if (least.after(*plan.edit.ack)) plan.edit.ack = earlier(least, segment.ack);
  if (*plan.edit.ack == segment.ack) return { .wake = plan.wake };
  return plan;
}

} // namespace tandem::freeze
