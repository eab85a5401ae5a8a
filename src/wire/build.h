// New packets into a caller's buffer, with correct checksums. Each function returns the bytes written, or 0 when the
// buffer is too small or the request cannot be put into a header; then nothing useful is in the buffer. No allocation.
#pragma once

#include "src/wire/checksum.h"

#include <tandem/plan.h>
#include <tandem/segment.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace tandem::wire
{

// Enough for every header that build_segment can write: IPv6, TCP and 40 bytes of options.
constexpr std::size_t longest_header = 40 + 20 + 40;

struct Headers
{
  FlowKey key {};
  Direction direction = Direction::egress; // egress: from key.local to key.remote
  Seq seq {};
  Seq ack {};
  std::uint16_t flags = tcp_flag::ack;
  std::uint16_t window = 0; // unscaled
  std::optional<Timestamps> timestamps {};
  std::span<const SackBlock> sacks {}; // at most 4, at most 3 beside timestamps: the TCP header has room for no more
  Ecn ecn = Ecn::not_ect;
  std::uint32_t ip_class = 0; // Segment::ip_class
  std::uint8_t ttl = 64;
  std::uint16_t id = 0; // IPv4 identification; don't-fragment is set, so 0 is fine (RFC 6864 4.1)
};

// A segment with the given headers and payload. Options are laid out as Linux does: NOP, NOP, timestamps, then NOP,
// NOP, SACK.
std::size_t build_segment(std::span<std::byte> out, const Headers& headers, std::span<const std::byte> payload = {});

// A pure ACK: build_segment without payload and without SYN, FIN or RST.
std::size_t build_ack(std::span<std::byte> out, const Headers& headers);

struct Unreachable
{
  FlowKey key {};                   // the flow; the message goes to key.remote about a segment it sent to key.local
  Seq seq {};                       // of the quoted segment; the sender acts when it is its snd_una
  Seq ack {};                       // of the quoted segment
  std::optional<Address> router {}; // who says so; key.local when empty
  std::uint8_t ttl = 64;
  // ingress: as said. egress: the message goes to key.local about a segment it sent to key.remote, as this host itself
  // says it of a neighbour that it cannot reach.
  Direction quoted = Direction::ingress;
};

// ICMP host unreachable (type 3 code 1, RFC 792) or ICMPv6 no route to destination (type 1 code 0, RFC 4443 3.1) to the
// server, quoting a header of the server's own segment: makes it revert its RTO backoff (RFC 6069). Or to this host's
// own TCP.
std::size_t build_unreachable(std::span<std::byte> out, const Unreachable& message);

// What only the server's own segments say: its last acknowledgement number and window.
struct Fill
{
  Seq ack {};
  std::uint16_t window = 0;            // unscaled
  std::span<const std::byte> bytes {}; // all of it: its size is the InjectedSegment's length
};

// A fill, to be handed to the local TCP as if the server had sent it. Its TTL of 1 keeps it on this host whatever the
// routes are.
std::size_t build_fill(std::span<std::byte> out, const FlowKey& key, const InjectedSegment& request, const Fill& fill);

// A packet of this host once more, of which `original` is a copy, its checksum finished or not: only the TSval is
// another one, where it has the option. 0: not a whole TCP packet, or an authenticated one.
std::size_t build_again(std::span<std::byte> out, std::span<const std::byte> original,
                        const std::optional<Timestamps>& timestamps);

// What a module or the chain asked for, on its flow, except a fill. SACK blocks beyond the room in the header are left
// out, the last ones first. `ip_class`: that of the flow's own packets, so that an ACK goes the way that they go.
std::size_t build(std::span<std::byte> out, const FlowKey& key, const InjectedSegment& request,
                  std::uint32_t ip_class = 0);

} // namespace tandem::wire
