#include "tools/trace/event.h"

#include "src/control/printable.h"

#include <array>
#include <utility>

namespace tandem::trace_tool
{
namespace
{

std::string ecn_text(Ecn ecn)
{
  constexpr std::array names { "not-ect", "ect1", "ect0", "ce" };
  return names[static_cast<std::size_t>(ecn)];
}

std::string timestamps_text(const Timestamps& timestamps)
{
  return std::to_string(timestamps.value.raw) + " " + std::to_string(timestamps.echo.raw);
}

} // namespace

std::optional<trace::Disposition> Event::disposition() const
{
  if (!packet.decision) return {};
  return packet.decision->disposition;
}

const std::string& Event::why() const
{
  return packet.decision ? packet.decision->why : packet.comment;
}

std::optional<Event> EventReader::next()
{
  std::optional<Event> event { std::in_place };
  if (!next(*event)) event.reset();
  return event;
}

bool EventReader::next(Event& event)
{
  event.after.reset();
  if (ahead_)
  {
    event.packet = std::move(*ahead_);
    ahead_.reset();
  }
  else if (!reader_.next(event.packet))
    return false;
  if (!event.packet.decision || event.packet.decision->part != trace::Part::before) return true;
  ahead_ = reader_.next();
  // The second part may be missing, in a file that somebody has filtered.
  if (ahead_ && ahead_->decision && ahead_->decision->part == trace::Part::after
      && ahead_->packet_id == event.packet.packet_id)
  {
    event.after = std::move(ahead_);
    ahead_.reset();
  }
  return true;
}

wire::Parsed parse(const trace::Recorded& packet)
{
  return wire::parse(packet.bytes, packet.direction.value_or(Direction::egress), packet.bytes.size() < packet.length, 0,
                     packet.length);
}

std::string name_of(const trace::Heading& heading)
{
  return "tandem " + heading.version + (heading.commit.empty() ? "" : " (" + heading.commit + ")") + ", "
         + heading.kernel + ", seed " + std::to_string(heading.seed);
}

std::string amount(std::uint64_t number, const std::string& one)
{
  return std::to_string(number) + ' ' + one + (number == 1 ? "" : "s");
}

std::string shown(std::string_view text)
{
  return printable(text, '?');
}

std::string difference(const Event& event)
{
  if (!event.after) return {};
  std::string text;
  auto add = [&](const std::string& item) { text += (text.empty() ? "" : ", ") + item; };
  auto changed = [&](const std::string& what, const auto& from, const auto& to)
  {
    if (from != to) add(what + std::to_string(from) + " -> " + std::to_string(to));
  };
  const wire::Parsed before = parse(event.packet);
  const wire::Parsed after = parse(*event.after);
  if (before.ok() && after.ok())
  {
    const Segment& from = before.segment;
    const Segment& to = after.segment;
    changed("seq ", from.seq.raw, to.seq.raw);
    changed("ack ", from.ack.raw, to.ack.raw);
    changed("win ", from.window, to.window);
    if (from.timestamps && to.timestamps && from.timestamps != to.timestamps)
      add("ts " + timestamps_text(*from.timestamps) + " -> " + timestamps_text(*to.timestamps));
    if (from.ecn != to.ecn) add(ecn_text(from.ecn) + " -> " + ecn_text(to.ecn));
    changed("len ", from.payload_length, to.payload_length);
  }
  if (event.packet.link != event.after->link) add("by " + std::string { name(event.after->link) });
  if (text.empty() && event.packet.bytes != event.after->bytes) add("other bytes");
  return text;
}

} // namespace tandem::trace_tool
