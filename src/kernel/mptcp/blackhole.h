// Whether this host's kernel keeps MPTCP back from connections whose applications ask for it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace tandem::kernel
{

// A value of /proc/net/netstat: of `name` in the lines that begin with `group`. 0 where there is none.
std::uint64_t netstat_value(std::string_view text, std::string_view group, std::string_view name);

// How often the kernel has found a blackhole: SYNs with MPTCP unanswered, then one without answered (RFC 8684 3.7;
// Linux 6.12). From then on no SYN of this network namespace has MPTCP for net.mptcp.blackhole_timeout, an hour and
// more. 0 also where the kernel does not count them.
std::uint64_t mptcp_blackholes(const std::string& netstat = "/proc/self/net/netstat");

} // namespace tandem::kernel
