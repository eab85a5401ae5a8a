// What one module keeps from the server, no other gives away (docs/decisions/0002): acknowledgement numbers and windows
// of injected segments stay within what the strictest of the other modules asked for.
#pragma once

#include "src/flow/table.h"

#include <tandem/plan.h>

#include <cstddef>

namespace tandem::chain
{

constexpr std::uint16_t any_window = 0xffff;

// Lowers a segment that module `i` injects to what all others allow, and takes note of what it acknowledges for `i`
// itself.
void keep_holds(std::size_t i, InjectedSegment& segment, flow::Flow& flow);

// Lowers the window of a segment to what `hold` allows. `real`: the local TCP's.
void keep_window(const flow::Hold& hold, std::uint16_t real, InjectedSegment& segment);

// Whether anything is kept from the server by it.
constexpr bool holds_back(const flow::Hold& hold)
{
  return hold.withheld > 0 || hold.window != any_window;
}

// Whether another module than `i` withholds anything of what was acknowledged.
bool held_by_others(std::size_t i, const flow::Flow& flow);

// What module `i` asks for with the ACK at hand. `left`: no module left the ACK out, so that it also acknowledges what
// `i` does not ask for any more.
void note_hold(std::size_t i, const Segment& ack, const Plan& plan, bool left, flow::Flow& flow);

} // namespace tandem::chain
