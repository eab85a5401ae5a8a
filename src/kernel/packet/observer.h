// Copies of TCP packets on one interface, sampled in the kernel: no verdict, no delay, no risk to the traffic.
#pragma once

#include "src/kernel/fd.h"
#include "src/kernel/packet/sampling.h"

#include <tandem/segment.h>
#include <tandem/units.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <type_traits>

namespace tandem::kernel
{

struct ObservedPacket
{
  std::span<const std::byte> bytes {}; // from the IP header on, at most `snap` of them
  std::size_t original_length = 0;     // of the IP packet; beyond the MTU for a merged super-packet
  Direction direction = Direction::ingress;
  bool checksum_ready = false; // the TCP checksum is that of the wire: neither GRO nor offloading has left it for later
  int ifindex = 0;
  Tick arrival {};  // when this batch was read
  Tick received {}; // when the kernel had the packet; `arrival` when it does not say
};

struct ObserverStats
{
  std::uint64_t packets = 0;
  std::uint64_t kernel_drops = 0; // the socket was full
  std::uint64_t sink_faults = 0;  // the sink threw
};

class Observer
{
public:
  static constexpr std::size_t snap = 192; // IP header with options plus the longest TCP header

  // Throws std::system_error when the interface does not exist or the permission is missing.
  Observer(const std::string& interface, const Sampling& sampling);
  ~Observer();
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;

  int fd() const;
  // Replaces the filter atomically.
  void set(const Sampling& sampling);
  const Sampling& sampling() const;

  // Calls `sink` as void(const ObservedPacket&), at most `limit` times (rounded up to a whole batch). Returns the
  // number of packets, or -1 when the interface is gone or down: the observer sees again when the same interface comes
  // up; make a new one when the interface was recreated.
  template <class Sink>
  int receive(Sink&& sink, int limit = 256) noexcept
  {
    auto call = [](void* context, const ObservedPacket& packet)
    { (*static_cast<std::remove_reference_t<Sink>*>(context))(packet); };
    return drain(call, const_cast<void*>(static_cast<const void*>(std::addressof(sink))), limit);
  }

  // Reads and adds up the kernel's counters.
  ObserverStats stats();

private:
  using Call = void (*)(void*, const ObservedPacket&);
  int drain(Call call, void* context, int limit) noexcept;

  struct Parts;
  std::unique_ptr<Parts> parts_;
};

} // namespace tandem::kernel
