#include "tools/lab/medium/trace.h"

#include <charconv>

namespace tandem::medium
{

std::variant<Opportunities, TraceFault> parse_trace(std::string_view text)
{
  Opportunities result;
  int line_number = 0;
  while (!text.empty())
  {
    ++line_number;
    const auto end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view {} : text.substr(end + 1);
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ' || line.back() == '\t'))
      line.remove_suffix(1);
    if (line.empty() || line.front() == '#') continue;
    std::uint32_t value = 0;
    const auto [rest, error] = std::from_chars(line.data(), line.data() + line.size(), value);
    if (error != std::errc {} || rest != line.data() + line.size())
      return TraceFault { line_number,
                          "'" + std::string(line.substr(0, 40)) + "': a whole number of milliseconds is allowed here" };
    if (!result.milliseconds.empty() && value < result.milliseconds.back())
      return TraceFault { line_number, std::to_string(value) + ": times must not decrease, the line before says "
                                           + std::to_string(result.milliseconds.back()) };
    result.milliseconds.push_back(value);
  }
  if (result.milliseconds.empty())
    return TraceFault { 0, "no delivery opportunity: one millisecond number per line is needed" };
  if (result.milliseconds.back() == 0)
    return TraceFault { line_number, "the last time is the length of the trace and must be above 0" };
  return result;
}

} // namespace tandem::medium
