// Which name was meant: for messages about one that does not exist.
#pragma once

#include <span>
#include <string_view>

namespace tandem
{

// The one of `known` that is nearest to `word` by insertions, deletions and substitutions, when it is near enough to be
// a slip of the fingers; else empty. The first of equals.
std::string_view closest(std::string_view word, std::span<const std::string_view> known);

} // namespace tandem
