// Whose a connection of this host is, as the kernel's sock_diag tells it.
#pragma once

#include "src/kernel/fd.h"

#include <tandem/segment.h>

#include <cstdint>
#include <optional>
#include <string>

namespace tandem::kernel
{

struct SocketOwner
{
  std::uint32_t user = 0;
  std::uint64_t cookie = 0; // the socket's: of this one alone, as long as the kernel runs (SO_COOKIE)
  std::uint64_t cgroup = 0; // id in the v2 hierarchy when the socket was made; 0: not told (Linux before 5.7)
  bool mptcp = false;       // it is a subflow of a socket of MPTCP's, whatever its packets carry
  bool operator==(const SocketOwner&) const = default;
};

class SocketOwners
{
public:
  SocketOwners();

  // Of the TCP socket with exactly these addresses and ports, whatever its state. Nothing when there is none, or when
  // the kernel does not tell. Answered within the call: never waits. Of a socket bound to an interface, as MPTCP's path
  // manager binds subflows, the kernel tells only who names that one; 0: none.
  std::optional<SocketOwner> find(const FlowKey& flow, int interface = 0);

private:
  Fd socket_;
  std::uint32_t asked_ = 0; // sequence number of the latest question
};

// "/system.slice/backup.service" of a cgroup's id; empty when there is none (any more), or no v2 hierarchy is mounted.
// Looks through the whole hierarchy: for another thread than that of packets. `root` is for tests.
std::string cgroup_path(std::uint64_t id, const std::string& root = "");

} // namespace tandem::kernel
