// The ip rules of this network namespace. libnl does not tell what wg-quick's consist of ("not",
// suppress_prefixlength).
#pragma once

#include "src/links/routing.h"

#include <vector>

namespace tandem::links
{

// Of both IP versions, in the kernel's order. Throws std::system_error.
std::vector<RuleEntry> read_rules();

} // namespace tandem::links
