// The version of this build.
#pragma once

#include <string_view>

namespace tandem
{

extern const std::string_view release; // "0.1.0", as in the root CMakeLists.txt
extern const std::string_view commit;  // "0123abc", "0123abc+": with changes; empty: not built from a clone
extern const std::string_view version; // both, for a user: "0.1.0 (0123abc)"

} // namespace tandem
