// Any bytes as messages of the kernel's packet queue: what is read of them lies within them.
#include "src/kernel/packet/queue_message.h"

#include "src/kernel/netlink_dump.h"
#include "tests/fuzz/check.h"

#include <libmnl/libmnl.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

using namespace tandem;
using tandem::fuzz::check;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
  if (size < sizeof(nlmsghdr)) return 0;
  // Aligned, and exactly as large as what came.
  std::vector<std::uint32_t> room((size + 3) / 4);
  std::memcpy(room.data(), data, size);
  auto* message = reinterpret_cast<nlmsghdr*>(room.data());
  int left = static_cast<int>(size);
  for (; kernel::message_fits(message, left); message = mnl_nlmsg_next(message, &left))
  {
    kernel::QueueMessage out {};
    const bool packet = kernel::parse(*message, out);
    const auto* begin = reinterpret_cast<const std::byte*>(message);
    const std::span<const std::byte> bytes = out.packet.bytes;
    if (!bytes.empty())
      check(bytes.data() > begin && bytes.data() + bytes.size() <= begin + message->nlmsg_len, "the payload is inside");
    check(out.packet.ip_version == 4 || out.packet.ip_version == 6, "a known IP version");
    check(!out.readable || !bytes.empty(), "what can be read has bytes");
    check(out.packet.cut || out.packet.original_length == bytes.size(), "whole unless cut");
    if (packet) check(message->nlmsg_len >= 16 + 4, "a packet has a header");
  }
  return 0;
}
