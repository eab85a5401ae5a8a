// Any bytes as text.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tandem::feeder
{

// Text with any bytes as valid UTF-8: a backslash becomes \\, a byte that is no UTF-8 becomes \xNN. And back; nothing
// when an escape is none of these.
std::string escaped(std::string_view bytes);
std::optional<std::string> unescaped(std::string_view text);

} // namespace tandem::feeder
