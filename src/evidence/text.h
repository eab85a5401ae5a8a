// What was learnt as text, for a file: one line an entry, with its length and a checksum in the first one, so that a
// torn or foreign file is told from a whole one. Reading trusts nothing: every number has its range, every text its
// length, the whole its limits.
#pragma once

#include "src/evidence/memory.h"

#include <cstddef>
#include <string>
#include <string_view>

namespace tandem::evidence
{

constexpr unsigned text_version = 3;
// Without paths that are known; 2 without access points. Read still.
constexpr unsigned oldest_text_version = 1;
// No text of a full memory is as long.
constexpr std::size_t longest_text = 8u << 20;

std::string to_text(const Memory& memory);

// Empty, then `memory` is what the text says; else what is wrong with it, and `memory` is as it was. `now`: noted times
// behind it are not possible.
std::string from_text(std::string_view text, WallTime now, Memory& memory);

} // namespace tandem::evidence
