#include "src/kernel/packet/bpf.h"

#include <tandem/admission.h>

#include <gtest/gtest.h>
#include <linux/if_packet.h>
#include <pcap/pcap.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace tandem::kernel
{
namespace
{

constexpr std::uint8_t fin = 1, syn = 2, rst = 4, ack = 16;

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
  for (std::size_t tcp = 5; tcp <= 15; ++tcp)
  {
    EXPECT_TRUE(egress(pure, v4(ack, 0, 5, tcp)));
    EXPECT_FALSE(egress(pure, v4(ack, 1, 5, tcp)));
    EXPECT_TRUE(egress(pure, v6(ack, 0, tcp)));
    EXPECT_FALSE(egress(pure, v6(ack, 1, tcp)));
  }
}

// Every mix of flags against the table itself; AE (RFC 9768) is in the byte before the others.
template <class Check>
void every_mix(Check check)
{
  for (const Direction direction : { Direction::egress, Direction::ingress })
    for (std::uint16_t flags = 0; flags < 0x200; ++flags)
      for (const std::size_t payload : { 0, 1, 1448 })
        for (const bool six : { false, true })
        {
          Bytes packet =
              six ? v6(static_cast<std::uint8_t>(flags), payload) : v4(static_cast<std::uint8_t>(flags), payload);
          packet[(six ? 40 : 20) + 12] = static_cast<std::uint8_t>(packet[(six ? 40 : 20) + 12] | flags >> 8);
          const Segment segment { .direction = direction,
                                  .link = Link::wifi,
                                  .flags = flags,
                                  .payload_length = static_cast<std::uint32_t>(payload) };
          check(segment, packet);
        }
}

TEST(TrafficFilter, MatchesEveryMixAsTheTableSays)
{
  for (const std::uint32_t bits : { 0u, pure, data, closing, traffic::ingress_data, traffic::ingress_ack,
                                    traffic::egress | traffic::ingress | traffic::handshake })
    every_mix(
        [&](const Segment& s, const Bytes& packet)
        {
          const bool request = (classify(s) & bits & ~traffic::handshake) != 0;
          EXPECT_EQ(s.direction == Direction::egress ? egress(bits, packet) : ingress(bits, packet), request)
              << "flags " << s.flags << " payload " << s.payload_length << " bits " << bits;
        });
}

TEST(TrafficFilter, LeavesTheUnusualAlone)
{
  Bytes fragment = v4(ack, 0);
  fragment[7] = 10;
  EXPECT_FALSE(egress(pure | data, fragment));
  Bytes first_fragment = v4(ack, 100);
  first_fragment[6] = 0x20;
  EXPECT_FALSE(egress(pure | data, first_fragment)) << "the parser takes no part of a segment either";
  for (const std::size_t payload : { 0, 1, 1448 })
    EXPECT_FALSE(egress(pure | data, v4(ack, payload, 6))) << "IP options";
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

// libpcap's interpreter has no packet types and no random numbers: the two loads become constants.
BpfProgram with(BpfProgram program, std::uint32_t packet_type, std::uint32_t random)
{
  for (sock_filter& i : program)
    if (i.code == (BPF_LD | BPF_W | BPF_ABS) && i.k >= static_cast<std::uint32_t>(SKF_AD_OFF))
      i = { BPF_LD | BPF_IMM, 0, 0,
            i.k == static_cast<std::uint32_t>(SKF_AD_OFF + SKF_AD_RANDOM) ? random : packet_type };
  return program;
}

TEST(ObserverFilter, CopiesEveryMixAsTheRuleSays)
{
  const std::uint32_t all = traffic::egress | traffic::ingress;
  for (const std::uint32_t decide : { 0u, pure, data, closing, traffic::ingress_data, all })
    for (const std::uint32_t observe : { 0u, pure, closing, traffic::ingress_data, traffic::ingress_ack, all })
    {
      Wanted wanted {};
      wanted.add({ .decide = decide, .observe = observe });
      wanted.any = true; // this filter is for a link that is watched
      const BpfProgram filter = observer_filter(
          { .kinds = wanted.observed_of(Link::wifi), .one_in = 64, .queued = wanted.queued_of(Link::wifi) }, 192);
      const BpfProgram leaving = with(filter, PACKET_OUTGOING, 0), arriving = with(filter, PACKET_HOST, 0);
      every_mix(
          [&](const Segment& s, const Bytes& packet)
          {
            const bool request = admit(wanted, s) == Admission::observed;
            EXPECT_EQ(run(s.direction == Direction::egress ? leaving : arriving, packet) != 0, request)
                << "flags " << s.flags << " payload " << s.payload_length << " decide " << decide << " observe "
                << observe;
          });
    }
}

TEST(ObserverFilter, SamplesAllButHandshakeAndEnd)
{
  const BpfProgram unlucky = with(observer_filter({ .one_in = 64 }, 192), PACKET_HOST, 0xffff'ffff);
  const BpfProgram all = with(observer_filter({ .one_in = 1 }, 192), PACKET_HOST, 0xffff'ffff);
  for (std::uint8_t flags : { syn, static_cast<std::uint8_t>(syn | ack), static_cast<std::uint8_t>(fin | ack), rst })
  {
    EXPECT_EQ(run(unlucky, v4(flags, 0)), 192u);
    EXPECT_EQ(run(unlucky, v6(flags, 0)), 192u);
  }
  EXPECT_EQ(run(unlucky, v4(ack, 1448)), 0u);
  EXPECT_EQ(run(all, v4(ack, 1448)), 192u);
}

} // namespace
} // namespace tandem::kernel
