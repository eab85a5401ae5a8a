// Whether an arriving segment can be one that TCP takes: its numbers lie in the windows (RFC 9293 3.10.7.4, RFC 5961
// section 5.2). A copy is made before TCP has looked, and anyone who knows the addresses and ports can send one.
#pragma once

#include <tandem/segment.h>

#include <cstdint>

namespace tandem::flow
{

enum class Acceptability : std::uint8_t
{
  acceptable,
  unknown, // this host's own numbers are not known (any more): nothing may follow from the segment
  unacceptable,
};

// As far as this host's own numbers are known.
struct Windows
{
  Seq rcv_nxt {};
  std::uint32_t receive = 0; // bytes of the largest window that this host has advertised
  Seq snd_nxt {};
  std::uint32_t send = 0; // of the largest that the peer can have advertised
};

// What is sent again lies below the window, by a window at most; D-SACK reports it, so it counts. Above, twice the
// window is allowed: this host's ACKs may be known by samples.
bool in_windows(const Segment& arriving, const Windows& windows);

} // namespace tandem::flow
