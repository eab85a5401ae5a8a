#include "src/wire/parse.h"
#include "tests/unit/wire/packets.h"

#include <gtest/gtest.h>

#include <set>

namespace tandem::wire
{
namespace
{

using namespace test;

ParseFault fault_of(const Packet& packet, bool cut = false)
{
  return parse(packet, Direction::ingress, cut).fault;
}

TEST(Parse, CapturedSyn)
{
  const Packet packet = hex(syn_v4);
  const Parsed parsed = parse(packet, Direction::egress);
  ASSERT_TRUE(parsed.ok()) << name(parsed.fault);
  const Segment& s = parsed.segment;
  EXPECT_EQ(s.key, (FlowKey { v4(10, 77, 0, 1), v4(10, 77, 0, 2), 35690, 5001 }));
  EXPECT_EQ(s.seq.raw, 253100563u);
  EXPECT_EQ(s.flags, tcp_flag::syn | tcp_flag::ece | tcp_flag::cwr);
  EXPECT_EQ(s.window, 64240);
  EXPECT_EQ(s.mss, 1460);
  EXPECT_EQ(s.window_scale, 10);
  EXPECT_EQ(s.timestamps, (Timestamps { { 2713833726u }, { 0 } }));
  EXPECT_EQ(s.options, option::mss | option::sack_permitted | option::timestamps | option::window_scale);
  EXPECT_EQ(s.payload_length, 0u);
  EXPECT_EQ(s.sequence_length(), 1u);
  EXPECT_EQ(s.ip_header_length, 20);
  EXPECT_EQ(s.tcp_header_length, 40);
  EXPECT_EQ(s.timestamps_offset, 46);
  EXPECT_EQ(s.link, Link::other);
  EXPECT_EQ(s.bytes.data(), packet.data());
  EXPECT_EQ(s.bytes.size(), packet.size());
}

TEST(Parse, CapturedSackAck)
{
  const Packet packet = hex(sack_v4);
  const Parsed parsed = parse(packet, Direction::egress);
  ASSERT_TRUE(parsed.ok());
  const Segment& s = parsed.segment;
  EXPECT_TRUE(s.is_pure_ack());
  ASSERT_EQ(s.sack_count, 2);
  EXPECT_EQ(s.sacks()[0], (SackBlock { { 0x0def7d43 }, { 0x0def82eb } }));
  EXPECT_EQ(s.sacks()[1], (SackBlock { { 0x0def55ab }, { 0x0def779b } }));
  EXPECT_FALSE(s.has_option(option::unknown));
}

TEST(Parse, CapturedDataIsOrientedByDirection)
{
  const Packet packet = data_v4();
  const Segment s = parse(packet, Direction::ingress).segment;
  EXPECT_EQ(s.key, (FlowKey { v4(10, 77, 0, 1), v4(10, 77, 0, 2), 35690, 5001 }));
  EXPECT_EQ(s.payload_length, 904u);
  EXPECT_EQ(s.ecn, Ecn::ect0);
  EXPECT_EQ(parse(packet, Direction::egress).segment.key.local, v4(10, 77, 0, 2));
}

TEST(Parse, CapturedV6SynAck)
{
  const Packet packet = hex(syn_ack_v6);
  const Parsed parsed = parse(packet, Direction::ingress);
  ASSERT_TRUE(parsed.ok());
  EXPECT_TRUE(parsed.segment.key.local.v6);
  EXPECT_EQ(parsed.segment.key.remote.bytes[15], 2);
  EXPECT_EQ(parsed.segment.key.remote_port, 5002);
  EXPECT_EQ(parsed.segment.mss, 1440);
  EXPECT_EQ(parsed.segment.ip_header_length, 40);
}

TEST(Parse, CapturedMptcp)
{
  const Packet syn = hex(mptcp_syn);
  EXPECT_EQ(parse(syn, Direction::egress).segment.mptcp, MptcpSubtype::mp_capable);
  EXPECT_EQ(parse(syn, Direction::egress).segment.mptcp_token, 0u);
  const Packet dss = hex(mptcp_dss);
  EXPECT_EQ(parse(dss, Direction::egress).segment.mptcp, MptcpSubtype::dss);
}

TEST(Parse, JoinTokenOnlyFromTheFirstSyn)
{
  const std::vector<std::uint8_t> join { 30, 12, 0x10, 1, 0xde, 0xad, 0xbe, 0xef, 1, 2, 3, 4 };
  const Packet syn = with_options(join, tcp_flag::syn);
  EXPECT_EQ(parse(syn, Direction::egress).segment.mptcp, MptcpSubtype::mp_join);
  EXPECT_EQ(parse(syn, Direction::egress).segment.mptcp_token, 0xdeadbeefu);
  const Packet later = with_options(join, tcp_flag::ack);
  EXPECT_EQ(parse(later, Direction::egress).segment.mptcp_token, 0u);
}

TEST(Parse, KeysAndVersionsOfMpCapable)
{
  struct Case
  {
    std::vector<std::uint8_t> option;
    std::uint16_t flags;
    std::uint8_t version;
    std::optional<std::uint64_t> key;
  };
  constexpr std::uint16_t syn = tcp_flag::syn, syn_ack = tcp_flag::syn | tcp_flag::ack;
  const std::vector<Case> cases {
    { { 30, 4, 0x01, 0x81 }, syn, 1, {} }, // RFC 8684: no key yet
    { { 30, 12, 0x00, 0x81, 1, 2, 3, 4, 5, 6, 7, 8 }, syn, 0, 0x0102030405060708 },
    { { 30, 12, 0x01, 0x81, 1, 2, 3, 4, 5, 6, 7, 8 }, syn_ack, 1, 0x0102030405060708 },
    { { 30, 20, 0x01, 0x81, 8, 7, 6, 5, 4, 3, 2, 1, 1, 2, 3, 4, 5, 6, 7, 8 }, tcp_flag::ack, 1, 0x0807060504030201 },
  };
  for (const Case& one : cases)
  {
    const Packet packet = with_options(one.option, one.flags);
    const Segment s = parse(packet, Direction::egress).segment;
    EXPECT_EQ(s.mptcp, MptcpSubtype::mp_capable);
    EXPECT_EQ(s.mptcp_version, one.version);
    EXPECT_EQ(s.mptcp_key, one.key);
    EXPECT_FALSE(s.mptcp_backup);
  }
}

TEST(Parse, BackupAndAddressOfAJoin)
{
  for (const bool backup : { false, true })
  {
    const Packet syn = with_options(
        { 30, 12, static_cast<std::uint8_t>(0x10 | (backup ? 1 : 0)), 5, 0xde, 0xad, 0xbe, 0xef, 1, 2, 3, 4 },
        tcp_flag::syn);
    const Segment s = parse(syn, Direction::egress).segment;
    EXPECT_EQ(s.mptcp_backup, backup);
    EXPECT_EQ(s.mptcp_address_id, 5);
    EXPECT_FALSE(s.mptcp_prio);
  }
}

TEST(Parse, PriorityAloneBehindADssAndOfAnotherSubflow)
{
  const Packet alone = with_options({ 30, 3, 0x51, 1 });
  EXPECT_TRUE(parse(alone, Direction::egress).segment.mptcp_prio);
  EXPECT_TRUE(parse(alone, Direction::egress).segment.mptcp_backup);
  EXPECT_FALSE(parse(alone, Direction::egress).segment.mptcp_prio_of);
  const Packet behind = with_options({ 30, 4, 0x20, 0, 30, 3, 0x50, 1 });
  EXPECT_TRUE(parse(behind, Direction::egress).segment.mptcp_prio);
  EXPECT_FALSE(parse(behind, Direction::egress).segment.mptcp_backup);
  const Packet other = with_options({ 30, 4, 0x51, 9 });
  EXPECT_EQ(parse(other, Direction::egress).segment.mptcp_prio_of, 9);
}

TEST(Parse, TheFirstMptcpOptionNamesTheSegment)
{
  const Packet packet = with_options({ 30, 4, 0x20, 0, 30, 4, 0x50, 1 });
  const Segment s = parse(packet, Direction::egress).segment;
  EXPECT_EQ(s.mptcp, MptcpSubtype::dss);
  EXPECT_EQ(s.options, option::mptcp);
}

TEST(Parse, EveryMptcpOptionIsNoted)
{
  using enum MptcpSubtype;
  struct Case
  {
    std::string_view what;
    std::vector<std::uint8_t> options;
    int subtypes;
    bool data_fin, signal;
  };
  const int alone = subtype_bit(dss);
  const std::vector<Case> cases {
    { "no MPTCP", { 1, 1 }, 0, false, false },
    { "DATA_ACK", { 30, 8, 0x20, 0x01, 0, 0, 0, 1 }, alone, false, false },
    { "DATA_ACK of eight bytes", { 30, 12, 0x20, 0x03, 0, 0, 0, 0, 0, 0, 0, 1 }, alone, false, false },
    { "DATA_FIN", { 30, 8, 0x20, 0x11, 0, 0, 0, 1 }, alone, true, true },
    { "ADD_ADDR behind a DSS",
      { 30, 4, 0x20, 0, 30, 8, 0x31, 2, 10, 0, 0, 1 },
      alone | subtype_bit(add_addr),
      false,
      true },
    { "REMOVE_ADDR behind", { 30, 4, 0x20, 0, 30, 4, 0x40, 2 }, alone | subtype_bit(remove_addr), false, true },
    { "MP_PRIO behind", { 30, 4, 0x20, 0, 30, 3, 0x51, 1 }, alone | subtype_bit(mp_prio), false, true },
    { "MP_FAIL behind",
      { 30, 4, 0x20, 0, 30, 12, 0x60, 0, 0, 0, 0, 0, 0, 0, 0, 1 },
      alone | subtype_bit(mp_fail),
      false,
      true },
    { "MP_FASTCLOSE alone", { 30, 12, 0x70, 0, 0, 0, 0, 0, 0, 0, 0, 1 }, subtype_bit(mp_fastclose), false, true },
    { "MP_TCPRST before a DSS", { 30, 4, 0x80, 1, 30, 4, 0x20, 0 }, alone | subtype_bit(mp_tcprst), false, true },
    { "two DSS, the second with DATA_FIN", { 30, 4, 0x20, 0, 30, 4, 0x20, 0x10 }, alone, true, true },
    { "an unassigned one behind", { 30, 4, 0x20, 0, 30, 4, 0xb0, 0 }, alone | 1 << 0xb, false, true },
    { "three of them", { 30, 4, 0x20, 0, 30, 3, 0x51, 30, 4, 0x40, 2 }, alone | 1 << 5 | 1 << 4, false, true },
  };
  for (const Case& one : cases)
  {
    const Packet packet = with_options(one.options);
    const Segment s = parse(packet, Direction::egress).segment;
    EXPECT_EQ(s.mptcp_subtypes, one.subtypes) << one.what;
    EXPECT_EQ(s.mptcp_data_fin, one.data_fin) << one.what;
    EXPECT_EQ(s.has_mptcp_signal(), one.signal) << one.what;
  }
}

struct OptionCase
{
  std::string_view what;
  std::vector<std::uint8_t> options;
  std::uint32_t expected;
  std::uint16_t flags = tcp_flag::ack;
};

TEST(Parse, OptionsAreRecognised)
{
  std::vector<std::uint8_t> md5 { 19, 18 };
  md5.resize(18, 7);
  const std::vector<OptionCase> cases {
    { "none", {}, 0 },
    { "nop only", { 1, 1, 1, 1 }, 0 },
    { "nothing is read behind EOL", { 0, 3, 3, 3 }, 0 },
    { "md5", md5, option::md5 },
    { "md5 of a wrong length is still md5", { 19, 4, 0, 0 }, option::md5 | option::unknown },
    { "ao", { 29, 4, 1, 1 }, option::ao },
    { "ao too short is still ao", { 29, 2 }, option::ao | option::unknown },
    { "fast open request", { 34, 2 }, option::fast_open, tcp_flag::syn },
    { "fast open cookie", { 34, 6, 1, 2, 3, 4 }, option::fast_open, tcp_flag::syn },
    { "fast open odd length", { 34, 7, 1, 2, 3, 4, 5 }, option::unknown, tcp_flag::syn },
    { "fast open experiment", { 254, 4, 0xf9, 0x89 }, option::fast_open, tcp_flag::syn },
    { "another experiment", { 254, 4, 0xac, 0xc0 }, option::unknown },
    { "user timeout", { 28, 4, 0, 30 }, option::user_timeout },
    { "accurate ecn 0", { 172, 11, 0, 0, 1, 0, 0, 2, 0, 0, 3 }, option::acc_ecn },
    { "accurate ecn 1", { 174, 5, 0, 0, 1 }, option::acc_ecn },
    { "accurate ecn length", { 174, 6, 0, 0, 1, 0 }, option::unknown },
    { "unassigned kind", { 77, 3, 9 }, option::unknown },
    { "mss on a syn", { 2, 4, 5, 180 }, option::mss, tcp_flag::syn },
    { "mss elsewhere", { 2, 4, 5, 180 }, option::unknown },
    { "mss length", { 2, 3, 5 }, option::unknown, tcp_flag::syn },
    { "sack length", { 5, 9, 0, 0, 0, 0, 0, 0, 0 }, option::unknown },
    { "empty sack", { 5, 2 }, option::unknown },
    { "timestamps length", { 8, 9, 0, 0, 0, 0, 0, 0, 0 }, option::unknown },
    { "mptcp without a subtype", { 30, 2 }, option::unknown },
    { "a DSS that ends before its flags", { 30, 3, 0x20, 1 }, option::mptcp | option::unknown },
    { "mptcp unassigned subtype", { 30, 4, 0xb0, 0 }, option::mptcp | option::unknown },
  };
  for (const OptionCase& c : cases)
  {
    const Packet packet = with_options(c.options, c.flags);
    const Parsed parsed = parse(packet, Direction::egress);
    EXPECT_TRUE(parsed.ok()) << c.what << ": " << name(parsed.fault);
    EXPECT_EQ(parsed.segment.options, c.expected) << c.what;
  }
}

TEST(Parse, ARepeatedOptionIsUnknownAndTheFirstCounts)
{
  std::vector<std::uint8_t> twice { 8, 10, 0, 0, 0, 1, 0, 0, 0, 2, 8, 10, 0, 0, 0, 3, 0, 0, 0, 4 };
  const Packet packet = with_options(twice);
  const Segment s = parse(packet, Direction::egress).segment;
  EXPECT_EQ(s.options, option::timestamps | option::unknown);
  EXPECT_EQ(s.timestamps, (Timestamps { { 1 }, { 2 } }));
  EXPECT_EQ(s.timestamps_offset, 40);
}

TEST(Parse, TheOrderOfASynsOptionsIsKept)
{
  EXPECT_EQ(parse(hex(syn_v4), Direction::egress).segment.option_order, 0x24813u) << "as Linux has them";
  EXPECT_EQ(parse(hex(mptcp_syn), Direction::egress).segment.option_order, 0x24813fu) << "a kind above 14 is 15";
  EXPECT_EQ(parse(hex(sack_v4), Direction::egress).segment.option_order, 0u) << "no SYN";
  const Packet many =
      with_options({ 2, 4, 5, 180, 1, 3, 3, 7, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0, 1, 1, 1, 0 }, tcp_flag::syn);
  EXPECT_EQ(parse(many, Direction::egress).segment.option_order, 0x21348111u);
  const Packet more = with_options({ 2, 4, 5, 180, 1, 3, 3, 7, 4, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 }, tcp_flag::syn);
  EXPECT_EQ(parse(more, Direction::egress).segment.option_order, 0x21341111u) << "the first eight";
}

TEST(Parse, WindowScaleIsClamped)
{
  EXPECT_EQ(parse(with_options({ 3, 3, 15 }, tcp_flag::syn), Direction::egress).segment.window_scale, 14);
  EXPECT_EQ(parse(with_options({ 3, 3, 13 }, tcp_flag::syn), Direction::egress).segment.window_scale, 13);
}

TEST(Parse, FourSackBlocks)
{
  std::vector<std::uint8_t> sack { 5, 34 };
  for (std::uint8_t i = 0; i < 32; ++i)
    sack.push_back(i);
  const Segment s = parse(with_options(sack), Direction::egress).segment;
  ASSERT_EQ(s.sack_count, 4);
  EXPECT_EQ(s.sacks()[3], (SackBlock { { 0x18191a1b }, { 0x1c1d1e1f } }));
}

TEST(Parse, AccurateEcnFlag)
{
  const Packet packet = made({ .key = key_v4, .flags = tcp_flag::ack | tcp_flag::ae });
  EXPECT_EQ(parse(packet, Direction::egress).segment.flags, tcp_flag::ack | tcp_flag::ae);
}

TEST(Parse, EveryFaultHasItsName)
{
  const Packet good = made({ .key = key_v4 });
  const Packet good6 = made({ .key = key_v6 });
  auto with8 = [](Packet packet, std::size_t at, std::uint8_t value)
  {
    store8(packet, at, value);
    return packet;
  };
  auto with16 = [](Packet packet, std::size_t at, std::uint16_t value)
  {
    store16(packet, at, value);
    return packet;
  };
  auto cut = [](Packet packet, std::size_t length)
  {
    packet.resize(length);
    return packet;
  };
  Packet ip_option = good;
  ip_option.insert(ip_option.begin() + 20, { std::byte { 7 }, std::byte { 9 }, std::byte { 4 }, std::byte { 0 } });
  store8(ip_option, 0, 0x46);
  store16(ip_option, 2, static_cast<std::uint16_t>(ip_option.size()));
  Packet source_route = ip_option;
  store32(source_route, 20, 0x83040400);
  Packet record_route = ip_option;
  store32(record_route, 20, 0x07030400);

  EXPECT_EQ(fault_of({}), ParseFault::empty);
  EXPECT_EQ(fault_of(with8(good, 0, 0x55)), ParseFault::bad_version);
  EXPECT_EQ(fault_of(cut(good, 19)), ParseFault::truncated_ip);
  EXPECT_EQ(fault_of(cut(good, 39)), ParseFault::truncated_ip);
  EXPECT_EQ(fault_of(cut(good6, 39)), ParseFault::truncated_ip);
  EXPECT_EQ(fault_of(cut(good6, 59)), ParseFault::truncated_ip);
  EXPECT_EQ(fault_of(with8(good, 0, 0x44)), ParseFault::bad_ihl);
  EXPECT_EQ(fault_of(with16(good, 2, 19)), ParseFault::length_mismatch);
  EXPECT_EQ(fault_of(with16(good, 2, 39)), ParseFault::length_mismatch);
  EXPECT_EQ(fault_of(with16(good6, 4, 19)), ParseFault::length_mismatch);
  EXPECT_EQ(fault_of(ip_option), ParseFault::ip_option);
  EXPECT_EQ(fault_of(source_route), ParseFault::source_routed);
  EXPECT_EQ(fault_of(record_route), ParseFault::none);
  EXPECT_EQ(fault_of(with16(good, 6, 0x2000)), ParseFault::fragment);
  EXPECT_EQ(fault_of(with16(good, 6, 0x0001)), ParseFault::fragment);
  EXPECT_EQ(fault_of(with16(good, 6, 0x4000)), ParseFault::none);
  EXPECT_EQ(fault_of(with8(good, 9, 17)), ParseFault::not_tcp);
  EXPECT_EQ(fault_of(with8(good6, 6, 17)), ParseFault::not_tcp);
  EXPECT_EQ(fault_of(with8(good6, 6, 50)), ParseFault::not_tcp);
  EXPECT_EQ(fault_of(with8(good6, 6, 51)), ParseFault::not_tcp);
  EXPECT_EQ(fault_of(cut(good, 39), true), ParseFault::truncated_tcp);
  EXPECT_EQ(fault_of(with8(good, 32, 0x40)), ParseFault::bad_data_offset);
  EXPECT_EQ(fault_of(with8(good, 32, 0x60)), ParseFault::bad_data_offset);
  EXPECT_EQ(fault_of(with_options({ 8, 1 })), ParseFault::option_length);
  EXPECT_EQ(fault_of(with_options({ 1, 1, 1, 8 })), ParseFault::options_overrun);
  EXPECT_EQ(fault_of(with_options({ 8, 10, 0, 0 })), ParseFault::options_overrun);
  // Only the end of the header stops it: there is payload behind.
  EXPECT_EQ(fault_of(with_options({ 1, 1, 1, 8, 10, 0, 0, 0 }, tcp_flag::ack, false, 50)), ParseFault::options_overrun);
  EXPECT_EQ(fault_of(with_options({ 1, 2, 8, 1, 1, 1, 1, 1 }, tcp_flag::syn, false, 50)), ParseFault::options_overrun);
}

TEST(Parse, ExtensionHeadersAreWalked)
{
  // Hop-by-hop (PadN) -> destination options (PadN) -> routing with no segment left -> TCP.
  const std::vector<std::uint8_t> chain { 60, 0, 1, 4, 0, 0, 0, 0, 43, 0, 1, 4, 0, 0, 0, 0, 6, 0, 4, 0, 0, 0, 0, 0 };
  const Packet packet = with_extensions(0, chain);
  const Parsed parsed = parse(packet, Direction::egress);
  ASSERT_TRUE(parsed.ok()) << name(parsed.fault);
  EXPECT_EQ(parsed.segment.ip_header_length, 64);
  EXPECT_EQ(parsed.segment.key, key_v6);
  EXPECT_EQ(parsed.segment.payload_length, 0u);
}

TEST(Parse, ExtensionHeaderFaults)
{
  EXPECT_EQ(fault_of(with_extensions(44, { 6, 0, 0, 0, 0, 0, 0, 1 })), ParseFault::fragment);
  EXPECT_EQ(fault_of(with_extensions(43, { 6, 0, 4, 1, 0, 0, 0, 0 })), ParseFault::source_routed);
  EXPECT_EQ(fault_of(with_extensions(60, { 6, 0, 0xc9, 4, 0, 0, 0, 0 })), ParseFault::source_routed);
  EXPECT_EQ(fault_of(with_extensions(60, { 6, 200, 1, 4, 0, 0, 0, 0 })), ParseFault::extension_overrun);
  EXPECT_EQ(fault_of(with_extensions(60, { 6, 0, 1, 5, 0, 0, 0, 0 })), ParseFault::extension_overrun);
  EXPECT_EQ(fault_of(with_extensions(60, { 0, 0, 1, 4, 0, 0, 0, 0, 6, 0, 1, 4, 0, 0, 0, 0 })),
            ParseFault::extension_order);
  // Many headers, each in order, but more than any TCP needs.
  std::vector<std::uint8_t> endless;
  for (int i = 0; i < 200; ++i)
    endless.insert(endless.end(), { 60, 0, 1, 4, 0, 0, 0, 0 });
  EXPECT_EQ(fault_of(with_extensions(60, endless)), ParseFault::extension_overrun);
}

TEST(Parse, LinkPaddingIsCutOff)
{
  Packet packet = made({ .key = key_v4 });
  packet.resize(46);
  const Parsed parsed = parse(packet, Direction::ingress);
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed.segment.payload_length, 0u);
  EXPECT_EQ(parsed.segment.bytes.size(), 40u);
}

TEST(Parse, ACutPacketKeepsItsLengths)
{
  Packet packet = data_v4();
  packet.resize(52);
  EXPECT_EQ(fault_of(packet), ParseFault::truncated_ip);
  const Parsed parsed = parse(packet, Direction::ingress, true);
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed.segment.payload_length, 904u);
  EXPECT_EQ(parsed.segment.bytes.size(), 52u);
}

TEST(Parse, BigTcpTakesTheBufferOrTheOriginalLength)
{
  const Packet payload(70000, std::byte { 1 });
  Packet packet = made({ .key = key_v4 });
  packet.insert(packet.end(), payload.begin(), payload.end());
  store16(packet, 2, 0);
  const Segment whole = parse(packet, Direction::ingress, false, 1448).segment;
  EXPECT_EQ(whole.payload_length, 70000u);
  EXPECT_EQ(whole.gso_size, 1448);
  packet.resize(128);
  EXPECT_EQ(parse(packet, Direction::ingress, true, 1448, 70040).segment.payload_length, 70000u);

  Packet six = made({ .key = key_v6 });
  six.insert(six.end(), payload.begin(), payload.end());
  store16(six, 4, 0);
  EXPECT_EQ(parse(six, Direction::ingress).segment.payload_length, 70000u);
}

TEST(Parse, JumboOption)
{
  Packet packet = with_extensions(0, { 6, 0, 0xc2, 4, 0, 1, 0x11, 0x8c }); // 70028 bytes: 8 + 20 + 70000
  EXPECT_EQ(fault_of(packet), ParseFault::length_mismatch);
  store16(packet, 4, 0);
  EXPECT_EQ(fault_of(packet), ParseFault::truncated_ip);
  const Parsed parsed = parse(packet, Direction::ingress, true);
  ASSERT_TRUE(parsed.ok()) << name(parsed.fault);
  EXPECT_EQ(parsed.segment.payload_length, 70000u);
}

TEST(Parse, GsoSizeOnlyForASuperPacket)
{
  const Packet packet = data_v4();
  EXPECT_EQ(parse(packet, Direction::ingress, false, 1448).segment.gso_size, 0);
  EXPECT_EQ(parse(packet, Direction::ingress, false, 452).segment.gso_size, 452);
}

TEST(Parse, FaultNamesAreDistinct)
{
  std::set<std::string_view> names(parse_fault_names.begin(), parse_fault_names.end());
  EXPECT_EQ(names.size(), parse_fault_count);
  EXPECT_EQ(name(ParseFault::options_overrun), "options_overrun");
  EXPECT_EQ(name(ParseFault::length_mismatch), "length_mismatch");
  EXPECT_EQ(name(ParseFault::not_tcp), "not_tcp");
}

// Every prefix and every single-byte change of real packets: an answer, and offsets that stay inside the buffer.
TEST(Parse, DamagedPacketsNeverLeadOutside)
{
  Generator random { 20261120 };
  for (const Packet& packet : captured())
    for (std::size_t length = 0; length <= packet.size() && length < 100; ++length)
      for (int round = 0; round < 20; ++round)
      {
        Packet damaged(packet.begin(), packet.begin() + static_cast<std::ptrdiff_t>(length));
        if (!damaged.empty())
          damaged[random.below(static_cast<std::uint32_t>(damaged.size()))] = static_cast<std::byte>(random.number());
        damaged.shrink_to_fit();
        const Parsed parsed = parse(damaged, Direction::ingress, random.coin());
        if (!parsed.ok()) continue;
        const Segment& s = parsed.segment;
        ASSERT_LE(std::size_t { s.ip_header_length } + s.tcp_header_length, damaged.size());
        ASSERT_LE(s.bytes.size(), damaged.size());
        const std::size_t timestamps_end = s.timestamps_offset == 0 ? 0 : s.timestamps_offset + 10u;
        ASSERT_LE(timestamps_end, std::size_t { s.ip_header_length } + s.tcp_header_length);
      }
}

} // namespace
} // namespace tandem::wire
