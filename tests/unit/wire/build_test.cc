#include "src/wire/build.h"
#include "tests/unit/wire/packets.h"

#include <gtest/gtest.h>

namespace tandem::wire
{
namespace
{

using namespace test;

TEST(InjectedSegment, ParsedAgainItIsTheSame)
{
  Generator random { 4 };
  for (int round = 0; round < 5000; ++round)
  {
    const Headers headers = random.headers();
    const Packet payload = random.bytes(random.below(1400));
    const Packet packet = made(headers, payload);
    const Parsed parsed = parse(packet, headers.direction);
    ASSERT_TRUE(parsed.ok()) << name(parsed.fault);
    const Segment& s = parsed.segment;
    ASSERT_TRUE(verify(packet, s));
    EXPECT_EQ(s.key, headers.key);
    EXPECT_EQ(s.seq, headers.seq);
    EXPECT_EQ(s.ack, headers.ack);
    EXPECT_EQ(s.flags, headers.flags);
    EXPECT_EQ(s.window, headers.window);
    EXPECT_EQ(s.timestamps, headers.timestamps);
    EXPECT_TRUE(std::equal(s.sacks().begin(), s.sacks().end(), headers.sacks.begin(), headers.sacks.end()));
    EXPECT_EQ(s.ecn, headers.ecn);
    EXPECT_EQ(s.ip_class, headers.ip_class);
    EXPECT_EQ(s.payload_length, payload.size());
    EXPECT_TRUE(std::equal(payload.begin(), payload.end(), packet.end() - static_cast<std::ptrdiff_t>(payload.size())));
    EXPECT_FALSE(s.has_option(option::unknown));
  }
}

// What Linux sends for the same headers is what build_segment makes: the captured packets, byte for byte.
TEST(InjectedSegment, EqualsLinux)
{
  const Packet sack = hex(sack_v4);
  const Segment s = parse(sack, Direction::egress).segment;
  EXPECT_EQ(made({ .key = s.key,
                   .seq = s.seq,
                   .ack = s.ack,
                   .flags = s.flags,
                   .window = s.window,
                   .timestamps = s.timestamps,
                   .sacks = s.sacks(),
                   .id = load16(sack, 4) }),
            sack);
  const Packet data = data_v4();
  const Segment d = parse(data, Direction::ingress).segment;
  EXPECT_EQ(made({ .key = d.key,
                   .direction = Direction::ingress,
                   .seq = d.seq,
                   .ack = d.ack,
                   .flags = d.flags,
                   .window = d.window,
                   .timestamps = d.timestamps,
                   .ecn = d.ecn,
                   .id = load16(data, 4) },
                 Packet(904, std::byte { 'x' })),
            data);
}

TEST(InjectedSegment, TooSmallABufferGivesNothing)
{
  for (const FlowKey& key : { key_v4, key_v6 })
  {
    Packet out(200);
    const Headers headers { .key = key, .timestamps = Timestamps {} };
    const std::size_t length = build_ack(out, headers);
    ASSERT_GT(length, 0u);
    EXPECT_EQ(build_ack(std::span { out }.first(length), headers), length);
    EXPECT_EQ(build_ack(std::span { out }.first(length - 1), headers), 0u);
    const std::size_t icmp = build_unreachable(out, { .key = key });
    ASSERT_GT(icmp, 0u);
    EXPECT_EQ(build_unreachable(std::span { out }.first(icmp - 1), { .key = key }), 0u);
    EXPECT_EQ(build_ack({}, headers), 0u);
  }
}

TEST(InjectedSegment, WhatNoHeaderCanHoldGivesNothing)
{
  Packet out(80000);
  const std::array<SackBlock, 4> blocks {};
  EXPECT_EQ(build_ack(out, { .key = key_v4, .timestamps = Timestamps {}, .sacks = blocks }), 0u);
  EXPECT_GT(build_ack(out, { .key = key_v4, .sacks = blocks }), 0u);
  EXPECT_EQ(build_segment(out, { .key = key_v4 }, Packet(65496)), 0u);
  EXPECT_GT(build_segment(out, { .key = key_v4 }, Packet(65495)), 0u);
  FlowKey mixed = key_v4;
  mixed.remote = key_v6.remote;
  EXPECT_EQ(build_ack(out, { .key = mixed }), 0u);
}

TEST(InjectedSegment, AckFlags)
{
  Packet out(100);
  out.resize(build_ack(out, { .key = key_v4, .flags = tcp_flag::ece | tcp_flag::fin | tcp_flag::syn | tcp_flag::rst }));
  EXPECT_EQ(parse(out, Direction::egress).segment.flags, tcp_flag::ack | tcp_flag::ece);
  EXPECT_TRUE(parse(out, Direction::egress).segment.is_pure_ack());
}

TEST(InjectedSegment, HostUnreachableQuotesTheServersSegment)
{
  Packet out(200);
  out.resize(build_unreachable(out, { .key = key_v4, .seq = { 0x01020304 }, .ack = { 5 } }));
  ASSERT_EQ(out.size(), 68u);
  EXPECT_EQ(sum(std::span { out }.first(20)), 0xffff);
  EXPECT_EQ(sum(std::span { out }.subspan(20)), 0xffff);
  EXPECT_EQ(load8(out, 9), 1);
  EXPECT_EQ(load32(out, 12), 0x0a000002u);
  EXPECT_EQ(load32(out, 16), 0xc0000201u);
  EXPECT_EQ(load8(out, 20), 3);
  EXPECT_EQ(load8(out, 21), 1);
  const Packet quote(out.begin() + 28, out.end());
  const Parsed quoted = parse(quote, Direction::ingress);
  ASSERT_TRUE(quoted.ok());
  EXPECT_EQ(quoted.segment.key, key_v4);
  EXPECT_EQ(quoted.segment.seq.raw, 0x01020304u);
  EXPECT_TRUE(verify(quote, quoted.segment));
}

TEST(InjectedSegment, NoRouteToDestinationV6)
{
  Packet out(200);
  const Address router = v6(99);
  out.resize(build_unreachable(out, { .key = key_v6, .seq = { 7 }, .router = router }));
  ASSERT_EQ(out.size(), 108u);
  EXPECT_EQ(load8(out, 6), 58);
  EXPECT_EQ(load8(out, 23), 99);
  EXPECT_EQ(load8(out, 40), 1);
  EXPECT_EQ(load8(out, 41), 0);
  EXPECT_EQ(sum(std::span { out }.subspan(40), pseudo_header_sum(router, key_v6.remote, 58, 68)), 0xffff);
  const Packet quote(out.begin() + 48, out.end());
  EXPECT_EQ(parse(quote, Direction::ingress).segment.seq.raw, 7u);
  EXPECT_EQ(parse(quote, Direction::ingress).segment.key, key_v6);
}

TEST(InjectedSegment, ToThisHostItQuotesItsOwnSegment)
{
  for (const FlowKey& key : { key_v4, key_v6 })
  {
    Packet out(200);
    out.resize(build(out, key, { .kind = InjectedKind::own_unreachable, .by = Link::other, .seq = { 77 } }));
    const std::size_t header = key.local.v6 ? 40 : 20, from = key.local.v6 ? 8 : 12, size = key.local.v6 ? 16 : 4;
    ASSERT_EQ(out.size(), 2 * header + 28);
    for (std::size_t i = 0; i < size; ++i)
      ASSERT_EQ(std::pair(load8(out, from + i), load8(out, from + size + i)),
                std::pair(key.local.bytes[i], key.local.bytes[i]))
          << "from this host to itself";
    const std::uint16_t pseudo = key.local.v6 ? pseudo_header_sum(key.local, key.local, 58, 68) : std::uint16_t { 0 };
    EXPECT_EQ(sum(std::span { out }.subspan(header), pseudo), 0xffff);
    const Packet quote(out.begin() + static_cast<std::ptrdiff_t>(header) + 8, out.end());
    const Parsed quoted = parse(quote, Direction::egress);
    ASSERT_TRUE(quoted.ok());
    EXPECT_EQ(quoted.segment.key, key);
    EXPECT_EQ(quoted.segment.seq.raw, 77u);
  }
}

TEST(InjectedSegment, ASynOnceMoreIsTheSameButForItsClock)
{
  Generator random { 12 };
  for (int round = 0; round < 500; ++round)
  {
    Headers headers = random.headers();
    headers.direction = Direction::egress;
    headers.flags = tcp_flag::syn;
    Packet packet = made(headers, random.bytes(random.below(20)));
    const Segment before = parse(packet, Direction::egress).segment;
    const Packet whole = packet;
    store16(packet, before.ip_header_length + 16, 0x1234); // left to the card to finish
    InjectedSegment again { .kind = InjectedKind::own_syn, .original = packet };
    Packet out(packet.size());
    ASSERT_EQ(build(out, headers.key, again), packet.size());
    EXPECT_EQ(out, whole);
    if (!headers.timestamps) continue;
    again.timestamps = Timestamps { headers.timestamps->value + 1234, headers.timestamps->echo };
    ASSERT_EQ(build(out, headers.key, again), packet.size());
    const Parsed parsed = parse(out, Direction::egress);
    ASSERT_TRUE(parsed.ok());
    EXPECT_TRUE(verify(out, parsed.segment));
    EXPECT_EQ(parsed.segment.timestamps, again.timestamps);
    EXPECT_EQ(parsed.segment.seq, headers.seq);
  }
  Packet out(100);
  EXPECT_EQ(build(out, key_v4, { .kind = InjectedKind::own_syn }), 0u) << "there is none";
  const Packet cut(30, std::byte { 0x45 });
  EXPECT_EQ(build(out, key_v4, { .kind = InjectedKind::own_syn, .original = cut }), 0u);
}

TEST(InjectedSegment, AFillIsTheServersSegmentAndStaysOnThisHost)
{
  Generator random { 9 };
  for (int round = 0; round < 200; ++round)
  {
    const Headers headers = random.headers();
    const Packet bytes = random.bytes(1 + random.below(3000));
    const InjectedSegment request { .kind = InjectedKind::fill,
                                    .seq = headers.seq,
                                    .timestamps = headers.timestamps,
                                    .length = static_cast<std::uint32_t>(bytes.size()) };
    Packet out(longest_header + bytes.size());
    out.resize(build_fill(out, headers.key, request, { .ack = headers.ack, .window = headers.window, .bytes = bytes }));
    const Parsed parsed = parse(out, Direction::ingress);
    ASSERT_TRUE(parsed.ok()) << name(parsed.fault);
    ASSERT_TRUE(verify(out, parsed.segment));
    EXPECT_EQ(parsed.segment.key, headers.key);
    EXPECT_EQ(parsed.segment.seq, headers.seq);
    EXPECT_EQ(parsed.segment.ack, headers.ack);
    EXPECT_EQ(parsed.segment.flags, tcp_flag::ack);
    EXPECT_EQ(parsed.segment.timestamps, headers.timestamps);
    EXPECT_EQ(parsed.segment.payload_length, bytes.size());
    EXPECT_EQ(out[headers.key.local.v6 ? 7 : 8], std::byte { 1 }) << "TTL";
  }
}

TEST(InjectedSegment, AFillWithoutItsBytesIsNothing)
{
  std::array<std::byte, 256> out {};
  const Packet bytes(20);
  const InjectedSegment request { .kind = InjectedKind::fill, .length = 21 };
  EXPECT_EQ(build_fill(out, {}, request, { .bytes = bytes }), 0u);
  EXPECT_EQ(build_fill(out, {}, { .kind = InjectedKind::fill }, {}), 0u);
  EXPECT_EQ(build(out, {}, request), 0u);
}

TEST(InjectedSegment, AModulesRequest)
{
  InjectedSegment request {
    .seq = { 1 }, .ack = { 2 }, .window = 3, .timestamps = Timestamps { { 4 }, { 5 } }, .sack_count = 4
  };
  request.sack_blocks[0] = { { 10 }, { 20 } };
  Packet out(200);
  out.resize(build(out, key_v4, request, 0x0240'0000));
  const Segment s = parse(out, Direction::egress).segment;
  EXPECT_EQ(s.ip_class, 0x0240'0000u);
  EXPECT_EQ(s.ack.raw, 2u);
  EXPECT_EQ(s.timestamps, request.timestamps);
  EXPECT_EQ(s.sack_count, 3); // no room for the fourth beside timestamps
  EXPECT_EQ(s.sacks()[0], request.sack_blocks[0]);

  request.kind = InjectedKind::host_unreachable;
  Packet icmp(200);
  EXPECT_EQ(build(icmp, key_v4, request), 68u);
}

} // namespace
} // namespace tandem::wire
