// Recordings of reports: JSON Lines, one report a line. Pure: text <-> values.
//
//   {"format":"tandem-reports","version":1,"start_ns":1000,"start":"2026-11-20T15:46:00.000Z"}
//   {"at_ns":1500,"source":"monitor:mon0","kind":"frame","type":"data","receiver":"02:00:00:00:00:01",...}
//   {"at_ns":1600,"source":"nl80211","kind":"station","ap":"02:00:00:00:01:00","signal":-61.5,...}
//   {"at_ns":9000,"note":"the recording ends here: ..."}
//
// Times are CLOCK_MONOTONIC in nanoseconds, lengths of time have names that end in _ns. A field that is absent, or at
// its default, is left out. Numbers come back as they were, bit by bit; a number that is not finite is none.
#pragma once

#include "src/feeder/radio/report.h"

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>
#include <variant>

namespace tandem::feeder
{

constexpr unsigned record_version = 1;
constexpr std::size_t longest_record = 64 * 1024; // bytes of a line; longer is no record

// The first line, and the first after each new start of the recorder on the same file.
struct RecordHeader
{
  Tick start {};
  std::string wall_clock {}; // ISO 8601, UTC; for people

  bool operator==(const RecordHeader&) const = default;
};

struct RecordedReport
{
  std::string source;
  Report report {};
};

// Something about the recording itself, for people.
struct RecordNote
{
  Tick at {};
  std::string text;

  bool operator==(const RecordNote&) const = default;
};

nlohmann::ordered_json to_json(const RecordHeader& header);
nlohmann::ordered_json to_json(std::string_view source, const Report& report);
nlohmann::ordered_json to_json(const RecordNote& note);
// One line of a file, without the end of line.
std::string to_line(const nlohmann::ordered_json& record);

// What a line says; or a sentence about what is wrong with it.
using Record = std::variant<RecordHeader, RecordedReport, RecordNote>;
struct ReadRecord
{
  std::optional<Record> record {};
  std::string fault {}; // "signal: a number is expected, not \"strong\""
};
ReadRecord from_json(std::string_view line);

} // namespace tandem::feeder
