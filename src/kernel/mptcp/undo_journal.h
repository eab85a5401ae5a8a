// What Tandem changed in the kernel's MPTCP path manager, so that it can be undone: kept in a file for a start after
// daemon and keeper were killed.
#pragma once

#include "src/kernel/mptcp/mptcp_pm.h"
#include "src/kernel/note_file.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::kernel
{

struct UndoJournal
{
  struct Own // an endpoint that Tandem created
  {
    std::string address {};
    int ifindex = 0;
    std::uint8_t id = 0; // 0: about to be created

    bool operator==(const Own&) const = default;
  };
  struct Flag // the backup flag of somebody else's endpoint
  {
    std::string address {};
    std::uint8_t id = 0;
    bool before = false; // as found
    bool set = false;    // by Tandem

    bool operator==(const Flag&) const = default;
  };
  struct Limit
  {
    MptcpLimits before {};
    MptcpLimits set {};

    bool operator==(const Limit&) const = default;
  };

  std::vector<Own> own {};
  std::vector<Flag> flags {};
  std::optional<Limit> limit {};

  bool empty() const { return own.empty() && flags.empty() && !limit; }
  bool operator==(const UndoJournal&) const = default;
};

std::string render_journal(const UndoJournal& journal, const JournalPlace& place);

struct ReadJournal
{
  UndoJournal journal {}; // empty when the text is of another place, or bad
  std::string fault {};   // what is bad about it; empty: nothing
};
ReadJournal parse_journal(std::string_view text, const JournalPlace& here);

// Empty path: no file, and nothing to do.
// The file is replaced in one step; an empty journal removes it. Empty when it worked; else the reason.
std::string write_journal(const std::string& path, const UndoJournal& journal);
// A file that is not there is an empty journal. One that belongs to another user is not read.
ReadJournal read_journal(const std::string& path);

} // namespace tandem::kernel
