#include "tools/trace/print.h"

#include "src/wire/text.h"
#include "tools/trace/event.h"
#include "tools/trace/flow_book.h"

#include <nlohmann/json.hpp>

#include <array>
#include <cstdio>
#include <ostream>

namespace tandem::trace_tool
{
namespace
{

std::string direction_word(const std::optional<Direction>& direction)
{
  if (!direction) return "-";
  return *direction == Direction::ingress ? "in" : "out";
}

std::string link_word(const trace::Recorded& packet)
{
  if (packet.link != Link::other) return std::string { name(packet.link) };
  return packet.interface.empty() ? "-" : packet.interface;
}

std::string disposition_word(const Event& event)
{
  return event.disposition() ? std::string { name(*event.disposition()) } : "-";
}

bool wanted(const PrintOptions& options, const Event& event, const FlowBook::Found& found)
{
  const wire::Parsed& parsed = found.parsed;
  if (options.flow != 0 && (found.flow == nullptr || found.flow->number != options.flow)) return false;
  if (options.disposition && event.disposition() != options.disposition) return false;
  if (options.link && event.packet.link != *options.link && !(event.after && event.after->link == *options.link))
    return false;
  if (options.port
      && (!parsed.ok()
          || (parsed.segment.key.local_port != *options.port && parsed.segment.key.remote_port != *options.port)))
    return false;
  return event.why().find(options.why) != std::string::npos;
}

std::string packet_text(const trace::Recorded& packet, const wire::Parsed& parsed)
{
  if (parsed.ok()) return wire::describe(parsed.segment);
  if (packet.bytes.empty()) return "no IP packet (link type " + std::to_string(packet.link_type) + ")";
  return std::string { name(parsed.fault) } + ": " + wire::hex_line(packet.bytes, 64);
}

void print_line(std::ostream& out, const Event& event, const wire::Parsed& parsed, double time)
{
  std::array<char, 96> head {};
  std::snprintf(head.data(), head.size(), "%12.6f  %-5.60s %-3s  %-7s  ", time, shown(link_word(event.packet)).c_str(),
                direction_word(event.packet.direction).c_str(), disposition_word(event).c_str());
  out << head.data() << packet_text(event.packet, parsed);
  if (const std::string changes = difference(event); !changes.empty()) out << " => " << changes;
  if (const std::string why = event.why(); !why.empty()) out << " | " << shown(why);
  out << '\n';
}

nlohmann::json numbers(const Segment& s)
{
  nlohmann::json all { { "seq", s.seq.raw },
                       { "ack", s.ack.raw },
                       { "window", s.window },
                       { "length", s.payload_length },
                       { "flags", wire::flags_text(s.flags) } };
  if (s.ecn == Ecn::ce) all["ecn"] = "ce";
  if (s.timestamps) all["ts"] = { s.timestamps->value.raw, s.timestamps->echo.raw };
  if (s.sack_count != 0) all["sack"] = nlohmann::json::array();
  for (const SackBlock& block : s.sacks())
    all["sack"].push_back({ block.left.raw, block.right.raw });
  if (s.window_scale) all["scale"] = *s.window_scale;
  return all;
}

std::string hex(const std::vector<std::byte>& bytes)
{
  constexpr std::string_view digits = "0123456789abcdef";
  std::string text;
  for (const std::byte one : bytes)
    text += { digits[std::to_integer<unsigned>(one) >> 4], digits[std::to_integer<unsigned>(one) & 15] };
  return text;
}

void print_json(std::ostream& out, const Event& event, const FlowBook::Found& found, bool bytes)
{
  const wire::Parsed& parsed = found.parsed;
  nlohmann::json line { { "number", event.packet.number },
                        { "time_ns", event.packet.time_ns },
                        { "link", link_word(event.packet) },
                        { "direction", direction_word(event.packet.direction) },
                        { "disposition", disposition_word(event) },
                        { "length", event.packet.length },
                        { "why", event.why() } };
  if (parsed.ok())
  {
    line["segment"] = wire::describe(parsed.segment);
    line["flow"] = found.flow->number;
    line["local"] = wire::to_string(found.flow->key.local, found.flow->key.local_port);
    line["remote"] = wire::to_string(found.flow->key.remote, found.flow->key.remote_port);
    line["way"] = parsed.segment.direction == Direction::ingress ? "in" : "out";
    line["tcp"] = numbers(parsed.segment);
  }
  else
  {
    line["fault"] = name(parsed.fault);
    line["bytes"] = wire::hex_line(event.packet.bytes, 64);
  }
  if (event.after)
  {
    line["after_link"] = link_word(*event.after);
    line["change"] = difference(event);
    if (const wire::Parsed after = parse(*event.after); after.ok()) line["after_tcp"] = numbers(after.segment);
  }
  if (bytes)
  {
    line["ip"] = hex(event.packet.bytes);
    if (event.after) line["after_ip"] = hex(event.after->bytes);
  }
  // A comment of a foreign file may be any bytes.
  out << line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << '\n';
}

void print_heading(std::ostream& out, const std::optional<trace::Heading>& heading)
{
  if (heading)
  {
    out << "# " << shown(name_of(*heading)) << '\n';
    if (!heading->command.empty()) out << "# " << shown(heading->command) << '\n';
    if (!heading->knobs.empty()) out << "# " << shown(heading->knobs) << '\n';
  }
  out << "#       time  link  dir  disposition     segment\n";
}

} // namespace

void print(const PrintOptions& options, std::ostream& out)
{
  EventReader reader { options.file };
  FlowBook book;
  std::uint64_t printed = 0;
  std::optional<std::int64_t> start;
  auto event = reader.next();
  if (!options.json) print_heading(out, reader.heading());
  for (; event; event = reader.next())
  {
    if (!start) start = event->packet.time_ns;
    const FlowBook::Found found = book.take(event->packet);
    if (!wanted(options, *event, found)) continue;
    if (options.json)
      print_json(out, *event, found, options.bytes);
    else
      print_line(out, *event, found.parsed, static_cast<double>(event->packet.time_ns - *start) * 1e-9);
    if (++printed == options.limit) return;
  }
}

} // namespace tandem::trace_tool
