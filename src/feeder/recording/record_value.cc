#include "src/feeder/recording/record_value.h"

#include <charconv>

namespace tandem::feeder
{

double widened(float value)
{
  std::array<char, 64> buffer {};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr;
  double result = value;
  std::from_chars(buffer.data(), end, result);
  return result;
}

std::string shown(const Json& value)
{
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  constexpr std::size_t longest = 40;
  if (text.size() <= longest) return text;
  // Not in the middle of a character, of which what follows are continuation bytes (RFC 3629, section 3).
  std::size_t end = longest - 3;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80)
    --end;
  return text.substr(0, end) + "...";
}

void wrong(std::string_view name, std::string_view expected, const Json& value)
{
  throw RecordFault { std::string { name } + ": " + std::string { expected } + " is expected, not " + shown(value) };
}

std::string string_of(std::string_view name, const Json& value)
{
  if (!value.is_string()) wrong(name, "text", value);
  auto bytes = unescaped(value.get_ref<const std::string&>());
  if (!bytes) wrong(name, "text with \\\\ and \\xNN as its only escapes", value);
  return std::move(*bytes);
}

Mac mac_of(std::string_view name, const Json& value)
{
  std::optional<Mac> mac {};
  if (value.is_string()) mac = parse_mac(value.get_ref<const std::string&>());
  if (!mac) wrong(name, "an address like 02:00:00:00:01:00", value);
  return *mac;
}

} // namespace tandem::feeder
