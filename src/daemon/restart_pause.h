// A daemon that fails at once, each time that its service manager has started it again.
#pragma once

#include <tandem/units.h>

#include <chrono>
#include <string>

namespace tandem::daemon
{

// Who lived longer did not fail at once.
constexpr Duration failed_at_once = std::chrono::seconds { 10 };

// How long the daemon waits before it ends, having failed at once so many times in a row: not at all the first time,
// then 1 s, doubling to 60 s.
Duration restart_pause(unsigned failures);

// `file` counts them, in a directory that outlives the daemon: this failure, `lived` after the start, with those before
// it. 0: not at once. An empty name, or a file that cannot be read or written: the first.
unsigned count_failure(const std::string& file, Duration lived);
void forget_failures(const std::string& file);

} // namespace tandem::daemon
