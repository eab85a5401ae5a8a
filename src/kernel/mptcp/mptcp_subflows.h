// Which subflows the MPTCP connections of this host have (sock_diag).
#pragma once

#include "src/kernel/tcp_sockets.h"

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
  // The peer is known to have it and has not closed it. A server that has written all and closed refuses those that
  // join later: until its reset is here they are established all the same.
  bool sound = true;
  TcpSocketName socket {};

  bool operator==(const MptcpSubflow&) const = default;
};

// Those that this host has not closed. Once it has (FIN-WAIT), Linux may keep acknowledging what comes by one, and
// drops it. A connection that fell back to TCP is none. Throws std::runtime_error with a sentence.
std::vector<MptcpSubflow> mptcp_subflows();

} // namespace tandem::kernel
