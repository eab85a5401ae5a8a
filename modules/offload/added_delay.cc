#include "modules/offload/added_delay.h"

#include <algorithm>

namespace tandem::offload
{

namespace
{

constexpr double longest = 0.25; // s, that a queue or a rate can excuse

} // namespace

double unqueued_delay(const FlowView& flow, double free)
{
  if (flow.sender.kind != SenderKind::rate_based) return free;
  return std::max(free, std::min(longest, seconds(flow.rtt_min)));
}

double longest_delay(const FlowView& flow, double free, double queue)
{
  return std::max(unqueued_delay(flow, free), std::min(longest, queue));
}

} // namespace tandem::offload
