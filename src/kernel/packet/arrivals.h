// Whether anything arrives on an interface: its counter, cheap to read often, and a bell for the very next frame.
#pragma once

#include "src/kernel/fd.h"

#include <cstdint>
#include <optional>
#include <string>

namespace tandem::kernel
{

// Frames received, or sent, by one interface. Read from sysfs: unlike a netlink question it never waits for the
// kernel's big lock of network configuration.
class FrameCounter
{
public:
  enum class Of : std::uint8_t
  {
    received,
    sent,
  };
  explicit FrameCounter(Of of) : of_ { of } {}

  void open(const std::string& interface);
  // Nothing when the interface is gone.
  std::optional<std::uint64_t> read() noexcept;

private:
  Of of_;
  std::string interface_;
  Fd file_ {};
  bool table_ = false; // file_ is /proc/self/net/dev: /sys shows another network namespace
};

// Becomes readable with the next frame that arrives on an interface, whatever it is.
class ArrivalBell
{
public:
  // False when it cannot (interface down or gone, no permission).
  bool arm(int ifindex) noexcept;
  void disarm() noexcept { socket_.reset(); }
  int fd() const { return socket_.get(); } // -1 while not armed
  // Whether it has rung; empties it.
  bool rung() noexcept;

private:
  Fd socket_ {};
};

} // namespace tandem::kernel
