// A replay of what happened, in words and as JSON.
#pragma once

#include "tools/trace/live_replay.h"

#include <filesystem>
#include <iosfwd>

namespace tandem::trace_tool
{

void write_text(const std::filesystem::path& file, const LiveReplay& replay, std::ostream& out);
void write_json(const std::filesystem::path& file, const LiveReplay& replay, std::ostream& out);

} // namespace tandem::trace_tool
