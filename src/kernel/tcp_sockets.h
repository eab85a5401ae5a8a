// The TCP sockets of this host (sock_diag).
#pragma once

#include <tandem/segment.h>

#include <cstdint>
#include <functional>
#include <string>

struct nlattr;

namespace tandem::kernel
{

// By what the kernel finds a socket again.
struct TcpSocketName
{
  FlowKey key {};           // an IPv4 address in an IPv6 socket as IPv4
  int interface = 0;        // to which it is bound; 0: to none
  std::uint64_t cookie = 0; // never that of another socket of this boot

  bool operator==(const TcpSocketName&) const = default;
};

struct TcpSocket : TcpSocketName
{
  std::uint8_t state = 0;        // TCP_ESTABLISHED and so on
  std::uint32_t queued = 0;      // bytes that are not acknowledged, sent or not
  bool wants_errors = false;     // IP_RECVERR; false also where the kernel does not say (before Linux 5.10)
  const nlattr* info = nullptr;  // INET_DIAG_INFO; nullptr: not told
  const nlattr* upper = nullptr; // INET_DIAG_ULP_INFO, likewise
};

// The states in which a TCP may still have something to send, for `states` below.
extern const std::uint32_t sending_states;

// Those in one of `states` (bits 1 << TCP_ESTABLISHED and so on). What it points to lives during the call. Throws
// std::runtime_error with the kernel's words.
void each_tcp_socket(std::uint32_t states, const std::function<void(const TcpSocket&)>& each);

// Ends a socket at once, its peer by a reset (SOCK_DESTROY). Empty when it is so, or was gone already; else the
// kernel's reason: without CONFIG_INET_DIAG_DESTROY "Operation not supported".
std::string end_tcp_socket(const TcpSocketName& socket);

} // namespace tandem::kernel
