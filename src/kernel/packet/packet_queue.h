// One netfilter queue: packets of both IP versions come in, a verdict for each goes out, in order.
//
// Nothing is parked here: every packet handed to the sink gets its verdict before receive() returns. A packet whose
// sink throws, that was cut, or that cannot be understood is accepted untouched.
#pragma once

#include "src/kernel/packet/queue_message.h"

#include <tandem/units.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace tandem::kernel
{

struct QueueOptions
{
  std::uint16_t number = 84;
  std::uint32_t max_length = 4096;   // packets waiting in the kernel; beyond, the kernel lets packets pass (fail-open)
  bool gso = true;                   // take super-packets whole: ten times the throughput on ingress
  std::uint32_t copy_range = 0xffff; // bytes of a packet that are copied; the whole one is needed to edit it
  int receive_buffer = 8 * 1024 * 1024; // bytes; beyond, the kernel lets packets pass
};

// What to do with a packet. Decision{} accepts it untouched.
struct Decision
{
  bool drop = false;
  std::optional<std::uint32_t> mark {}; // the whole new mark: use MarkBits::on(packet.mark). Leaving by another mark
                                        // re-routes a packet of the output hook
  std::span<const std::byte> bytes {};  // replacement of the whole packet, with valid checksums; empty: as it was
};

// Counters since construction. The kernel's own are read on request.
struct QueueStats
{
  std::uint64_t received = 0;
  std::uint64_t bytes = 0;
  std::uint64_t accepted = 0; // untouched and unmarked
  std::uint64_t marked = 0;
  std::uint64_t replaced = 0;
  std::uint64_t dropped = 0;
  std::uint64_t truncated = 0;        // longer than the copy range: never changed or dropped
  std::uint64_t unparsable = 0;       // neither IPv4 nor IPv6, or without bytes: accepted untouched
  std::uint64_t sink_faults = 0;      // the sink threw: accepted untouched
  std::uint64_t overruns = 0;         // ENOBUFS from the socket (the packets themselves passed: fail-open)
  std::uint64_t late_verdicts = 0;    // the packet was already gone: its interface went down, or the keeper released it
  std::uint64_t verdict_errors = 0;   // any other refusal by the kernel
  std::uint64_t verdict_messages = 0; // verdicts after merging runs: the smaller against `received`, the cheaper
};

// From /proc/net/netfilter/nfnetlink_queue.
struct KernelQueueStats
{
  std::uint32_t waiting = 0;
  std::uint64_t queue_drops = 0; // queue full
  std::uint64_t user_drops = 0;  // no room in the socket
  std::uint64_t last_id = 0;
};

class PacketQueue
{
public:
  // Throws std::system_error with a sentence: no permission, no nfqueue in the kernel, or the queue number is taken by
  // another program.
  explicit PacketQueue(const QueueOptions& options);
  ~PacketQueue();
  PacketQueue(const PacketQueue&) = delete;
  PacketQueue& operator=(const PacketQueue&) = delete;

  int fd() const; // readable when packets wait; hand it to Keeper::guard_queue too
  const QueueOptions& options() const;

  // Calls `sink` as Decision(QueuedPacket&) for packets that wait now, at most `limit` of them (rounded up to a whole
  // batch), and sends the verdicts. Returns how many were taken; more may wait, and then fd() stays readable. Allocates
  // nothing. Never throws.
  template <class Sink>
  std::size_t receive(Sink&& sink, std::size_t limit = 256) noexcept
  {
    auto call = [](void* context, QueuedPacket& packet) -> Decision
    { return (*static_cast<std::remove_reference_t<Sink>*>(context))(packet); };
    return drain(call, const_cast<void*>(static_cast<const void*>(std::addressof(sink))), limit);
  }

  // How much of each packet is copied from now on. Copying 64 KiB super-packets costs more than everything else that is
  // done to them.
  void set_copy_range(std::uint32_t bytes) noexcept;

  const QueueStats& stats() const;
  // Nothing when the queue is not listed. Opens a file: not for every packet.
  std::optional<KernelQueueStats> kernel_stats() const;

private:
  using Call = Decision (*)(void*, QueuedPacket&);
  std::size_t drain(Call call, void* context, std::size_t limit) noexcept;

  struct Parts;
  std::unique_ptr<Parts> parts_;
};

// Lets every packet pass that waits in queue `number`, on the listener's own socket `fd`. For the keeper, on behalf of
// a listener that hangs or died. False when the kernel refused.
bool release_waiting(int fd, std::uint16_t number) noexcept;

} // namespace tandem::kernel
