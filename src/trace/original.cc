#include "src/trace/original.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace tandem::trace
{
namespace
{

constexpr std::string_view mark = "was: ";

std::optional<Link> link_named(std::string_view word)
{
  for (const Link link : { Link::wifi, Link::cell, Link::other })
    if (word == name(link)) return link;
  return {};
}

template <typename Number>
std::optional<Number> number(std::string_view text, int base)
{
  Number value {};
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (fault != std::errc {} || end != text.data() + text.size()) return {};
  return value;
}

// One "offset:hex" applied. False when it is none, or lies outside.
bool apply(std::string_view item, std::vector<std::byte>& bytes)
{
  const std::size_t colon = item.find(':');
  if (colon == std::string_view::npos) return false;
  const auto offset = number<std::size_t>(item.substr(0, colon), 10);
  const std::string_view digits = item.substr(colon + 1);
  if (!offset || digits.empty() || digits.size() % 2 != 0) return false;
  const std::size_t length = digits.size() / 2;
  if (*offset > bytes.size() || length > bytes.size() - *offset) return false;
  for (std::size_t i = 0; i < length; ++i)
  {
    const auto value = number<std::uint8_t>(digits.substr(2 * i, 2), 16);
    if (!value) return false;
    bytes[*offset + i] = static_cast<std::byte>(*value);
  }
  return true;
}

} // namespace

std::string original_text(Link link, std::span<const std::byte> before, std::span<const std::byte> after)
{
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text { mark };
  text += name(link);
  const std::size_t size = std::min(before.size(), after.size());
  for (std::size_t at = 0; at < size;)
  {
    if (before[at] == after[at])
    {
      ++at;
      continue;
    }
    text += ' ' + std::to_string(at) + ':';
    for (; at < size && before[at] != after[at]; ++at)
    {
      const auto value = std::to_integer<unsigned>(before[at]);
      text += { digits[value >> 4], digits[value & 15] };
    }
  }
  return text;
}

std::optional<Original> original_from(std::string_view text, std::span<const std::byte> after)
{
  if (!text.starts_with(mark)) return {};
  text.remove_prefix(mark.size());
  const auto word = [&text]
  {
    const std::string_view one = text.substr(0, text.find(' '));
    text.remove_prefix(std::min(one.size() + 1, text.size()));
    return one;
  };
  const auto link = link_named(word());
  if (!link) return {};
  Original original { .link = *link, .bytes = { after.begin(), after.end() } };
  while (!text.empty())
    if (!apply(word(), original.bytes)) return {};
  return original;
}

} // namespace tandem::trace
