// Whole copies of the TCP packets to and from some ports on one interface, both ways: no verdict, no delay, no risk to
// the traffic.
#pragma once

#include "src/kernel/fd.h"

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

struct TappedPacket
{
  std::span<const std::byte> bytes {}; // from the IP header on
  std::size_t original_length = 0;     // more than bytes.size() when the copy was cut
  Direction direction = Direction::ingress;
  bool sound = false; // the kernel vouches for the TCP checksum: it was checked, or the packet never was on a wire
  Tick arrival {};    // when this batch was read
};

class Tap
{
public:
  static constexpr std::size_t most_ports = 16;

  // Throws std::system_error when the interface does not exist or the permission is missing, std::invalid_argument for
  // no port or too many.
  Tap(const std::string& interface, std::span<const std::uint16_t> ports);
  ~Tap();
  Tap(const Tap&) = delete;
  Tap& operator=(const Tap&) = delete;

  int fd() const;

  // Calls `sink` as void(const TappedPacket&), at most `limit` times (rounded up to a whole batch). Returns the number
  // of packets, or -1 when the interface is gone or down.
  template <class Sink>
  int receive(Sink&& sink, int limit = 256) noexcept
  {
    auto call = [](void* context, const TappedPacket& packet)
    { (*static_cast<std::remove_reference_t<Sink>*>(context))(packet); };
    return drain(call, const_cast<void*>(static_cast<const void*>(std::addressof(sink))), limit);
  }

  // Packets that were lost since the last call: the socket had no room for them, or the sink threw.
  std::uint64_t dropped();

private:
  using Call = void (*)(void*, const TappedPacket&);
  int drain(Call call, void* context, int limit) noexcept;

  struct Parts;
  std::unique_ptr<Parts> parts_;
};

} // namespace tandem::kernel
