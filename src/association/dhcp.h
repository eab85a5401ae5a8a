// An address by DHCP, from udhcpc (BusyBox), which needs no more rights than the daemon has: one exchange, and it ends.
#pragma once

#include "src/kernel/interface_address.h"

#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace tandem::association
{

// What the script dhcp-lease says; nothing when it says nothing, or what cannot be.
std::optional<kernel::InterfaceAddress> parse_lease(std::string_view output);

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
