// One daemon at a time.
#pragma once

#include <sys/types.h>

#include <filesystem>

namespace tandem::daemon
{

// An exclusive lock on a file that holds the owner's process number. Released with the process, however it ends.
class InstanceLock
{
public:
  // Creates the file's directory (0750) when it is missing. Throws std::runtime_error with a sentence when another
  // daemon holds the lock (and names its process) or the file cannot be made.
  //
  // A daemon that was killed leaves its keeper behind for a moment, which inherited the lock and still takes rules
  // away: that one is waited for, a few seconds at most.
  explicit InstanceLock(const std::filesystem::path& file);
  ~InstanceLock();
  InstanceLock(const InstanceLock&) = delete;
  InstanceLock& operator=(const InstanceLock&) = delete;

  // A process that inherits it holds the lock until it ends, too: the keeper.
  int descriptor() const { return descriptor_; }

private:
  int descriptor_ = -1;
};

// The lock file of this network namespace. Rules and routes are the namespace's, so one daemon serves it, whatever its
// control socket; and no other process than the daemon's user can hold it, as the directory is not everybody's.
// `shared`: where all daemons of the machine look. `own`: the run directory of a daemon that may not write there, which
// then excludes only daemons of the same run directory.
std::filesystem::path namespace_lock_file(const std::filesystem::path& own,
                                          const std::filesystem::path& shared = "/run/tandem");

// What the lock file says, for those who do not want the lock.
struct LockState
{
  bool held = false;       // by the daemon or by its keeper
  pid_t owner = 0;         // recorded process, 0 when there is none
  bool owner_runs = false; // a killed daemon does not, though its keeper may still hold the lock
};

// Throws std::runtime_error when the file exists but cannot be read.
LockState look_at_lock(const std::filesystem::path& file);

} // namespace tandem::daemon
