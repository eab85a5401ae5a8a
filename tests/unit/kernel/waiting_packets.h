// Packets that wait in another program's queue, in a network namespace of the test's own.
#pragma once

#include "src/kernel/fd.h"
#include "src/kernel/packet/packet_queue.h"
#include "tests/unit/kernel/own_namespace.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdint>
#include <exception>
#include <optional>

namespace tandem::kernel::test
{

class WaitingPackets
{
public:
  // Three wait. False: no queues here.
  bool begin()
  {
    try
    {
      queue_.emplace(QueueOptions { .number = 77 });
    }
    catch (const std::exception&)
    {
      return false;
    }
    // A kernel without nft's queue expression may have that of iptables.
    if (!done("nft 'table inet wait { chain output { type filter hook output priority 0; udp dport 7777 queue num 77; "
              "}; }' || iptables -t mangle -A OUTPUT -p udp --dport 7777 -j NFQUEUE --queue-num 77"))
      return false;
    const Fd from { ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0) };
    sockaddr_in to {};
    to.sin_family = AF_INET;
    to.sin_port = htons(7777);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    for (int i = 0; i < 3; ++i)
      ::sendto(from.get(), "x", 1, 0, reinterpret_cast<const sockaddr*>(&to), sizeof to);
    return count() == 3;
  }

  std::uint32_t count() const { return queue_->kernel_stats().value_or(KernelQueueStats {}).waiting; }

private:
  std::optional<PacketQueue> queue_ {};
};

} // namespace tandem::kernel::test
