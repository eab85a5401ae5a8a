#include "src/chain/guard.h"

#include "src/chain/guard_fetch.h"

namespace tandem::chain
{

namespace
{

Violation check_edit(const Edit& edit, const Segment& segment, const FlowView& flow)
{
  if (edit.changes_bytes() && segment.has_option(option::md5 | option::ao)) return Violation::authenticated;
  // What arrives is numbered by the server: only this host's own segments can be measured by what it knows of itself.
  const bool own = segment.direction == Direction::egress;
  if (edit.ack && edit.ack->after(own ? flow.rcv_nxt : segment.ack)) return Violation::ack_beyond_received;
  if (edit.window && flow.bypass == Bypass::mid_flow) return Violation::window_unscaled;
  if (edit.window && *edit.window > segment.window) return Violation::window_raised;
  if ((edit.ts_value || edit.ts_echo) && !segment.timestamps) return Violation::no_timestamps;
  if (edit.ts_value)
  {
    if (edit.ts_value->after(segment.timestamps->value)) return Violation::ts_value_raised;
    // One tick of grace: Linux accepts it (TCP_PAWS_WINDOW), and path validation needs it. See docs/decisions/0003.
    if (own && flow.sent_any && edit.ts_value->before(flow.sent_ts_value - 1)) return Violation::ts_value_stale;
  }
  if (edit.ts_echo && edit.ts_echo->after(segment.timestamps->echo)) return Violation::ts_echo_raised;
  if (edit.ecn && segment.ecn == Ecn::not_ect) return Violation::ecn_forbidden;
  return Violation::none;
}

// An injected ACK may report duplicates (RFC 2883) of bytes that the local TCP has acknowledged, and, like a copy of
// one of its ACKs, what it holds beyond a hole: never the byte that it waits for, and nothing above what it has
// reported itself.
bool may_report(const InjectedSegment& injected, const FlowView& flow)
{
  if (injected.sack_count > injected.sack_blocks.size() || (injected.sack_count > 0 && !flow.sack_ok)) return false;
  for (std::size_t i = 0; i < injected.sack_count; ++i)
  {
    const SackBlock& block = injected.sack_blocks[i];
    if (!block.left.before(block.right)) return false;
    const bool beyond_hole = block.left.after(flow.rcv_nxt);
    if (block.right.after(beyond_hole ? flow.highest_held : flow.rcv_nxt)) return false;
  }
  return true;
}

// ECE with classic ECN. With AccECN what the local TCP counted, or nothing: the chain writes it (injected_flags).
bool may_carry(std::uint16_t flags, const FlowView& flow)
{
  const std::uint16_t counted = flow.acc_ecn ? flags & ace_bits : 0;
  const std::uint16_t allowed = tcp_flag::ack | tcp_flag::psh | (flow.acc_ecn ? flow.ace : tcp_flag::ece);
  return (flags & tcp_flag::ack) != 0 && (flags & ~allowed) == 0 && (counted == 0 || counted == flow.ace);
}

Violation check_injected(const InjectedSegment& injected, const FlowView& flow)
{
  if (injected.kind == InjectedKind::fill) return check_fill(injected, flow);
  if (injected.kind == InjectedKind::host_unreachable)
    // Quotes the server's own segment, which begins at or before what this host has acknowledged (RFC 6069
    // section 4.2).
    return injected.seq.after(flow.rcv_nxt) ? Violation::injected_sequence : Violation::none;
  // A module speaks for what this host has received, never for what it sent.
  if (injected.kind == InjectedKind::own_unreachable || injected.kind == InjectedKind::own_syn)
    return Violation::injected_sequence;
  if (!may_carry(injected.flags, flow)) return Violation::injected_flags;
  if (injected.ack.after(flow.rcv_nxt)) return Violation::ack_beyond_received;
  if (injected.seq.after(flow.snd_nxt) || flow.snd_nxt - injected.seq > 1) return Violation::injected_sequence;
  if (!may_report(injected, flow)) return Violation::injected_sack;
  if (injected.window > flow.last_window) return Violation::window_raised;
  if (injected.timestamps)
  {
    if (!flow.timestamps_ok) return Violation::no_timestamps;
    if (injected.timestamps->value.after(flow.last_ts_value)) return Violation::ts_value_raised;
    if (flow.sent_any && injected.timestamps->value.before(flow.sent_ts_value - 1)) return Violation::ts_value_stale;
    // Zero means that nothing is echoed (RFC 7323 section 3.2).
    if (injected.timestamps->echo.raw != 0 && injected.timestamps->echo.after(flow.ts_recent))
      return Violation::ts_echo_raised;
  }
  // RFC 7323 3.2: once agreed, every segment but an RST carries the option.
  else if (flow.timestamps_ok)
    return Violation::no_timestamps;
  return Violation::none;
}

// What an injected segment weighs at most: a pure ACK of IPv6 with a full TCP header, and some room.
constexpr std::uint64_t injected_cost = 120;

Violation check_way(const InjectedSegment& injected, const LinkStates& links, const FlowView& flow)
{
  if (const Violation v = check_injected(injected, flow); v != Violation::none) return v;
  if (injected.by != flow.link && !usable(injected.by, links, flow)) return Violation::route_unusable;
  return Violation::none;
}

} // namespace

Violation check(const InjectedSegment& injected, const LinkStates& links, const FlowView& flow,
                std::uint64_t cell_budget)
{
  if (const Violation v = check_way(injected, links, flow); v != Violation::none) return v;
  return injected.by == Link::cell && cell_budget < injected_cost ? Violation::budget : Violation::none;
}

Violation check(const Plan& plan, const Event& event, const FlowView& flow, std::uint64_t cell_budget)
{
  if (plan.inject.size() > max_injected) return Violation::too_many_injected;
  std::uint64_t cost = 0; // on the cellular link
  if (event.kind == EventKind::segment && event.queued)
  {
    if (plan.verdict == Verdict::drop && !may_be_left_out(*event.segment, flow)
        && !reports_nothing_new(*event.segment, flow))
      return Violation::drop_forbidden;
    if (const Violation v = check_edit(plan.edit, *event.segment, flow); v != Violation::none) return v;
    if (plan.edit.route && *plan.edit.route != flow.link)
    {
      // What arrives is sent nowhere.
      if (event.segment->direction != Direction::egress || !usable(*plan.edit.route, *event.links, flow))
        return Violation::route_unusable;
      if (*plan.edit.route == Link::cell) cost += event.segment->bytes.size();
    }
  }
  for (const InjectedSegment& injected : plan.inject)
  {
    if (const Violation v = check_way(injected, *event.links, flow); v != Violation::none) return v;
    if (injected.by == Link::cell) cost += injected_cost;
  }
  if (const Violation v = check_fetches(plan.fetch, *event.links, flow, cost); v != Violation::none) return v;
  // A whole plan is refused rather than cut.
  return cost > cell_budget ? Violation::budget : Violation::none;
}

} // namespace tandem::chain
