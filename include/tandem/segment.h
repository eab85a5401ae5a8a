// A parsed TCP segment, as every module sees it. src/wire fills it from bytes; nothing here owns memory.
#pragma once

#include <tandem/link.h>
#include <tandem/seq.h>
#include <tandem/units.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace tandem
{

// An IPv4 or IPv6 address in network byte order; IPv4 uses the first four bytes, the rest is zero.
struct Address
{
  std::array<std::uint8_t, 16> bytes {};
  bool v6 = false;

  bool operator==(const Address&) const = default;
};

// The five-tuple seen from this host: `local` is always this laptop, whichever way the segment goes.
struct FlowKey
{
  Address local {};
  Address remote {};
  std::uint16_t local_port = 0;
  std::uint16_t remote_port = 0;

  bool operator==(const FlowKey&) const = default;
};

enum class Direction : std::uint8_t
{
  egress,  // leaving this laptop
  ingress, // arriving
};

// TCP header flags in their RFC 9293 bit positions (AE is RFC 9768, bit 8).
namespace tcp_flag
{
constexpr std::uint16_t fin = 0x001, syn = 0x002, rst = 0x004, psh = 0x008, ack = 0x010, urg = 0x020, ece = 0x040,
                        cwr = 0x080, ae = 0x100;
}

// The two ECN bits of the IP header (RFC 3168).
enum class Ecn : std::uint8_t
{
  not_ect = 0,
  ect1 = 1,
  ect0 = 2,
  ce = 3,
};

struct SackBlock
{
  Seq left {};  // first byte held
  Seq right {}; // first byte not held

  bool operator==(const SackBlock&) const = default;
};

struct Timestamps
{
  TsClock value {}; // TSval: the sender's clock
  TsClock echo {};  // TSecr: what the sender last accepted from the receiver of this segment

  bool operator==(const Timestamps&) const = default;
};

// Which options a header carries, as bits. `unknown` also covers options of a known kind with a length that the RFC
// does not allow.
namespace option
{
constexpr std::uint32_t mss = 1u << 0, window_scale = 1u << 1, sack_permitted = 1u << 2, sack = 1u << 3,
                        timestamps = 1u << 4, mptcp = 1u << 5, md5 = 1u << 6, ao = 1u << 7, fast_open = 1u << 8,
                        user_timeout = 1u << 9, acc_ecn = 1u << 10, unknown = 1u << 31;
}

// MPTCP option subtypes (RFC 8684 section 3).
enum class MptcpSubtype : std::uint8_t
{
  mp_capable = 0,
  mp_join = 1,
  dss = 2,
  add_addr = 3,
  remove_addr = 4,
  mp_prio = 5,
  mp_fail = 6,
  mp_fastclose = 7,
  mp_tcprst = 8,
  none = 0xff,
};

// The subtype's bit in Segment::mptcp_subtypes.
constexpr std::uint16_t subtype_bit(MptcpSubtype subtype)
{
  return subtype == MptcpSubtype::none ? std::uint16_t { 0 }
                                       : static_cast<std::uint16_t>(1u << static_cast<std::uint8_t>(subtype));
}

// One TCP segment. Sequence space and addresses are in host byte order unless a type says otherwise.
struct Segment
{
  Direction direction = Direction::egress;
  Link link = Link::other;
  FlowKey key {};

  Seq seq {};
  Seq ack {};               // meaningful only with tcp_flag::ack
  std::uint16_t flags = 0;  // tcp_flag::*
  std::uint16_t window = 0; // as in the header, unscaled
  std::uint32_t payload_length =
      0;                      // TCP payload bytes; of the whole super-packet when GSO / GRO merged several segments
  std::uint16_t gso_size = 0; // payload bytes of one segment of a super-packet, 0 for an ordinary packet
  Ecn ecn = Ecn::not_ect;
  // What routers may choose a way by: the first word of an IPv6 header without version and ECN, that is the DSCP from
  // bit 22 on (RFC 2474) and the flow label (RFC 6437); of IPv4 the DSCP in the same place.
  std::uint32_t ip_class = 0;
  // When the kernel had it: a little before the event's time, without the daemon's own delays. Zero when not known. For
  // measuring only: it may lie before what other events said.
  Tick received {};

  std::uint32_t options = 0; // option::*
  std::optional<Timestamps> timestamps {};
  std::array<SackBlock, 4> sack_blocks {};
  std::uint8_t sack_count = 0;
  std::optional<std::uint16_t> mss {};         // MSS option (SYN only)
  std::optional<std::uint8_t> window_scale {}; // shift count, clamped to 14 (RFC 7323 2.3; SYN only)
  // Of a SYN: the kinds of its first eight options in their order, no-operation included, four bits each with the first
  // one in the highest that are used; 15 stands for every kind above 14. Stacks differ in it.
  std::uint32_t option_order = 0;
  MptcpSubtype mptcp = MptcpSubtype::none;      // the first MPTCP option
  std::uint16_t mptcp_subtypes = 0;             // subtype_bit() of every MPTCP option, unassigned ones as well
  bool mptcp_data_fin = false;                  // a DSS carries DATA_FIN (RFC 8684 3.3.3)
  std::uint32_t mptcp_token = 0;                // receiver's token of an MP_JOIN SYN (RFC 8684 3.2), else 0
  std::optional<std::uint64_t> mptcp_key {};    // the sender's, of MP_CAPABLE that carries one
  std::uint8_t mptcp_version = 0;               // of MP_CAPABLE
  std::uint8_t mptcp_address_id = 0;            // of MP_JOIN with SYN
  bool mptcp_backup = false;                    // B bit of MP_JOIN with SYN, or of MP_PRIO
  bool mptcp_prio = false;                      // carries MP_PRIO, as the first MPTCP option or behind a DSS
  std::optional<std::uint8_t> mptcp_prio_of {}; // of MP_PRIO: another subflow's address id (RFC 6824 3.3.8)

  // Where things are inside `bytes`; used by src/wire to edit in place.
  std::uint16_t ip_header_length = 0;  // including IPv6 extension headers
  std::uint16_t tcp_header_length = 0; // including options
  std::uint16_t timestamps_offset = 0; // of the option's kind byte from the start of the packet; 0 when absent
  std::span<const std::byte>
      bytes {}; // the packet from its IP header on; may be cut behind the TCP header when only observed

  constexpr bool has(std::uint16_t flag) const { return (flags & flag) != 0; }
  constexpr bool has_option(std::uint32_t bits) const { return (options & bits) != 0; }
  // No payload, ACK set, none of SYN, FIN, RST.
  constexpr bool is_pure_ack() const
  {
    return payload_length == 0
           && (flags & (tcp_flag::ack | tcp_flag::syn | tcp_flag::fin | tcp_flag::rst)) == tcp_flag::ack;
  }
  // Carries an MPTCP option that the next segment does not repeat: anything but a DSS whose acknowledgement and mapping
  // are cumulative (RFC 8684 3.3). DATA_FIN is sent until it is acknowledged, but nothing says that it is again.
  constexpr bool has_mptcp_signal() const
  {
    constexpr std::uint16_t cumulative = subtype_bit(MptcpSubtype::dss);
    return has_option(option::mptcp)
           && (mptcp != MptcpSubtype::dss || (mptcp_subtypes & ~cumulative) != 0 || mptcp_data_fin);
  }
  // Sequence space taken: payload plus one each for SYN and FIN.
  constexpr std::uint32_t sequence_length() const
  {
    return payload_length + (has(tcp_flag::syn) ? 1u : 0u) + (has(tcp_flag::fin) ? 1u : 0u);
  }
  constexpr Seq end() const { return seq + sequence_length(); }
  std::span<const SackBlock> sacks() const { return { sack_blocks.data(), sack_count }; }
};

} // namespace tandem
