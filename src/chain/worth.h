// From when on a flow is worth a module's attention.
#pragma once

#include <cstdint>

namespace tandem::chain
{

// What a server may send before it has heard anything (ten segments, RFC 6928): a flow that is over by then has nothing
// to gain from any module.
constexpr std::uint64_t worth_bytes = 14'000;

} // namespace tandem::chain
