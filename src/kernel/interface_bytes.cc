#include "src/kernel/interface_bytes.h"

#include <fstream>

namespace tandem::kernel
{

namespace
{

std::uint64_t counter(const std::string& interface, const char* name)
{
  std::uint64_t value = 0;
  if (!interface.empty()) std::ifstream { "/sys/class/net/" + interface + "/statistics/" + name } >> value;
  return value;
}

} // namespace

std::uint64_t arrived_by(const std::string& interface)
{
  return counter(interface, "rx_bytes");
}

std::uint64_t packets_by(const std::string& interface)
{
  return counter(interface, "rx_packets") + counter(interface, "tx_packets");
}

} // namespace tandem::kernel
