// The two ways to the Internet, by the role they play rather than by device name.
#pragma once

#include <cstdint>
#include <string_view>

namespace tandem
{

enum class Link : std::uint8_t
{
  wifi,  // the link downloads arrive on
  cell,  // the second way
  other, // anything else: never touched
};

constexpr std::size_t link_count = 3;

constexpr std::string_view name(Link link)
{
  switch (link)
  {
  case Link::wifi:
    return "wifi";
  case Link::cell:
    return "cell";
  case Link::other:
    return "other";
  }
  return "?";
}

} // namespace tandem
