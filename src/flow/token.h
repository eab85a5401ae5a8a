// The token by which the subflows of an MPTCP connection find each other.
#pragma once

#include <cstdint>

namespace tandem::flow
{

// The most significant 32 bits of the hash of a key as it is on the wire: SHA-256 in version 1 (RFC 8684 3.2), SHA-1 in
// version 0 (RFC 6824 3.2).
std::uint32_t token_of(std::uint64_t key, std::uint8_t version);

} // namespace tandem::flow
