// The transparency guard: the invariants that no plan may break, whatever the module meant.
#pragma once

#include "src/chain/violation.h"

#include <tandem/module.h>

#include <cstdint>

namespace tandem::chain
{

constexpr std::size_t max_injected = 32;

// The first invariant `plan` would break, or none. `cell_budget` is what may still leave by the cellular link, in
// bytes.
Violation check(const Plan& plan, const Event& event, const FlowView& flow, std::uint64_t cell_budget);

// The same for one injected segment that is about to leave.
Violation check(const InjectedSegment& injected, const LinkStates& links, const FlowView& flow,
                std::uint64_t cell_budget);

} // namespace tandem::chain
