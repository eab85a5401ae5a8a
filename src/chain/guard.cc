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
  if (edit.ack && edit.ack->after(own ? flow.highest_ack : segment.ack)) return Violation::ack_beyond_received;
  if (edit.window && flow.hands_off == HandsOff::mid_flow) return Violation::window_unscaled;
  if (edit.window && *edit.window > segment.window) return Violation::window_raised;
  if ((edit.ts_value || edit.ts_echo) && !segment.timestamps) return Violation::no_timestamps;
  if (edit.ts_value)
  {
    if (edit.ts_value->after(segment.timestamps->value)) return Violation::ts_value_raised;
    // One tick of grace: Linux accepts it (TCP_PAWS_WINDOW), and the proof of a path needs it. See docs/decisions/0003.
    if (own && flow.sent_any && edit.ts_value->before(flow.sent_ts_value - 1)) return Violation::ts_value_stale;
  }
  if (edit.ts_echo && edit.ts_echo->after(segment.timestamps->echo)) return Violation::ts_echo_raised;
  if (edit.ecn && segment.ecn == Ecn::not_ect) return Violation::ecn_forbidden;
  return Violation::none;
}

// A crafted ACK may report duplicates (RFC 2883) of bytes that the local TCP has acknowledged, and, like a copy of one
// of its ACKs, what it holds beyond a hole: never the byte that it waits for, and nothing above what it has reported
// itself.
bool may_report(const Craft& craft, const FlowView& flow)
{
  if (craft.sack_count > craft.sack_blocks.size() || (craft.sack_count > 0 && !flow.sack_ok)) return false;
  for (std::size_t i = 0; i < craft.sack_count; ++i)
  {
    const SackBlock& block = craft.sack_blocks[i];
    if (!block.left.before(block.right)) return false;
    const bool beyond_hole = block.left.after(flow.highest_ack);
    if (block.right.after(beyond_hole ? flow.highest_held : flow.highest_ack)) return false;
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

Violation check_craft(const Craft& craft, const FlowView& flow)
{
  if (craft.kind == CraftKind::fill) return check_fill(craft, flow);
  if (craft.kind == CraftKind::host_unreachable)
    // Quotes the server's own segment, which begins at or before what this host has acknowledged (RFC 6069
    // section 4.2).
    return craft.seq.after(flow.highest_ack) ? Violation::craft_sequence : Violation::none;
  if (!may_carry(craft.flags, flow)) return Violation::craft_flags;
  if (craft.ack.after(flow.highest_ack)) return Violation::ack_beyond_received;
  if (craft.seq.after(flow.next_seq) || flow.next_seq - craft.seq > 1) return Violation::craft_sequence;
  if (!may_report(craft, flow)) return Violation::craft_sack;
  if (craft.window > flow.last_window) return Violation::window_raised;
  if (craft.timestamps)
  {
    if (!flow.timestamps_ok) return Violation::no_timestamps;
    if (craft.timestamps->value.after(flow.last_ts_value)) return Violation::ts_value_raised;
    if (flow.sent_any && craft.timestamps->value.before(flow.sent_ts_value - 1)) return Violation::ts_value_stale;
    // Zero says that nothing is echoed (RFC 7323 section 3.2): it claims nothing.
    if (craft.timestamps->echo.raw != 0 && craft.timestamps->echo.after(flow.last_ts_echo))
      return Violation::ts_echo_raised;
  }
  // RFC 7323 3.2: once agreed, every segment but an RST carries the option.
  else if (flow.timestamps_ok)
    return Violation::no_timestamps;
  return Violation::none;
}

// What a crafted segment weighs at most: a pure ACK of IPv6 with a full TCP header, and some room.
constexpr std::uint64_t craft_cost = 120;

Violation check_way(const Craft& craft, const LinkStates& links, const FlowView& flow)
{
  if (const Violation v = check_craft(craft, flow); v != Violation::none) return v;
  if (craft.by != flow.link && !usable(craft.by, links, flow)) return Violation::route_unusable;
  return Violation::none;
}

} // namespace

Violation check(const Craft& craft, const LinkStates& links, const FlowView& flow, std::uint64_t cell_budget)
{
  if (const Violation v = check_way(craft, links, flow); v != Violation::none) return v;
  return craft.by == Link::cell && cell_budget < craft_cost ? Violation::budget : Violation::none;
}

Violation check(const Plan& plan, const Event& event, const FlowView& flow, std::uint64_t cell_budget)
{
  if (plan.craft.size() > max_crafts) return Violation::too_many_crafts;
  std::uint64_t cost = 0; // on the cellular link
  if (event.kind == EventKind::segment && event.queued)
  {
    if (plan.verdict == Verdict::drop && !repeats_in_next(*event.segment, flow)) return Violation::drop_forbidden;
    if (const Violation v = check_edit(plan.edit, *event.segment, flow); v != Violation::none) return v;
    if (plan.edit.route && *plan.edit.route != flow.link)
    {
      if (!usable(*plan.edit.route, *event.links, flow)) return Violation::route_unusable;
      if (*plan.edit.route == Link::cell) cost += event.segment->bytes.size();
    }
  }
  for (const Craft& craft : plan.craft)
  {
    if (const Violation v = check_way(craft, *event.links, flow); v != Violation::none) return v;
    if (craft.by == Link::cell) cost += craft_cost;
  }
  if (const Violation v = check_fetches(plan.fetch, *event.links, flow, cost); v != Violation::none) return v;
  // A whole plan is refused rather than cut.
  return cost > cell_budget ? Violation::budget : Violation::none;
}

} // namespace tandem::chain
