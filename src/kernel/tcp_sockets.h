// The TCP sockets of this host (sock_diag).
#pragma once

#include <tandem/segment.h>

#include <cstdint>
#include <functional>

struct nlattr;

namespace tandem::kernel
{

struct TcpSocket
{
  FlowKey key {};                // an IPv4 address in an IPv6 socket as IPv4
  std::uint64_t cookie = 0;      // never that of another socket of this boot
  const nlattr* info = nullptr;  // INET_DIAG_INFO; nullptr: not told
  const nlattr* upper = nullptr; // INET_DIAG_ULP_INFO, likewise
};

// Those in one of `states` (bits 1 << TCP_ESTABLISHED and so on). What it points to lives during the call. Throws
// std::runtime_error with the kernel's words.
void each_tcp_socket(std::uint32_t states, const std::function<void(const TcpSocket&)>& each);

} // namespace tandem::kernel
