// A replay in words and as JSON.
#pragma once

#include "tools/trace/replay.h"

#include <cstdint>
#include <filesystem>
#include <iosfwd>
#include <string>
#include <vector>

namespace tandem::trace_tool
{

struct ReplayReport
{
  std::filesystem::path file {};
  std::vector<std::string> modules {};  // that were switched on
  std::vector<std::string> settings {}; // module.knob=value, as given
  ReplayOptions::Against against = ReplayOptions::Against::nothing;
  bool differences = false; // list those that no sender would have noticed as well
};

// "1.234567 s", of nanoseconds.
std::string seconds_text(std::int64_t ns);

void write_text(const ReplayReport& report, const Replay& replay, std::ostream& out);
void write_json(const ReplayReport& report, const Replay& replay, std::ostream& out);

} // namespace tandem::trace_tool
