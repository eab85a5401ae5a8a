// Ranges of addresses, and which of them are nobody's on the Internet. Pure.
#pragma once

#include <tandem/segment.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

namespace tandem::links
{

// A range of addresses, e.g. 10.0.0.0/8.
struct Network
{
  Address address {}; // bits behind the prefix are zero
  unsigned prefix = 0;

  constexpr bool contains(const Address& other) const
  {
    if (other.v6 != address.v6) return false;
    const unsigned whole = prefix / 8;
    if (!std::equal(address.bytes.begin(), address.bytes.begin() + whole, other.bytes.begin())) return false;
    const unsigned rest = prefix % 8;
    return rest == 0 || (address.bytes[whole] ^ other.bytes[whole]) >> (8 - rest) == 0;
  }
  bool operator==(const Network&) const = default;
};

// The network of this prefix that the address is in. A longer prefix than the address counts as the whole address.
constexpr Network network_of(Address address, unsigned prefix)
{
  const unsigned bits = address.v6 ? 128 : 32;
  const unsigned used = std::min(prefix, bits);
  for (unsigned i = 0; i < address.bytes.size(); ++i)
  {
    const unsigned kept = i * 8 >= used ? 0 : std::min(8u, used - i * 8);
    address.bytes[i] = static_cast<std::uint8_t>(address.bytes[i] & (0xff00u >> kept & 0xffu));
  }
  return { address, used };
}

// Addresses that are given out at home and in the office, and lead elsewhere, or nowhere, by another link: RFC 1918,
// RFC 6598, RFC 3927, RFC 4193, RFC 4291 2.5.6 and, before RFC 4193, the site-local ones (RFC 3879). And those that
// stand for one of IPv4 behind a translator, by the prefixes that are the same everywhere (RFC 6052 2.1, RFC 8215):
// another link has another translator, which knows nothing of a connection, or has none.
constexpr std::array<Network, 9> private_networks { {
    { { .bytes = { 10 } }, 8 },
    { { .bytes = { 172, 16 } }, 12 },
    { { .bytes = { 192, 168 } }, 16 },
    { { .bytes = { 100, 64 } }, 10 },
    { { .bytes = { 169, 254 } }, 16 },
    { { .bytes = { 0xfc }, .v6 = true }, 7 },
    { { .bytes = { 0xfe, 0x80 }, .v6 = true }, 9 },
    { { .bytes = { 0, 0x64, 0xff, 0x9b }, .v6 = true }, 96 },
    { { .bytes = { 0, 0x64, 0xff, 0x9b, 0, 1 }, .v6 = true }, 48 },
} };

// Whether the address is in one of these.
constexpr bool is_private(const Address& address)
{
  return std::any_of(private_networks.begin(), private_networks.end(),
                     [&](const Network& one) { return one.contains(address); });
}

// Whether the peer is one that another link leads elsewhere for: a private address, or one on a network of this link.
constexpr bool is_local_peer(const Address& peer, const std::vector<Network>& on_link)
{
  return is_private(peer)
         || std::any_of(on_link.begin(), on_link.end(), [&](const Network& one) { return one.contains(peer); });
}

} // namespace tandem::links
