// How a recording tells what an edited packet was before: as a second packet comment with the bytes that differ.
#pragma once

#include <tandem/link.h>

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::trace
{

struct Original
{
  Link link = Link::wifi; // that it came by
  std::vector<std::byte> bytes {};
};

// "was: wifi 10:8f51 28:000007d0 34:01f4": the link it came by, then offset:bytes in hexadecimal wherever it differed.
// `after` is empty when only the link changed.
std::string original_text(Link link, std::span<const std::byte> before, std::span<const std::byte> after);

// Empty when the text is none that original_text writes for these bytes.
std::optional<Original> original_from(std::string_view text, std::span<const std::byte> after);

} // namespace tandem::trace
