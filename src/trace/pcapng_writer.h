// Writes entries as a pcapng file that Wireshark opens, with disposition and reason as the packet comment.
#pragma once

#include "src/trace/heading.h"
#include "src/trace/recorder.h"

#include <tandem/units.h>

#include <array>
#include <cstdint>
#include <optional>
#include <ostream>
#include <string_view>
#include <vector>

namespace tandem::trace
{

// What a source had before the first entry that is written; stated in the head of the section.
struct Before
{
  std::uint64_t packets = 0;
  std::uint64_t entries = 0; // inputs of the chain included
};

// Which part of a recorder is wanted.
struct Stretch
{
  Tick since = Tick::min();
  std::uint64_t after = 0; // leave out so many entries, counted from the recorder's first one, forgotten ones included
};

// One section: its header carries the Heading as comment lines "name: value", then interfaces named wifi, cell and
// other (link type RAW, nanoseconds). Each entry becomes a packet with comment and direction. An edited one stands as
// it left, by the link it left by; a second comment tells what it was (src/trace/original.h), so that a program that
// knows nothing of Tandem sees it once. Inputs of the chain are blocks for local use, which other programs skip.
class PcapngWriter
{
public:
  // `realtime_offset`: what to add to a Tick for the time since 1970 (CLOCK_REALTIME minus CLOCK_MONOTONIC; 0 in the
  // simulator). Writes the head of the file. `out` must be in binary mode and outlive the writer.
  // `before`: what the same source had before; a packet has one id, however often it is written.
  PcapngWriter(std::ostream& out, const Heading& heading, Duration realtime_offset, const Before& before = {});

  void write(const Entry& entry);
  // False once `out` has failed (disk full, broken pipe); nothing written after that counts.
  bool ok() const { return out_->good(); }

private:
  void write_packet(const Entry& entry, std::span<const std::byte> bytes, std::uint32_t length, Link link,
                    std::string_view comment, std::string_view second_comment = {});
  std::uint32_t interface_of(Link link, std::string_view device);
  void put16(std::uint16_t value);
  void put32(std::uint32_t value);
  void put64(std::uint64_t value);
  void put_bytes(std::span<const std::byte> bytes);
  void put_option(std::uint16_t code, std::span<const std::byte> value);
  void put_option(std::uint16_t code, std::string_view value);
  void begin(std::uint32_t type);
  void finish();

  std::ostream* out_;
  Duration realtime_offset_;
  std::uint64_t packet_id_ = 0;
  // Numbers of the interfaces; a further Wi-Fi link is described before its first packet.
  std::array<std::optional<std::uint32_t>, link_count> interfaces_ {};
  std::uint32_t interface_count_ = 0;
  std::vector<std::byte> block_;
};

// That part of the recorder; each entry makes one block. False when `out` failed.
bool write_pcapng(std::ostream& out, const Recorder& recorder, const Heading& heading, Duration realtime_offset,
                  const Stretch& wanted = {});

} // namespace tandem::trace
