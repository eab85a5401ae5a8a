// One message of the kernel's packet queue (NFQNL_MSG_PACKET) as a packet. Pure: bytes in, plain values out.
#pragma once

#include <tandem/units.h>

#include <cstddef>
#include <cstdint>
#include <span>

struct nlmsghdr;

namespace tandem::kernel
{

// Where in the stack a packet was queued (NF_INET_*).
enum class Hook : std::uint8_t
{
  prerouting = 0,
  input = 1,
  forward = 2,
  output = 3,
  postrouting = 4,
};

// A packet waiting for its verdict. `bytes` starts at the IP header, lies in the receive buffer, and is valid until the
// sink returns. It may be edited in place and handed back as Decision::bytes.
struct QueuedPacket
{
  std::uint32_t id = 0;
  std::span<std::byte> bytes {};
  Hook hook = Hook::output;
  std::uint8_t ip_version = 4; // 4 or 6
  int in_ifindex = 0;          // 0: none (locally made)
  int out_ifindex = 0;         // 0: none (just arriving)
  std::uint32_t mark = 0;
  bool gso = false; // a super-packet of several segments
  bool checksum_not_ready =
      false;        // the TCP checksum field holds the pseudo-header sum only; compute it whole if you edit
  bool cut = false; // longer than the copy range: only its head is here; it can be accepted, not changed
  std::uint32_t original_length = 0; // bytes of the whole packet
  Tick arrival {};                   // when this batch was read

  bool egress() const { return hook == Hook::output || hook == Hook::postrouting; }
};

struct QueueMessage
{
  QueuedPacket packet {};
  bool readable = false; // its bytes begin as a packet of the IP version that the kernel names
};

// `message`: whole (mnl_nlmsg_ok()). False when it is none that has an id; an attribute that is too short for what it
// should be counts as absent.
bool parse(nlmsghdr& message, QueueMessage& out) noexcept;

} // namespace tandem::kernel
