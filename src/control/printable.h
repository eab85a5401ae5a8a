// What a terminal may be shown.
#pragma once

#include <string>
#include <string_view>

namespace tandem
{

// Names and reasons come from modules, packets, files and the air: control characters, which a terminal would obey, are
// '?', and a line's end is `for_newline`.
std::string printable(std::string_view text, char for_newline = ' ');

} // namespace tandem
