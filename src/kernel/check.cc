#include "src/kernel/check.h"

#include <cerrno>
#include <cstdlib>
#include <string>
#include <system_error>

namespace tandem::kernel
{

long check(std::string_view what, long rc)
{
  if (rc < 0) fail(what, errno);
  return rc;
}

void check_code(std::string_view what, int code)
{
  if (code != 0) fail(what, std::abs(code));
}

void fail(std::string_view what, int code)
{
  throw std::system_error { code, std::generic_category(), std::string { what } };
}

} // namespace tandem::kernel
