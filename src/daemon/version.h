// The version of this build, as in the root CMakeLists.txt.
#pragma once

#include <string_view>

namespace tandem
{

extern const std::string_view version;

} // namespace tandem
