// Which subflows the MPTCP connections of this host have (sock_diag).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tandem::kernel
{

struct MptcpSubflow
{
  std::uint32_t connection = 0; // the local token
  std::string address {};       // local; an IPv4 address in an IPv6 socket as IPv4
  bool first = false;           // opened the connection; else joined it

  bool operator==(const MptcpSubflow&) const = default;
};

// Those that carry data or may. A connection that fell back to TCP is none. Throws std::runtime_error with a sentence.
std::vector<MptcpSubflow> mptcp_subflows();

} // namespace tandem::kernel
