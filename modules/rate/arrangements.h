// Every order of the slots, one by one, and every choice of some slots: what the published searches go through.
#pragma once

#include "modules/rate/slot_plan.h"

#include <cstdint>
#include <functional>
#include <vector>

namespace tandem::rate
{

// G! / (g_1! .. g_N!), at most 2^62.
std::uint64_t arrangements(const Slots& slots);

constexpr std::uint64_t most_arrangements = 20'000'000; // what an exhaustive search goes through

// Throws BadInput when there are more than that: such a search "can be prohibitively expensive" (section VI-B).
void for_each_arrangement(const Slots& slots, const std::function<void(const Allocation&)>& use);

// Every choice of `count` out of `from`, in lexicographic order. Throws BadInput above most_arrangements.
void for_each_choice(const std::vector<std::uint32_t>& from, std::uint32_t count,
                     const std::function<void(const std::vector<std::uint32_t>&)>& use);

} // namespace tandem::rate
