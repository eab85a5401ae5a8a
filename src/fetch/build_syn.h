// The first segment of a connection of our own: a SYN with its options.
#pragma once

#include "src/wire/build.h"

#include <cstdint>
#include <vector>

namespace tandem::fetch
{

struct SynOptions
{
  std::uint16_t mss = 1460;
  std::uint8_t window_scale = 7;
};

// MSS, SACK permitted, timestamps (headers.timestamps, required) and window scale, laid out as Linux does. The flags
// are SYN whatever `headers` says.
std::vector<std::byte> build_syn(wire::Headers headers, const SynOptions& options);

} // namespace tandem::fetch
