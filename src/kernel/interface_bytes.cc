#include "src/kernel/interface_bytes.h"

#include <fstream>

namespace tandem::kernel
{

std::uint64_t arrived_by(const std::string& interface)
{
  std::uint64_t bytes = 0;
  if (!interface.empty()) std::ifstream { "/sys/class/net/" + interface + "/statistics/rx_bytes" } >> bytes;
  return bytes;
}

} // namespace tandem::kernel
