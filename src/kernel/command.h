// Runs another program and collects what it says.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace tandem::kernel
{

struct CommandResult
{
  int status = -1; // exit code; 127 when the program is not there, -1 when it was killed, or nobody knows
  std::string output {};
  std::string errors {};
  bool ok() const { return status == 0; }
  bool missing() const { return status == 127; }
};

// Whoever waits for a program does nothing else. The slowest one here, iptables, waits 5 s for a lock.
constexpr std::chrono::seconds command_limit { 30 };

// No shell. `input` is fed to its standard input. A name without a slash is looked for in the system's directories of
// programs, whatever PATH says: the keeper runs it with privileges. What has not ended within `limit` is killed, with
// what it has started; `errors` begins with a sentence that says so.
CommandResult run(const std::vector<std::string>& words, const std::string& input = {},
                  std::chrono::milliseconds limit = command_limit);

} // namespace tandem::kernel
