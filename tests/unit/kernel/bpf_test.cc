#include "src/kernel/packet/bpf.h"

#include <tandem/module.h>

#include <gtest/gtest.h>
#include <pcap/pcap.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace tandem::kernel
{
namespace
{

constexpr std::uint8_t fin = 1, syn = 2, rst = 4, psh = 8, ack = 16;

using Bytes = std::vector<std::uint8_t>;

// A packet with `ip` words of IPv4 header and `tcp` words of TCP header.
Bytes v4(std::uint8_t flags, std::size_t payload, std::size_t ip = 5, std::size_t tcp = 8)
{
  Bytes bytes(4 * (ip + tcp) + payload);
  bytes[0] = static_cast<std::uint8_t>(0x40 | ip);
  bytes[2] = static_cast<std::uint8_t>(bytes.size() >> 8);
  bytes[3] = static_cast<std::uint8_t>(bytes.size());
  bytes[9] = 6;
  bytes[4 * ip + 12] = static_cast<std::uint8_t>(tcp << 4);
  bytes[4 * ip + 13] = flags;
  return bytes;
}

Bytes v6(std::uint8_t flags, std::size_t payload, std::size_t tcp = 8)
{
  Bytes bytes(40 + 4 * tcp + payload);
  bytes[0] = 0x60;
  bytes[4] = static_cast<std::uint8_t>((bytes.size() - 40) >> 8);
  bytes[5] = static_cast<std::uint8_t>(bytes.size() - 40);
  bytes[6] = 6;
  bytes[52] = static_cast<std::uint8_t>(tcp << 4);
  bytes[53] = flags;
  return bytes;
}

// libpcap's interpreter runs what the kernel will run.
unsigned run(const BpfProgram& program, const Bytes& packet)
{
  static_assert(sizeof(bpf_insn) == sizeof(sock_filter));
  std::vector<bpf_insn> code(program.size());
  std::memcpy(code.data(), program.data(), program.size() * sizeof(sock_filter));
  return bpf_filter(code.data(), packet.data(), static_cast<unsigned>(packet.size()),
                    static_cast<unsigned>(packet.size()));
}

bool egress(std::uint32_t bits, const Bytes& packet)
{
  return run(traffic_filter(bits, true, packet[0] >> 4 == 6), packet) != 0;
}

bool ingress(std::uint32_t bits, const Bytes& packet)
{
  return run(traffic_filter(bits, false, packet[0] >> 4 == 6), packet) != 0;
}

constexpr std::uint32_t pure = traffic::egress_pure_ack, data = traffic::egress_data, closing = traffic::egress_closing;

TEST(TrafficFilter, PureAckIsExactForEveryHeaderLength)
{
  for (std::size_t ip = 5; ip <= 15; ++ip)
    for (std::size_t tcp = 5; tcp <= 15; ++tcp)
    {
      EXPECT_TRUE(egress(pure, v4(ack, 0, ip, tcp))) << ip << " " << tcp;
      EXPECT_FALSE(egress(pure, v4(ack, 1, ip, tcp))) << ip << " " << tcp;
    }
  for (std::size_t tcp = 5; tcp <= 15; ++tcp)
  {
    EXPECT_TRUE(egress(pure, v6(ack, 0, tcp)));
    EXPECT_FALSE(egress(pure, v6(ack, 1, tcp)));
  }
}

TEST(TrafficFilter, EgressKinds)
{
  for (auto make : { +[](std::uint8_t flags, std::size_t n) { return v4(flags, n); },
                     +[](std::uint8_t flags, std::size_t n) { return v6(flags, n); } })
  {
    // flags, payload -> which single bits match
    struct Row
    {
      std::uint8_t flags;
      std::size_t payload;
      bool as_pure, as_data, as_closing;
    };
    for (const Row& row : { Row { ack, 0, true, false, false }, Row { ack | psh, 1000, false, true, false },
                            Row { ack | fin, 0, false, false, true }, Row { ack | fin | psh, 10, false, true, true },
                            Row { rst, 0, false, false, true }, Row { rst | ack, 0, false, false, true },
                            Row { syn, 0, false, false, false }, Row { syn, 100, false, false, false },
                            Row { syn | ack, 0, false, false, false } })
    {
      const Bytes packet = make(row.flags, row.payload);
      EXPECT_EQ(egress(pure, packet), row.as_pure) << int(row.flags) << " " << row.payload;
      EXPECT_EQ(egress(data, packet), row.as_data) << int(row.flags) << " " << row.payload;
      EXPECT_EQ(egress(closing, packet), row.as_closing) << int(row.flags) << " " << row.payload;
      EXPECT_EQ(egress(pure | data | closing, packet), row.as_pure || row.as_data || row.as_closing);
      EXPECT_FALSE(egress(traffic::ingress_data | traffic::ingress_ack, packet));
    }
  }
}

TEST(TrafficFilter, IngressKinds)
{
  EXPECT_TRUE(ingress(traffic::ingress_data, v4(ack, 1448)));
  EXPECT_TRUE(ingress(traffic::ingress_data, v4(ack | fin, 1448)));
  EXPECT_FALSE(ingress(traffic::ingress_data, v4(ack, 0)));
  EXPECT_TRUE(ingress(traffic::ingress_ack, v6(ack, 0)));
  EXPECT_TRUE(ingress(traffic::ingress_ack, v6(ack | fin, 0)));
  EXPECT_FALSE(ingress(traffic::ingress_ack, v6(ack, 5)));
  EXPECT_FALSE(ingress(traffic::ingress_ack | traffic::ingress_data, v4(syn | ack, 0)));
}

TEST(TrafficFilter, LeavesTheUnusualAlone)
{
  Bytes fragment = v4(ack, 0);
  fragment[7] = 10;
  EXPECT_FALSE(egress(pure | data, fragment));
  Bytes udp = v4(ack, 0);
  udp[9] = 17;
  EXPECT_FALSE(egress(pure | data, udp));
  Bytes extension = v6(ack, 0);
  extension[6] = 60;
  EXPECT_FALSE(egress(pure | data, extension));
  Bytes big = v4(ack, 1448); // IPv4 beyond 64 KiB: length field zero
  big[2] = big[3] = 0;
  EXPECT_TRUE(egress(data, big));
  EXPECT_FALSE(egress(pure, big));
}

TEST(TrafficFilter, FitsIntoTheBpfMatch)
{
  for (std::uint32_t bits = 0; bits < 32; ++bits)
    for (bool out : { true, false })
      for (bool six : { true, false })
        EXPECT_LE(traffic_filter(bits, out, six).size(), 64u);
}

TEST(TrafficFilter, BytecodeAsIptablesTakesIt)
{
  EXPECT_EQ(bytecode({ { 0x30, 0, 0, 9 }, { 0x15, 0, 1, 6 }, { 6, 0, 0, 1 } }), "3,48 0 0 9,21 0 1 6,6 0 0 1");
}

TEST(ObserverFilter, HandshakeAndEndAlwaysPass)
{
  const BpfProgram none = observer_filter({ .ingress_data = 0 }, 192);
  for (std::uint8_t flags : { syn, static_cast<std::uint8_t>(syn | ack), static_cast<std::uint8_t>(fin | ack), rst })
  {
    EXPECT_EQ(run(none, v4(flags, 0)), 192u);
    EXPECT_EQ(run(none, v6(flags, 0)), 192u);
  }
}

} // namespace
} // namespace tandem::kernel
