// A network namespace for a test that changes routes and rules.
#pragma once

#include <sched.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <string>

namespace tandem::kernel::test
{

// With the rights of root in it, for the programs that are run, too. False where none may be made.
inline bool in_namespace_of_ones_own()
{
  const std::string own = "0 " + std::to_string(::getuid()) + " 1";
  if (::geteuid() == 0) return ::unshare(CLONE_NEWNET) == 0;
  return ::unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0 && (std::ofstream { "/proc/self/uid_map" } << own << std::flush);
}

// Whether a shell's command succeeds. What it says is not shown.
inline bool done(const std::string& command)
{
  return std::system(("(" + command + ") >/dev/null 2>&1").c_str()) == 0;
}

} // namespace tandem::kernel::test
