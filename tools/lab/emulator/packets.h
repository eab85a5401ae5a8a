// Recycled packet buffers and the few looks into a packet that the air needs.
#pragma once

#include "tools/lab/medium/outbox.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace tandem::lab
{

// Ethernet frames by handle. Buffers are allocated in slabs while the number of packets under way grows, and reused
// from then on.
class PacketPool
{
public:
  static constexpr std::size_t frame_bytes = 1518; // MTU 1500, Ethernet header, room for one VLAN tag

  explicit PacketPool(std::size_t stock = 4096);

  medium::Handle take();
  void give_back(medium::Handle handle) { free_.push_back(handle); }
  std::span<std::byte> buffer(medium::Handle handle);
  std::span<std::byte> frame(medium::Handle handle) { return buffer(handle).first(lengths_[handle]); }
  void set_length(medium::Handle handle, std::size_t bytes) { lengths_[handle] = static_cast<std::uint16_t>(bytes); }
  std::size_t in_use() const { return lengths_.size() - free_.size(); }

private:
  void grow();

  static constexpr std::size_t slab_frames = 256;

  std::vector<std::vector<std::byte>> slabs_;
  std::vector<std::uint16_t> lengths_;
  std::vector<medium::Handle> free_;
};

constexpr std::size_t ethernet_header = 14;

// What the medium wants to know of an Ethernet frame: network-layer length, group address, ECN capability, and whether
// it is a TCP segment with ACK set, without payload and without SYN, FIN and RST (`airless` then).
medium::Packet classify(medium::Handle handle, std::span<const std::byte> frame);

// Sets Congestion Experienced (RFC 3168) in an IPv4 or IPv6 packet inside an Ethernet frame; others stay as they are.
void mark_congestion(std::span<std::byte> frame);

} // namespace tandem::lab
