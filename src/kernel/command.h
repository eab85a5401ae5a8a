// Runs another program and collects what it says.
#pragma once

#include <string>
#include <vector>

namespace tandem::kernel
{

struct CommandResult
{
  int status = -1; // exit code; 127 when the program is not there, -1 when it was killed
  std::string output {};
  std::string errors {};
  bool ok() const { return status == 0; }
  bool missing() const { return status == 127; }
};

// No shell. `input` is fed to its standard input. A name without a slash is looked for in the system's directories of
// programs, whatever PATH says: the keeper runs it with privileges.
CommandResult run(const std::vector<std::string>& words, const std::string& input = {});

} // namespace tandem::kernel
