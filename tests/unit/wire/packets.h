// Packets for the tests of src/wire: some captured from Linux 6.18 TCP between two network namespaces, some built by
// hand.
#pragma once

#include "src/wire/build.h"
#include "src/wire/bytes.h"
#include "src/wire/checksum.h"
#include "src/wire/parse.h"

#include <tandem/segment.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string_view>
#include <vector>

namespace tandem::wire::test
{

using Packet = std::vector<std::byte>;

inline Packet hex(std::string_view text)
{
  auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  Packet packet;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2)
    packet.push_back(static_cast<std::byte>(digit(text[i]) << 4 | digit(text[i + 1])));
  return packet;
}

// 10.77.0.1 opens to 10.77.0.2:5001 with ECN.
constexpr std::string_view syn_v4 = "4500003c3fed40004006e6320a4d00010a4d00028b6a13890f16021300000000a0c2faf014d30000"
                                    "020405b40402080aa1c1d0fe000000000103030a";
// Two SACK blocks behind timestamps.
constexpr std::string_view sack_v4 = "450000483ff740004006e61c0a4d00010a4d00028b6a13890f1602140def5003d010004cbc3c0000"
                                     "0101080aa1c1d0fedf99e9d4010105120def7d430def82eb0def55ab0def779b";
constexpr std::string_view fin_v4 = "45000034400b40004006e61c0a4d00010a4d00028b6a13890f1602140defe0f48011004c86a10000"
                                    "0101080aa1c1d0ffdf99e9d5";
constexpr std::string_view syn_ack_v6 =
    "60042dcf00280640fd770000000000000000000000000002fd770000000000000000000000000001"
    "138aeaeaae0adf4e67c712d8a052fb04709f0000020405a00402080acc9114a7c07b39080103030a";
constexpr std::string_view mptcp_syn =
    "45000040e81a400040063e010a4d00010a4d0002a424138b1144f5b800000000b0c2faf0344f0000"
    "020405b40402080af0292581000000000103030a1e040101";
constexpr std::string_view mptcp_dss =
    "45000040e81c400040063dff0a4d00010a4d0002a424138b1144f5b979969e2ab010003f93490000"
    "0101080af0292581d80f27ce1e0c200366521d96d8fc17a0";

// The last data segment of the download: 904 bytes of 'x', ECT(0).
inline Packet data_v4()
{
  Packet packet = hex("450203bc934c400040068f510a4d00020a4d000113898b6a0defdd6b0f16021480180040d1f40000"
                      "0101080adf99e9d4a1c1d0fe");
  packet.insert(packet.end(), 904, std::byte { 'x' });
  return packet;
}

inline std::vector<Packet> captured()
{
  return { hex(syn_v4), hex(sack_v4), hex(fin_v4), hex(syn_ack_v6), hex(mptcp_syn), hex(mptcp_dss), data_v4() };
}

constexpr Address v4(std::uint8_t a, std::uint8_t b, std::uint8_t c, std::uint8_t d)
{
  Address address;
  address.bytes[0] = a;
  address.bytes[1] = b;
  address.bytes[2] = c;
  address.bytes[3] = d;
  return address;
}

constexpr Address v6(std::uint8_t last)
{
  Address address;
  address.v6 = true;
  address.bytes[0] = 0xfd;
  address.bytes[15] = last;
  return address;
}

constexpr FlowKey key_v4 {
  .local = v4(10, 0, 0, 2), .remote = v4(192, 0, 2, 1), .local_port = 40000, .remote_port = 443
};
constexpr FlowKey key_v6 { .local = v6(2), .remote = v6(1), .local_port = 40000, .remote_port = 443 };

inline Packet made(const Headers& headers, std::span<const std::byte> payload = {})
{
  Packet packet(longest_header + payload.size());
  packet.resize(build_segment(packet, headers, payload));
  return packet;
}

// A segment whose options are exactly `options`, padded with EOL to a multiple of 4. Checksums are right.
inline Packet with_options(std::vector<std::uint8_t> options, std::uint16_t flags = tcp_flag::ack, bool six = false,
                           std::size_t payload = 0)
{
  while (options.size() % 4 != 0)
    options.push_back(0);
  const Packet body(payload, std::byte { 'p' });
  Packet packet =
      made({ .key = six ? key_v6 : key_v4, .seq = { 1000 }, .ack = { 2000 }, .flags = flags, .window = 500 }, body);
  const std::size_t ip = six ? 40 : 20;
  for (std::size_t i = 0; i < options.size(); ++i)
    packet.insert(packet.begin() + static_cast<std::ptrdiff_t>(ip + 20 + i), std::byte { options[i] });
  store16(packet, ip + 12, static_cast<std::uint16_t>((5 + options.size() / 4) << 12 | flags));
  store16(packet, six ? 4 : 2, static_cast<std::uint16_t>(packet.size() - (six ? 40 : 0)));
  if (const Parsed parsed = parse(packet, Direction::egress); parsed.ok()) seal(packet, parsed.segment);
  return packet;
}

// An IPv6 segment with `extensions` (already chained among themselves, the last one naming TCP) behind the IPv6 header.
inline Packet with_extensions(std::uint8_t first, const std::vector<std::uint8_t>& extensions)
{
  Packet packet = made({ .key = key_v6, .seq = { 1000 }, .ack = { 2000 } });
  for (std::size_t i = 0; i < extensions.size(); ++i)
    packet.insert(packet.begin() + static_cast<std::ptrdiff_t>(40 + i), std::byte { extensions[i] });
  store8(packet, 6, first);
  store16(packet, 4, static_cast<std::uint16_t>(packet.size() - 40));
  return packet;
}

// Random but well-formed segments, equal for equal seeds.
class Generator
{
public:
  explicit Generator(std::uint64_t seed) : random_ { seed } {}

  std::uint32_t number() { return static_cast<std::uint32_t>(random_()); }
  std::uint32_t below(std::uint32_t limit) { return number() % limit; }
  bool coin() { return (random_() & 1) != 0; }

  Packet bytes(std::size_t length)
  {
    Packet packet(length);
    for (std::byte& b : packet)
      b = static_cast<std::byte>(random_());
    return packet;
  }

  Headers headers()
  {
    Headers made_up;
    made_up.key.local = address(coin());
    made_up.key.remote = address(made_up.key.local.v6);
    made_up.key.local_port = static_cast<std::uint16_t>(number());
    made_up.key.remote_port = static_cast<std::uint16_t>(number());
    made_up.direction = coin() ? Direction::egress : Direction::ingress;
    made_up.seq = { number() };
    made_up.ack = { number() };
    made_up.flags = static_cast<std::uint16_t>((number() & 0x1fd) | tcp_flag::ack);
    made_up.window = static_cast<std::uint16_t>(number());
    if (coin()) made_up.timestamps = Timestamps { { number() }, { number() } };
    const std::uint32_t count = below(made_up.timestamps ? 4 : 5);
    for (std::uint32_t i = 0; i < count; ++i)
      blocks_[i] = { { number() }, { number() } };
    made_up.sacks = std::span { blocks_ }.first(count);
    made_up.ecn = static_cast<Ecn>(below(4));
    made_up.ip_class = number() & (made_up.key.local.v6 ? 0x0fcf'ffffu : 0x0fc0'0000u);
    made_up.ttl = static_cast<std::uint8_t>(1 + below(255));
    made_up.id = static_cast<std::uint16_t>(number());
    return made_up;
  }

private:
  Address address(bool six)
  {
    Address made_up;
    made_up.v6 = six;
    for (std::size_t i = 0; i < (six ? 16u : 4u); ++i)
      made_up.bytes[i] = static_cast<std::uint8_t>(number());
    return made_up;
  }

  std::mt19937_64 random_;
  std::array<SackBlock, 4> blocks_ {};
};

} // namespace tandem::wire::test
