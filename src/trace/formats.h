// The file formats behind Reader. Inner header of src/trace.
#pragma once

#include "src/trace/heading.h"
#include "src/trace/recorded.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>

namespace tandem::trace
{

// What a source of packets in one file format does.
class Format
{
public:
  virtual ~Format() = default;
  // The next packet, without its number; all of it is written. False at the end of the file. Throws BadFile.
  virtual bool next(Recorded& packet) = 0;
  virtual const std::optional<Heading>& heading() const = 0;
};

std::unique_ptr<Format> open_pcapng(const std::filesystem::path& file);
std::unique_ptr<Format> open_pcap(const std::filesystem::path& file);

// The IP packet inside a frame of the given link type: how many bytes of link layer come before it, or nothing when it
// carries no IP or the link type is not one of RAW, IPv4, IPv6, Ethernet (with VLAN tags), BSD loopback, Linux cooked
// capture 1 and 2 and 802.11 with or without radiotap.
std::optional<std::size_t> ip_offset(std::span<const std::byte> frame, std::uint32_t link_type);

// The IP packet of a frame of packet.link_type that had `length` bytes on the wire into packet.bytes and packet.length;
// nothing of it when there is none. What a link layer puts behind a packet, as Ethernet's padding to 60 bytes and the
// check sequence of 802.11, is left out.
void take_ip(std::span<const std::byte> frame, std::uint32_t length, Recorded& packet);

} // namespace tandem::trace
