// An IPv4 address of an interface of Tandem's own, and the routes that lead out by it.
#pragma once

#include <tandem/units.h>

#include <cstdint>
#include <string>

namespace tandem::kernel
{

struct InterfaceAddress
{
  std::string address {};   // "192.0.2.7"
  unsigned prefix = 0;      // length
  std::string gateway {};   // empty: none, and no default route
  Duration lifetime {};     // zero: for ever; else the kernel takes it away then
  std::uint32_t metric = 0; // of its routes: above those of others, so that only who binds to the interface uses them

  bool operator==(const InterfaceAddress&) const = default;
};

// The network of an IPv4 address, without bits behind the prefix: "192.0.2.0/24".
std::string network_of(const std::string& address, unsigned prefix);

// Adds or renews it; with the interface it goes. Empty when it worked; else what failed and why.
std::string give_address(int ifindex, const InterfaceAddress& wanted);
// Takes it away; the routes with it go by themselves. Nothing happens when it has gone.
void take_address(int ifindex, const InterfaceAddress& given) noexcept;

} // namespace tandem::kernel
