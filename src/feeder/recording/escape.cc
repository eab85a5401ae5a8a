#include "src/feeder/recording/escape.h"

#include <algorithm>
#include <charconv>
#include <cstddef>

namespace tandem::feeder
{
namespace
{

// Length of the character in UTF-8 at the start of `text`; 0 when it is none (RFC 3629, section 4).
std::size_t character(std::string_view text)
{
  const auto at = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
  const auto tail = [&](std::size_t i) { return (at(i) & 0xc0) == 0x80; };
  const unsigned head = at(0);
  if (head < 0x80) return 1;
  if (head >= 0xc2 && head <= 0xdf) return tail(1) ? 2 : 0;
  if (head >= 0xe0 && head <= 0xef)
  {
    const bool second = head == 0xe0 ? at(1) >= 0xa0 : head == 0xed ? at(1) <= 0x9f : true;
    return second && tail(1) && tail(2) ? 3 : 0;
  }
  if (head >= 0xf0 && head <= 0xf4)
  {
    const bool second = head == 0xf0 ? at(1) >= 0x90 : head == 0xf4 ? at(1) <= 0x8f : true;
    return second && tail(1) && tail(2) && tail(3) ? 4 : 0;
  }
  return 0;
}

} // namespace

std::string escaped(std::string_view bytes)
{
  constexpr std::string_view digits = "0123456789abcdef";
  std::string result {};
  result.reserve(bytes.size());
  while (!bytes.empty())
  {
    const std::size_t length = character(bytes);
    if (bytes.front() == '\\')
      result += "\\\\";
    else if (length != 0)
      result += bytes.substr(0, length);
    else
    {
      const auto byte = static_cast<unsigned char>(bytes.front());
      result += { '\\', 'x', digits[byte >> 4], digits[byte & 15] };
    }
    bytes.remove_prefix(std::max<std::size_t>(length, 1));
  }
  return result;
}

std::optional<std::string> unescaped(std::string_view text)
{
  std::string result {};
  result.reserve(text.size());
  while (!text.empty())
  {
    if (text.front() != '\\')
    {
      result += text.front();
      text.remove_prefix(1);
    }
    else if (text.starts_with("\\\\"))
    {
      result += '\\';
      text.remove_prefix(2);
    }
    else if (text.starts_with("\\x") && text.size() >= 4)
    {
      unsigned char byte = 0;
      const auto [end, error] = std::from_chars(text.data() + 2, text.data() + 4, byte, 16);
      if (error != std::errc {} || end != text.data() + 4) return {};
      result += static_cast<char>(byte);
      text.remove_prefix(4);
    }
    else
      return {};
  }
  return result;
}

} // namespace tandem::feeder
