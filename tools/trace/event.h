// What happened to one packet, put together from a recording: the two parts of an edited packet are one event.
#pragma once

#include "src/trace/reader.h"
#include "src/wire/parse.h"

#include <cstdint>
#include <optional>
#include <string>

namespace tandem::trace_tool
{

struct Event
{
  trace::Recorded packet {};               // as it came, or as it was made
  std::optional<trace::Recorded> after {}; // as it was sent on, of an edited packet

  std::optional<trace::Disposition> disposition() const;
  const std::string& why() const;
};

// Reads events from a recording. Throws trace::BadFile.
class EventReader
{
public:
  explicit EventReader(const std::filesystem::path& file) : reader_ { file } {}

  std::optional<Event> next();
  // The same into an event that is used again, whatever it held; false at the end of the file.
  bool next(Event& event);
  const std::optional<trace::Heading>& heading() const { return reader_.heading(); }

private:
  trace::Reader reader_;
  std::optional<trace::Recorded> ahead_ {};
};

// Packets of a recording may be cut and may have no known direction; then it is taken as leaving, which only turns the
// key round.
wire::Parsed parse(const trace::Recorded& packet);

// "tandem 0.1.0 (0123abc), Linux 6.18.0, seed 42": which daemon recorded.
std::string name_of(const trace::Heading& heading);

// Names and comments of a file may be any bytes: on one line, without what a terminal would obey.
std::string shown(std::string_view text);

// "3 ACKs", "1 ACK".
std::string amount(std::uint64_t number, const std::string& one);

// "ack 2000 -> 1000, win 500 -> 10, ts 10 20 -> 11 20, ect0 -> ce, by cell"; "" when nothing differs.
std::string difference(const Event& event);

} // namespace tandem::trace_tool
