// What happened to each flow, in words and as JSON.
#pragma once

#include "tools/trace/link_story.h"
#include "tools/trace/repeats.h"
#include "tools/trace/stalls.h"
#include "tools/trace/unread.h"

#include <filesystem>
#include <iosfwd>
#include <string>
#include <vector>

namespace tandem::trace_tool
{

struct StallReport
{
  std::uint64_t packets = 0;
  std::uint64_t segments = 0;
  std::int64_t first_ns = 0, last_ns = 0;
  std::uint64_t set_back = 0;        // times that a packet is from before the one in front of it, by more than a second
  std::uint64_t set_back_packet = 0; // the first of these
  std::int64_t set_back_by_ns = 0;   // it
  std::vector<FlowStory> flows {};
  Unread unread {};
  Repeats repeats {};
  std::string fault {};             // what ended the file early
  std::vector<LinkMoment> links {}; // of a recording by Tandem
};

struct StallOptions
{
  std::filesystem::path file {};
  std::int64_t shortest_ns = 200'000'000;
  std::vector<Address> locals {};
};

// Throws trace::BadFile when nothing can be read.
StallReport find_stalls(const StallOptions& options);

void write_text(const StallReport& report, const std::filesystem::path& file, std::ostream& out);
void write_json(const StallReport& report, const std::filesystem::path& file, std::ostream& out);

} // namespace tandem::trace_tool
