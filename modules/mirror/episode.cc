#include "modules/mirror/episode.h"

#include <algorithm>

namespace tandem::mirror
{

namespace
{

// A block at or below the cumulative ACK reports a duplicate (RFC 2883), not something beyond a hole. One that ends
// half the space of numbers away is no TCP's, and among such ends none is the highest.
bool beyond_hole(const SackBlock& block, Seq ack)
{
  return block.left.after(ack) && block.right.after(block.left) && block.right.after(ack);
}

// Of the blocks beyond a hole, of those that `counts` says, the one that comes before all others by `before`; nullptr
// where there is none. Blocks come in any order (RFC 2018 section 4: the newest first).
template <class Counts, class Before>
const SackBlock* first_beyond(const Segment& segment, Counts counts, Before before)
{
  const SackBlock* first = nullptr;
  for (const SackBlock& block : segment.sacks())
    if (beyond_hole(block, segment.ack) && counts(block) && (first == nullptr || before(block, *first))) first = &block;
  return first;
}

constexpr auto any = [](const SackBlock&) { return true; };
constexpr auto lower = [](const SackBlock& one, const SackBlock& other) { return one.left.before(other.left); };
constexpr auto higher = [](const SackBlock& one, const SackBlock& other) { return one.right.after(other.right); };

// The end of the first hole; the cumulative ACK when there is none.
Seq lowest_beyond(const Segment& segment)
{
  const SackBlock* lowest = first_beyond(segment, any, lower);
  return lowest == nullptr ? segment.ack : lowest->left;
}

} // namespace

// Counts the holes that blocks show above what was known.
unsigned Episode::note_blocks(const Segment& segment)
{
  unsigned fresh = 0;
  for (;;)
  {
    const SackBlock* lowest = first_beyond(
        segment, [this](const SackBlock& block) { return block.right.after(edge); }, lower);
    if (lowest == nullptr) break;
    if (lowest->left.after(edge))
    {
      if (holes + fresh < first.size()) first[holes + fresh] = { edge, lowest->left };
      ++fresh;
      lost += static_cast<std::uint32_t>(lowest->left - edge);
    }
    edge = lowest->right;
  }
  holes = static_cast<std::uint16_t>(std::min<unsigned>(holes + fresh, 0xffff));
  return fresh;
}

Step Episode::acknowledged(const Segment& segment, bool progress, bool dry, Duration timeout, Tick now)
{
  Step step {};
  if (segment.has(tcp_flag::ece)) ece = true;
  if (stage == Stage::open && progress)
  {
    step.filled = true;
    stage = Stage::repairing;
    late = now - began > timeout;
    point = late && !dry ? segment.ack : edge;
    // The head of the hole is filled: TS.Recent is now the TSval of what filled it (RFC 7323 4.3). Where that came by
    // the timer an older one would be a round-trip sample of the whole pause.
    if (!chained && (!late || dry) && segment.timestamps) old = segment.timestamps->echo - 1;
  }
  if (stage == Stage::repairing && segment.ack.at_or_after(point))
    step.crossed = true;
  else
    step.holes = note_blocks(segment);
  return step;
}

bool Episode::next(const Segment& segment, Tick now)
{
  const bool repaired = stage == Stage::repairing;
  const TsClock before = old;
  stage = Stage::none;
  const Seq beyond = lowest_beyond(segment);
  if (beyond == segment.ack) return false;
  const bool carried = repaired && edge.after(segment.ack);
  *this = Episode { .stage = Stage::open,
                    .ece = segment.has(tcp_flag::ece),
                    .chained = repaired,
                    .ended = ended,
                    .holes = carried ? std::uint16_t { 1 } : std::uint16_t { 0 },
                    .una = segment.ack,
                    // In a chain the ACK need not show all that is held: it has room for three blocks.
                    .edge = carried ? edge : segment.ack,
                    .old = repaired             ? before
                           : segment.timestamps ? segment.timestamps->echo
                                                : TsClock {},
                    .began = now };
  if (carried) first[0] = { segment.ack, beyond };
  note_blocks(segment);
  return true;
}

bool ends_short(const Segment& segment, std::uint32_t mss)
{
  const SackBlock* highest = first_beyond(segment, any, higher);
  return highest != nullptr && mss > 0 && static_cast<std::uint32_t>(highest->right - highest->left) % mss != 0;
}

} // namespace tandem::mirror
