// What a TCP socket of this host has put on its link so far.
#pragma once

#include <cstdint>

namespace tandem::kernel
{

// IP bytes both ways, headers and retransmissions of this host included; 0 when the kernel does not say.
std::uint64_t tcp_cost(int socket, bool v6) noexcept;

} // namespace tandem::kernel
