#include "src/wire/checksum.h"
#include "tests/unit/wire/packets.h"

#include <gtest/gtest.h>

namespace tandem::wire
{
namespace
{

using namespace test;

// RFC 1071 in its plainest form, to check the fast one against.
std::uint16_t plain_sum(std::span<const std::byte> bytes)
{
  std::uint32_t total = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i)
  {
    const auto value = std::to_integer<std::uint32_t>(bytes[i]);
    total += i % 2 == 0 ? value << 8 : value;
    total = (total & 0xffff) + (total >> 16);
  }
  return static_cast<std::uint16_t>(total);
}

TEST(Checksum, ExampleOfRfc1071)
{
  EXPECT_EQ(sum(hex("0001f203f4f5f6f7")), 0xddf2);
  EXPECT_EQ(checksum(hex("0001f203f4f5f6f7")), 0x220d);
}

TEST(Checksum, ExampleOfRfc1624)
{
  // Section 4: the case in which RFC 1141's equation gives 0xffff.
  EXPECT_EQ(update16(0xdd2f, 0x5555, 0x3285), 0x0000);
}

TEST(Checksum, FastEqualsPlainForEveryLengthAndAlignment)
{
  Generator random { 1 };
  const Packet bytes = random.bytes(300);
  for (std::size_t offset = 0; offset < 9; ++offset)
    for (std::size_t length = 0; length <= 280; ++length)
    {
      const auto part = std::span { bytes }.subspan(offset, length);
      ASSERT_EQ(sum(part), plain_sum(part)) << offset << " " << length;
    }
}

TEST(Checksum, LongRunsOfOnesDoNotLoseACarry)
{
  const Packet ones(200001, std::byte { 0xff });
  EXPECT_EQ(sum(ones), plain_sum(ones));
}

TEST(Checksum, CapturedPacketsVerify)
{
  for (const Packet& packet : captured())
  {
    const Parsed parsed = parse(packet, Direction::ingress);
    ASSERT_TRUE(parsed.ok());
    EXPECT_TRUE(verify(packet, parsed.segment));
  }
}

TEST(Checksum, EveryFlippedBitIsSeen)
{
  const Packet packet = hex(sack_v4);
  const Segment segment = parse(packet, Direction::egress).segment;
  for (std::size_t at = 20; at < packet.size(); ++at)
    for (unsigned bit = 0; bit < 8; ++bit)
    {
      Packet damaged = packet;
      damaged[at] ^= std::byte { static_cast<std::uint8_t>(1u << bit) };
      EXPECT_FALSE(verify(damaged, segment)) << at;
    }
  Packet damaged = packet;
  damaged[8] ^= std::byte { 1 }; // TTL: only the IPv4 header checksum covers it
  EXPECT_FALSE(verify(damaged, segment));
}

TEST(Checksum, ACutPacketIsNeitherVerifiedNorSealed)
{
  Packet packet = data_v4();
  packet.resize(100);
  const Segment segment = parse(packet, Direction::ingress, true).segment;
  EXPECT_FALSE(verify(packet, segment));
  const Packet before = packet;
  EXPECT_FALSE(seal(packet, segment));
  EXPECT_EQ(packet, before);
}

TEST(Checksum, SealRestoresCapturedPackets)
{
  for (const Packet& packet : captured())
  {
    const Segment segment = parse(packet, Direction::ingress).segment;
    Packet unsealed = packet;
    store16(unsealed, segment.ip_header_length + 16u, 0x1234); // as a partial checksum may be
    if (!segment.key.local.v6) store16(unsealed, 10, 0);
    ASSERT_TRUE(seal(unsealed, segment));
    EXPECT_EQ(unsealed, packet);
  }
}

TEST(Checksum, IncrementalEqualsRecomputation)
{
  Generator random { 2 };
  for (int round = 0; round < 20000; ++round)
  {
    Packet bytes = random.bytes(2 + 2 * random.below(60));
    if (random.below(4) == 0) std::fill(bytes.begin(), bytes.end(), std::byte { 0xff });
    const std::uint16_t before = checksum(bytes);
    const std::size_t at = 2 * random.below(static_cast<std::uint32_t>(bytes.size() / 2));
    const auto value = static_cast<std::uint16_t>(random.below(3) == 0 ? 0 : random.number());
    const std::uint16_t updated = update16(before, load16(bytes, at), value);
    store16(bytes, at, value);
    const std::uint16_t recomputed = checksum(bytes);
    // All-zero bytes have no sum but zero, which the incremental form writes as 0xffff; no packet is all zero.
    if (recomputed == 0xffff) continue;
    ASSERT_EQ(updated, recomputed) << round;
  }
}

TEST(Checksum, DamageIsSeenWhereTheWholePacketIs)
{
  Generator random { 12 };
  for (int round = 0; round < 2000; ++round)
  {
    Packet packet = made(random.headers(), random.bytes(random.below(100)));
    packet.resize(packet.size() + random.below(7)); // padding of the link
    const Parsed right = parse(packet, Direction::ingress, true);
    ASSERT_TRUE(right.ok());
    ASSERT_FALSE(damaged(right.segment));
    Packet cut = packet;
    cut.resize(right.segment.ip_header_length + right.segment.tcp_header_length + 0u);
    cut[cut.size() - 1] ^= std::byte { 1 };
    if (right.segment.payload_length > 0)
    {
      ASSERT_FALSE(damaged(parse(cut, Direction::ingress, true).segment)) << "nobody can tell";
    }
    const std::size_t at = right.segment.ip_header_length + random.below(right.segment.payload_length + 20);
    if (at / 2 == (right.segment.ip_header_length + 12u) / 2) continue; // the header's length: another packet
    packet[at] ^= static_cast<std::byte>(1 + random.below(255));
    const Parsed wrong = parse(packet, Direction::ingress, true);
    if (wrong.ok())
    {
      ASSERT_TRUE(damaged(wrong.segment)) << round;
    }
  }
}

TEST(Checksum, PseudoHeaderLengthBeyond16Bits)
{
  const std::uint16_t small = pseudo_header_sum(key_v6.local, key_v6.remote, 6, 4);
  const std::uint16_t large = pseudo_header_sum(key_v6.local, key_v6.remote, 6, 0x10003);
  EXPECT_EQ(small, large); // 1 + 3: both halves of the length count (RFC 8200 8.1)
}

} // namespace
} // namespace tandem::wire
