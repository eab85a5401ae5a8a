// System calls of the emulator: file descriptors, network namespaces, TAP devices, scheduling.
#pragma once

#include <tandem/units.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace tandem::lab
{

using Mac = std::array<std::uint8_t, 6>;

std::string text(const Mac& mac);

// Throws std::system_error with `what` when a call returned a negative number; else returns it.
int check(std::string_view what, int result);

class Fd
{
public:
  Fd() = default;
  explicit Fd(int fd) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept
  {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Fd();

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }

private:
  int fd_ = -1;
};

// A non-persistent TAP device: it vanishes with this object or with the process. Frames carry their Ethernet header and
// nothing else.
class Tap
{
public:
  // Creates `name` inside the named network namespace (/var/run/netns), with this address, up, MTU 1500. Throws
  // std::system_error.
  Tap(const std::string& netns, const std::string& name, const Mac& mac);

  int fd() const { return fd_.get(); }
  // Bytes read, 0 when nothing waits, -1 on an error.
  int read(std::span<std::byte> into);
  // Whether the kernel took it (a device that is down does not).
  bool write(std::span<const std::byte> frame);
  void set_carrier(bool up);

private:
  Fd fd_;
};

// CLOCK_MONOTONIC in nanoseconds.
std::int64_t monotonic_ns();
// CLOCK_REALTIME in nanoseconds.
std::int64_t realtime_ns();

// Best effort: memory locked, real-time round robin at low priority, short timer slack. Returns what could not be had,
// or "".
std::string become_real_time();

} // namespace tandem::lab
