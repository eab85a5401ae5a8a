#include "tools/lab/emulator/packets.h"

namespace tandem::lab
{

PacketPool::PacketPool(std::size_t stock)
{
  while (lengths_.size() < stock)
    grow();
}

void PacketPool::grow()
{
  const auto first = static_cast<medium::Handle>(lengths_.size());
  slabs_.emplace_back(slab_frames * frame_bytes);
  lengths_.resize(lengths_.size() + slab_frames);
  free_.reserve(lengths_.size());
  for (std::size_t i = slab_frames; i > 0; --i)
    free_.push_back(first + static_cast<medium::Handle>(i) - 1);
}

medium::Handle PacketPool::take()
{
  if (free_.empty()) grow();
  const medium::Handle handle = free_.back();
  free_.pop_back();
  return handle;
}

std::span<std::byte> PacketPool::buffer(medium::Handle handle)
{
  auto& slab = slabs_[handle / slab_frames];
  return std::span(slab).subspan(handle % slab_frames * frame_bytes, frame_bytes);
}

namespace
{

unsigned byte_at(std::span<const std::byte> frame, std::size_t offset)
{
  return std::to_integer<unsigned>(frame[offset]);
}
unsigned word_at(std::span<const std::byte> frame, std::size_t offset)
{
  return byte_at(frame, offset) << 8 | byte_at(frame, offset + 1);
}

constexpr unsigned ipv4 = 0x0800, ipv6 = 0x86dd, tcp = 6;

bool is_pure_ack(std::span<const std::byte> frame, std::size_t tcp_offset, std::size_t end)
{
  if (end > frame.size() || tcp_offset + 20 > end) return false;
  const std::size_t header = (byte_at(frame, tcp_offset + 12) >> 4) * 4u;
  const unsigned flags = byte_at(frame, tcp_offset + 13);
  constexpr unsigned fin = 0x01, syn = 0x02, rst = 0x04, ack = 0x10;
  return tcp_offset + header == end && (flags & (fin | syn | rst | ack)) == ack;
}

} // namespace

medium::Packet classify(medium::Handle handle, std::span<const std::byte> frame)
{
  medium::Packet packet;
  packet.handle = handle;
  packet.bytes = static_cast<std::uint32_t>(frame.size() - ethernet_header);
  packet.group = (byte_at(frame, 0) & 1) != 0;
  const unsigned type = word_at(frame, 12);
  if (type == ipv4 && frame.size() >= ethernet_header + 20)
  {
    packet.ect = (byte_at(frame, 15) & 3) != 0;
    const bool fragment = (word_at(frame, 20) & 0x3fff) != 0;
    if (byte_at(frame, 23) == tcp && !fragment)
      packet.airless =
          is_pure_ack(frame, ethernet_header + (byte_at(frame, 14) & 0x0f) * 4u, ethernet_header + word_at(frame, 16));
  }
  else if (type == ipv6 && frame.size() >= ethernet_header + 40)
  {
    packet.ect = (byte_at(frame, 15) >> 4 & 3) != 0;
    if (byte_at(frame, 20) == tcp)
      packet.airless = is_pure_ack(frame, ethernet_header + 40, ethernet_header + 40 + word_at(frame, 18));
  }
  return packet;
}

void mark_congestion(std::span<std::byte> frame)
{
  if (frame.size() < ethernet_header + 20) return;
  const unsigned type = word_at(frame, 12);
  if (type == ipv6) frame[15] |= std::byte { 0x30 };
  if (type != ipv4) return;
  const unsigned before = word_at(frame, 14);
  frame[15] |= std::byte { 0x03 };
  // Incremental checksum update (RFC 1624 equation 3).
  unsigned sum = (~word_at(frame, 24) & 0xffff) + (~before & 0xffff) + word_at(frame, 14);
  sum = (sum & 0xffff) + (sum >> 16);
  sum = (sum & 0xffff) + (sum >> 16);
  const unsigned checksum = ~sum & 0xffff;
  frame[24] = static_cast<std::byte>(checksum >> 8);
  frame[25] = static_cast<std::byte>(checksum & 0xff);
}

} // namespace tandem::lab
