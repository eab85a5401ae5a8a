// Segments and bytes in words, for traces, tests and messages. Makes strings: not for the packet path.
#pragma once

#include <tandem/segment.h>

#include <cstddef>
#include <span>
#include <string>

namespace tandem::wire
{

// 192.0.2.1 or 2001:db8::1.
std::string to_string(const Address& address);

// 192.0.2.1:80 or [2001:db8::1]:80.
std::string to_string(const Address& address, std::uint16_t port);

// As tcpdump writes them: "S.", "P.", "F.", "." and so on, W for CWR, E for ECE, e for AE; "none" without any.
std::string flags_text(std::uint16_t flags);

// One line, source first:
//   10.0.0.2:40000 > 192.0.2.1:443 [.] seq 1 ack 2 win 502 len 0 <sack 5..9, ts 10 20> ce gso 1448
// Numbers are absolute; ack only with the flag; ECN and gso only when set. No direction and no link: the caller's
// columns.
std::string describe(const Segment& segment);

// The first `most` bytes in hexadecimal, in groups of 4, with "... (N bytes)" when there are more.
std::string hex_line(std::span<const std::byte> bytes, std::size_t most = 96);

} // namespace tandem::wire
