// An address by DHCP, from udhcpc (BusyBox), which needs no more rights than the daemon has: one exchange, and it ends.
#pragma once

#include "src/kernel/interface_address.h"

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::association
{

// What the script dhcp-lease says; nothing when it says nothing, or what cannot be.
std::optional<kernel::InterfaceAddress> parse_lease(std::string_view output);

// The address of another interface, and the length of its network's prefix.
struct Neighbour
{
  std::string interface;
  std::string address;
  unsigned prefix = 0;
};
// Those of all interfaces but this one, IPv4.
std::vector<Neighbour> neighbours(const std::string& interface);
// Why a lease must not be used beside these, in a few words; empty: it may. The route to its network is used by
// everybody where it is more specific than another one, whatever its metric.
std::string objection(const kernel::InterfaceAddress& lease, const std::vector<Neighbour>& others);

class DhcpExchange
{
public:
  struct Result
  {
    std::optional<kernel::InterfaceAddress> lease {};
    std::string problem {}; // without one
  };

  // Begins in a thread of its own. `script`: of dhcp-lease. `before`: the address to ask for again, or empty. What has
  // begun is not waited for in the end; it ends by itself in a few seconds.
  DhcpExchange(const std::string& interface, const std::string& script, const std::string& before);

  // Nothing while it goes on.
  std::optional<Result> result() const;

private:
  struct Shared;
  std::shared_ptr<Shared> shared_;
};

} // namespace tandem::association
