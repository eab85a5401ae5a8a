// Which address Tandem's own connections leave from. Pure.
#pragma once

#include <tandem/segment.h>

#include <algorithm>
#include <optional>
#include <vector>

namespace tandem::fetch
{

// The first of that IP version; nothing when there is none.
inline std::optional<Address> first_of_version(const std::vector<Address>& all, bool v6)
{
  const auto found = std::find_if(all.begin(), all.end(), [v6](const Address& one) { return one.v6 == v6; });
  return found == all.end() ? std::nullopt : std::optional { *found };
}

} // namespace tandem::fetch
