// The kernel's MPTCP path manager over generic netlink (family mptcp_pm, linux/mptcp_pm.h).
#pragma once

#include "src/kernel/mptcp/steering.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

struct nlattr;

namespace tandem::kernel
{

struct MptcpLimits
{
  std::uint32_t subflows = 0; // further ones of a connection, besides its first
  std::uint32_t add_addr = 0; // addresses taken from the peer

  bool operator==(const MptcpLimits&) const = default;
};

constexpr std::uint32_t most_mptcp_subflows = 8; // MPTCP_PM_ADDR_MAX: the kernel refuses higher limits
constexpr std::size_t most_mptcp_endpoints = 8;  // of a network namespace: MPTCP_PM_ADDR_MAX, too

namespace mptcp_flag
{
constexpr std::uint32_t subflow = 2, backup = 4, fullmesh = 8; // MPTCP_PM_ADDR_FLAG_*
}

// Why the path manager would not do what it is told, in a sentence: no MPTCP in this kernel, switched off, or managed
// from user space. Empty when it would. Reads net.mptcp.enabled and net.mptcp.path_manager (pm_type before Linux 6.15).
std::string mptcp_unavailable();

class MptcpPathManager
{
public:
  // Throws std::runtime_error with a sentence.
  MptcpPathManager();
  ~MptcpPathManager();
  MptcpPathManager(const MptcpPathManager&) = delete;
  MptcpPathManager& operator=(const MptcpPathManager&) = delete;

  // Throw std::runtime_error with a sentence. Endpoints come without `own`.
  std::vector<MptcpEndpoint> endpoints();
  MptcpLimits limits();

  // Empty when the kernel did it; else its reason.
  std::string add(const std::string& address, int ifindex, std::uint32_t flags);
  std::string remove(const MptcpEndpoint& endpoint);
  // Keeps the other flags. Existing subflows from this address tell the peer by MP_PRIO (RFC 8684, 3.3.8), the first
  // one of a connection too; of several subflows of one connection from one address, only one does.
  std::string set_backup(const MptcpEndpoint& endpoint, bool backup);
  std::string set_limits(const MptcpLimits& limits);

private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

// An endpoint from the attributes of MPTCP_PM_ATTR_ADDR. False when a needed one is missing or has a wrong length.
bool read_endpoint(nlattr* nested, MptcpEndpoint& endpoint);

} // namespace tandem::kernel
