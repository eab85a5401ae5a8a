#include "tools/lab/emulator/packets.h"

#include <gtest/gtest.h>

#include <initializer_list>
#include <set>
#include <vector>

namespace tandem::lab::test
{

namespace
{

std::vector<std::byte> bytes(std::initializer_list<unsigned> values, std::size_t padded = 0)
{
  std::vector<std::byte> out;
  for (unsigned v : values)
    out.push_back(static_cast<std::byte>(v));
  out.resize(std::max(out.size(), padded));
  return out;
}

// Ethernet, IPv4 (ECT(0)) with a right checksum, TCP with `flags` and `payload` bytes behind a 20-byte header.
std::vector<std::byte> tcp4(unsigned flags, unsigned payload, unsigned tos = 0x02)
{
  const unsigned total = 40 + payload;
  auto frame = bytes({ 2, 0,  0,    0, 0,  1, 2, 0, 0,  0, 0,    2,     0x08, 0x00, 0x45, tos, total >> 8, total & 0xff,
                       0, 0,  0x40, 0, 64, 6, 0, 0, 10, 0, 0,    1,     10,   0,    0,    2,   0,          80,
                       0, 81, 0,    0, 0,  1, 0, 0, 0,  2, 0x50, flags, 1,    0,    0,    0,   0,          0 },
                     14 + total);
  return frame;
}

unsigned checksum(const std::vector<std::byte>& frame)
{
  unsigned sum = 0;
  for (std::size_t i = 14; i < 34; i += 2)
    sum += std::to_integer<unsigned>(frame[i]) << 8 | std::to_integer<unsigned>(frame[i + 1]);
  while (sum >> 16)
    sum = (sum & 0xffff) + (sum >> 16);
  return ~sum & 0xffff;
}

TEST(Classify, PureAcksAreRecognised)
{
  EXPECT_TRUE(classify(1, tcp4(0x10, 0)).airless);
  EXPECT_TRUE(classify(1, tcp4(0x50, 0)).airless);  // with ECE
  EXPECT_FALSE(classify(1, tcp4(0x10, 1)).airless); // data
  EXPECT_FALSE(classify(1, tcp4(0x12, 0)).airless); // SYN
  EXPECT_FALSE(classify(1, tcp4(0x11, 0)).airless); // FIN
  EXPECT_FALSE(classify(1, tcp4(0x14, 0)).airless); // RST
  auto udp = tcp4(0x10, 0);
  udp[23] = std::byte { 17 };
  EXPECT_FALSE(classify(1, udp).airless);
  auto cut = tcp4(0x10, 0);
  cut.resize(40);
  EXPECT_FALSE(classify(1, cut).airless);
}

TEST(Classify, LengthGroupAndEcn)
{
  const auto packet = classify(7, tcp4(0x10, 100));
  EXPECT_EQ(packet.handle, 7u);
  EXPECT_EQ(packet.bytes, 140u);
  EXPECT_TRUE(packet.ect);
  EXPECT_FALSE(packet.group);
  EXPECT_FALSE(classify(7, tcp4(0x10, 0, 0)).ect);
  EXPECT_TRUE(classify(1, bytes({ 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 2, 0x08, 0x06 }, 42)).group);
  auto v6 = bytes({ 2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x86, 0xdd, 0x60, 0x20, 0, 0, 0, 20, 6, 64 }, 54 + 20);
  v6[54 + 12] = std::byte { 0x50 };
  v6[54 + 13] = std::byte { 0x10 };
  EXPECT_TRUE(classify(1, v6).airless);
  EXPECT_TRUE(classify(1, v6).ect);
}

TEST(Mark, SetsCongestionExperiencedAndKeepsTheChecksumRight)
{
  for (unsigned tos : { 0x02u, 0x01u, 0xfeu, 0x03u })
  {
    auto frame = tcp4(0x10, 0, tos);
    const unsigned sum = checksum(frame);
    frame[24] = static_cast<std::byte>(sum >> 8);
    frame[25] = static_cast<std::byte>(sum & 0xff);
    mark_congestion(frame);
    EXPECT_EQ(std::to_integer<unsigned>(frame[15]), tos | 3u);
    EXPECT_EQ(checksum(frame), 0u) << tos;
  }
  auto v6 = bytes({ 2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x86, 0xdd, 0x6a, 0x2b, 0xcd, 0xef }, 60);
  mark_congestion(v6);
  EXPECT_EQ(std::to_integer<unsigned>(v6[14]), 0x6au);
  EXPECT_EQ(std::to_integer<unsigned>(v6[15]), 0x3bu);
}

TEST(Pool, HandlesAreDistinctAndReused)
{
  PacketPool pool(256);
  std::set<medium::Handle> taken;
  for (int i = 0; i < 1000; ++i)
    taken.insert(pool.take());
  EXPECT_EQ(taken.size(), 1000u);
  EXPECT_EQ(pool.in_use(), 1000u);
  for (auto handle : taken)
    pool.give_back(handle);
  EXPECT_EQ(pool.in_use(), 0u);
  EXPECT_TRUE(taken.contains(pool.take()));
}

} // namespace

} // namespace tandem::lab::test
