#include "src/trace/pcapng_writer.h"

#include "src/trace/comment.h"
#include "src/trace/original.h"
#include "src/trace/pcapng.h"

#include <array>
#include <cstring>

namespace tandem::trace
{
namespace
{

std::span<const std::byte> bytes_of(std::string_view text)
{
  return std::as_bytes(std::span { text.data(), text.size() });
}

std::uint64_t count_of(Tick at)
{
  return static_cast<std::uint64_t>(at.time_since_epoch().count());
}

std::string heading_text(const Heading& heading, Duration realtime_offset, const Before& before)
{
  std::string text = "tandem trace";
  auto line = [&](std::string_view key, const std::string& value)
  {
    if (!value.empty()) text += "\n" + std::string { key } + ": " + value;
  };
  line("version", heading.version);
  line("commit", heading.commit);
  line("command", heading.command);
  line("kernel", heading.kernel);
  line("seed", std::to_string(heading.seed));
  line("knobs", heading.knobs);
  line("realtime offset ns", std::to_string(realtime_offset.count()));
  line("packets before", std::to_string(before.packets));
  line("entries before", std::to_string(before.entries));
  return text;
}

} // namespace

PcapngWriter::PcapngWriter(std::ostream& out, const Heading& heading, Duration realtime_offset, const Before& before)
    : out_ { &out }, realtime_offset_ { realtime_offset }, packet_id_ { before.packets }
{
  begin(pcapng::section_header);
  put32(pcapng::byte_order_magic);
  put16(pcapng::major_version);
  put16(pcapng::minor_version);
  put32(0xffffffff); // section length: not given
  put32(0xffffffff);
  put_option(pcapng::option::comment, heading_text(heading, realtime_offset, before));
  if (!heading.kernel.empty()) put_option(pcapng::option::section_os, heading.kernel);
  put_option(pcapng::option::section_application, "tandem " + heading.version);
  put_option(pcapng::option::end, std::string_view {});
  finish();

  constexpr std::array links { Link::wifi, Link::cell, Link::other };
  const std::array<std::string_view, 3> devices { heading.wifi_device, heading.cell_device, "" };
  for (std::size_t i = 0; i < links.size(); ++i)
    interface_of(links[i], devices[i]);
}

std::uint32_t PcapngWriter::interface_of(Link link, std::string_view device)
{
  auto& number = interfaces_[static_cast<std::size_t>(link)];
  if (number) return *number;
  constexpr std::array nanoseconds { std::byte { 9 } }; // 10^-9
  begin(pcapng::interface_description);
  put16(pcapng::linktype_raw);
  put16(0);
  put32(0); // no snap length: it varies
  put_option(pcapng::option::interface_name, name(link));
  if (!device.empty()) put_option(pcapng::option::interface_description, device);
  put_option(pcapng::option::interface_resolution, nanoseconds);
  put_option(pcapng::option::end, std::string_view {});
  finish();
  number = interface_count_++;
  return *number;
}

void PcapngWriter::write(const Entry& entry)
{
  if (!entry.input.empty())
  {
    begin(pcapng::chain_input);
    put64(count_of(entry.at));
    put32(static_cast<std::uint32_t>(entry.input.size()));
    put_bytes(entry.input);
    finish();
    return;
  }
  ++packet_id_;
  const auto length = [](std::span<const std::byte> bytes, std::uint32_t stated)
  { return stated != 0 ? stated : static_cast<std::uint32_t>(bytes.size()); };
  const std::uint32_t before_length = length(entry.before, entry.before_length);
  const std::uint32_t after_length = length(entry.after, entry.after_length);
  Comment comment { .disposition = entry.disposition, .why = std::string { entry.why } };
  switch (entry.disposition)
  {
  case Disposition::edited:
    write_packet(entry, entry.after.empty() ? entry.before : entry.after,
                 entry.after.empty() ? before_length : after_length, entry.after_link, to_text(comment),
                 original_text(entry.link, entry.before, entry.after));
    return;
  case Disposition::injected:
    write_packet(entry, entry.after, after_length, entry.link, to_text(comment));
    return;
  case Disposition::passed:
  case Disposition::dropped:
  case Disposition::fault:
  case Disposition::observed:
    write_packet(entry, entry.before, before_length, entry.link, to_text(comment));
    return;
  }
}

void PcapngWriter::write_packet(const Entry& entry, std::span<const std::byte> bytes, std::uint32_t length, Link link,
                                std::string_view comment, std::string_view second_comment)
{
  const auto time = static_cast<std::uint64_t>((entry.at.time_since_epoch() + realtime_offset_).count());
  const std::uint32_t interface = interface_of(link, {});
  begin(pcapng::enhanced_packet);
  put32(interface);
  put32(static_cast<std::uint32_t>(time >> 32));
  put32(static_cast<std::uint32_t>(time & 0xffffffff));
  put32(static_cast<std::uint32_t>(bytes.size()));
  put32(length);
  put_bytes(bytes);
  put_option(pcapng::option::comment, comment);
  if (!second_comment.empty()) put_option(pcapng::option::comment, second_comment);
  const std::uint32_t flags = entry.direction == Direction::ingress ? pcapng::inbound : pcapng::outbound;
  put_option(pcapng::option::packet_flags, std::as_bytes(std::span { &flags, 1 }));
  put_option(pcapng::option::packet_id, std::as_bytes(std::span { &packet_id_, 1 }));
  if (entry.asked)
  {
    const std::array<std::uint64_t, 3> asked { count_of(entry.asked->at), count_of(entry.asked->received),
                                               std::uint64_t { entry.asked->seen } << 1
                                                   | (entry.asked->checksum_not_ready ? 1 : 0) };
    put_option(pcapng::option::asked, std::as_bytes(std::span { asked }));
  }
  put_option(pcapng::option::end, std::string_view {});
  finish();
}

// Numbers are written in the byte order of this machine, which the section header's magic states.
void PcapngWriter::put16(std::uint16_t value)
{
  const auto bytes = std::as_bytes(std::span { &value, 1 });
  block_.insert(block_.end(), bytes.begin(), bytes.end());
}

void PcapngWriter::put32(std::uint32_t value)
{
  const auto bytes = std::as_bytes(std::span { &value, 1 });
  block_.insert(block_.end(), bytes.begin(), bytes.end());
}

void PcapngWriter::put64(std::uint64_t value)
{
  const auto bytes = std::as_bytes(std::span { &value, 1 });
  block_.insert(block_.end(), bytes.begin(), bytes.end());
}

void PcapngWriter::put_bytes(std::span<const std::byte> bytes)
{
  block_.insert(block_.end(), bytes.begin(), bytes.end());
  block_.resize(pcapng::padded(block_.size()));
}

void PcapngWriter::put_option(std::uint16_t code, std::span<const std::byte> value)
{
  const std::size_t length = std::min<std::size_t>(value.size(), 0xffff);
  put16(code);
  put16(static_cast<std::uint16_t>(length));
  put_bytes(value.first(length));
}

void PcapngWriter::put_option(std::uint16_t code, std::string_view value)
{
  put_option(code, bytes_of(value));
}

void PcapngWriter::begin(std::uint32_t type)
{
  block_.clear();
  put32(type);
  put32(0); // the length, by finish()
}

void PcapngWriter::finish()
{
  const auto length = static_cast<std::uint32_t>(block_.size() + 4);
  std::memcpy(block_.data() + 4, &length, sizeof length);
  put32(length);
  out_->write(reinterpret_cast<const char*>(block_.data()), static_cast<std::streamsize>(block_.size()));
}

bool write_pcapng(std::ostream& out, const Recorder& recorder, const Heading& heading, Duration realtime_offset,
                  const Stretch& wanted)
{
  // Entries lie in the order of time: those that are not wanted come first. Their number is in the head.
  Before before { .packets = recorder.forgotten(), .entries = recorder.entries_forgotten() };
  const std::uint64_t first_kept = before.entries;
  recorder.visit(
      [&](const Entry& entry)
      {
        if (entry.at >= wanted.since && before.entries >= wanted.after) return;
        ++before.entries;
        if (entry.input.empty()) ++before.packets;
      });
  PcapngWriter writer { out, heading, realtime_offset, before };
  std::uint64_t number = first_kept;
  recorder.visit(
      [&](const Entry& entry)
      {
        if (number++ >= before.entries) writer.write(entry);
      });
  out.flush();
  return writer.ok();
}

} // namespace tandem::trace
