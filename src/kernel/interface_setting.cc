#include "src/kernel/interface_setting.h"

#include <fstream>

namespace tandem::kernel
{

std::string interface_setting(const std::string& name)
{
  std::string value;
  std::ifstream { "/proc/sys/net/" + name } >> value;
  return value;
}

bool set_interface(const std::string& name, const std::string& value)
{
  return static_cast<bool>(std::ofstream { "/proc/sys/net/" + name } << value << std::flush);
}

} // namespace tandem::kernel
