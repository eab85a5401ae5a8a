#include "src/chain/holds.h"

#include <algorithm>

namespace tandem::chain
{

void keep_window(const flow::Hold& hold, std::uint16_t real, InjectedSegment& segment)
{
  if (hold.window >= segment.window) return;
  segment.window_waits = hold.window_waits && (segment.window_waits || segment.window == real);
  segment.window = hold.window;
}

namespace
{

// What was to be reported below the number `asked` (RFC 2883) must not come to stand above a lower one, where it would
// look like data beyond a hole: it is left out.
void leave_out_duplicates(InjectedSegment& segment, Seq asked)
{
  const auto begin = segment.sack_blocks.begin(), end = begin + segment.sack_count;
  const auto came_above = [&](const SackBlock& block)
  { return block.left.before(asked) && !block.left.before(segment.ack); };
  segment.sack_count = static_cast<std::uint8_t>(std::remove_if(begin, end, came_above) - begin);
}

} // namespace

void keep_holds(std::size_t i, InjectedSegment& segment, flow::Flow& flow)
{
  if (segment.kind != InjectedKind::ack) return;
  const Seq asked = segment.ack;
  const FlowView& view = flow.view;
  flow::Hold& own = flow.holds[i];
  if (segment.ack == view.rcv_nxt) own.withheld = 0;
  own.window = segment.window < view.last_window ? segment.window : any_window;
  own.window_waits = segment.window_waits;
  for (std::size_t other = 0; other < flow.holds.size(); ++other)
  {
    const flow::Hold& hold = flow.holds[other];
    if (other == i) continue;
    if (hold.withheld > 0) segment.ack = earlier(segment.ack, later(view.sent_ack, view.rcv_nxt - hold.withheld));
    keep_window(hold, view.last_window, segment);
  }
  leave_out_duplicates(segment, asked);
}

bool held_by_others(std::size_t i, const flow::Flow& flow)
{
  for (std::size_t other = 0; other < flow.holds.size(); ++other)
    if (other != i && flow.holds[other].withheld > 0) return true;
  return false;
}

void note_hold(std::size_t i, const Segment& ack, const Plan& plan, bool left, flow::Flow& flow)
{
  const Edit& edit = plan.edit;
  flow::Hold& own = flow.holds[i];
  const bool withholds = edit.ack && ack.ack.after(*edit.ack);
  if (withholds)
    own.withheld = static_cast<std::uint32_t>(ack.ack - *edit.ack);
  else if (left || plan.verdict == Verdict::pass)
    own.withheld = 0; // whoever leaves the ACK out: `i` lets all of it go
  if (!edit.window && !left) return;
  own.window = edit.window.value_or(any_window);
  own.window_waits = edit.window_waits;
}

} // namespace tandem::chain
