// A small file in the daemon's run directory that says what a start has to undo after daemon and keeper were killed.
#pragma once

#include <cstdint>
#include <string>

namespace tandem::kernel
{

// Where a note holds: what it speaks of is gone after a reboot, and belongs to one network namespace.
struct JournalPlace
{
  std::string boot {};     // /proc/sys/kernel/random/boot_id
  std::uint64_t space = 0; // inode of /proc/self/ns/net

  bool operator==(const JournalPlace&) const = default;
};

JournalPlace journal_place();

// The file is replaced in one step; an empty text removes it. Empty path: no file, and nothing to do. Empty when it
// worked; else the reason.
std::string write_note(const std::string& path, const std::string& text);

struct Note
{
  std::string text {};  // empty: none
  std::string fault {}; // why it cannot be read; empty: it could, or is not there
};
// One that others than the daemon's user can write is not read.
Note read_note(const std::string& path);

} // namespace tandem::kernel
