// `tandem trace explain`: what was done in a recording, counted by reason.
#pragma once

#include "src/trace/heading.h"
#include "src/trace/recorder.h"
#include "tools/trace/repeats.h"
#include "tools/trace/unread.h"

#include <cstdint>
#include <filesystem>
#include <iosfwd>
#include <map>
#include <optional>
#include <string>
#include <utility>

namespace tandem::trace_tool
{

struct Count
{
  std::uint64_t packets = 0;
  std::uint64_t bytes = 0; // IP packets, on the wire

  bool operator==(const Count&) const = default;
};

// What went over a link in one direction: dropped packets are not in it, and an edited one counts where it left.
struct LinkCount
{
  Count all {};
  std::uint64_t pure_acks = 0;

  bool operator==(const LinkCount&) const = default;
};

struct Summary
{
  std::optional<trace::Heading> heading {};
  Count all {};
  std::int64_t first_ns = 0; // since 1970
  std::int64_t last_ns = 0;
  std::map<std::pair<std::string, std::string>, Count> reasons {};   // by disposition ("-": of another program) and why
  std::map<std::pair<std::string, std::string>, LinkCount> links {}; // by link and direction
  std::map<std::string, std::uint64_t> faults {};                    // packets that are no segment, by ParseFault
  Unread unread {};
  Repeats repeats {};
  std::string fault {}; // what ended the file early
};

// Throws trace::BadFile when nothing can be read.
Summary summarise(const std::filesystem::path& file);

void write_table(const Summary& summary, const std::filesystem::path& file, std::ostream& out);
void write_json(const Summary& summary, const std::filesystem::path& file, std::ostream& out);

} // namespace tandem::trace_tool
