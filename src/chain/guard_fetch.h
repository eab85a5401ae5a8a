// The guard's part for bytes fetched a second time (include/tandem/fetch.h, docs/decisions/0007): only of a hole, and
// only for a flow whose content is known.
#pragma once

#include "src/chain/violation.h"

#include <tandem/module.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace tandem::chain
{

constexpr std::size_t max_fetches = 16;

// What a fetch may weigh on the cellular link beyond its bytes: the request and the answer's head, a handshake,
// headers.
constexpr std::uint64_t fetch_overhead = 2048;

// The bytes that a fetch sets aside of the cellular budget.
constexpr std::uint64_t fetch_cost(Seq from, Seq to)
{
  return static_cast<std::uint32_t>(to - from) + fetch_overhead;
}

// Of one plan; adds what they may weigh on the cellular link to `cost`.
Violation check_fetches(std::span<const Fetch> fetches, const LinkStates& links, const FlowView& flow,
                        std::uint64_t& cost);

Violation check_fill(const InjectedSegment& injected, const FlowView& flow);

} // namespace tandem::chain
