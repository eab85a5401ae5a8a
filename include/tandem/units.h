// Time and rate as types, so that a bare number never stands for a second or a bit.
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>

namespace tandem
{

// The monotonic time line of a run. It has no now(): only src/kernel reads a clock, everyone else is handed a Tick.
struct Monotonic
{
  using rep = std::int64_t;
  using period = std::nano;
  using duration = std::chrono::nanoseconds;
  using time_point = std::chrono::time_point<Monotonic, duration>;
  static constexpr bool is_steady = true;
};

using Duration = std::chrono::nanoseconds;
using Tick =
    Monotonic::time_point; // nanoseconds since an arbitrary start (CLOCK_MONOTONIC when live, 0 in the simulator)

// The time line in whole milliseconds, for the state of a flow, which is small: it wraps after 49 days.
constexpr std::uint32_t clock_ms(Tick at)
{
  return static_cast<std::uint32_t>(at.time_since_epoch() / std::chrono::milliseconds { 1 });
}

// A data rate in bits per second.
struct Rate
{
  double bits_per_second = 0;

  constexpr auto operator<=>(const Rate&) const = default;

  // How long `bytes` take at this rate. A rate of zero never gets there: Duration::max().
  constexpr Duration time_for(std::uint64_t bytes) const
  {
    if (bits_per_second <= 0) return Duration::max();
    return Duration { static_cast<std::int64_t>(static_cast<double>(bytes) * 8e9 / bits_per_second) };
  }
};

inline namespace literals
{
using namespace std::chrono_literals;
constexpr Rate operator""_kbps(unsigned long long n)
{
  return { static_cast<double>(n) * 1e3 };
}
constexpr Rate operator""_mbps(unsigned long long n)
{
  return { static_cast<double>(n) * 1e6 };
}
constexpr Rate operator""_mbps(long double n)
{
  return { static_cast<double>(n) * 1e6 };
}
constexpr Rate operator""_gbps(unsigned long long n)
{
  return { static_cast<double>(n) * 1e9 };
}
} // namespace literals

// Seconds as a double, for arithmetic and output only.
constexpr double seconds(Duration d)
{
  return std::chrono::duration<double>(d).count();
}
constexpr double milliseconds(Duration d)
{
  return std::chrono::duration<double, std::milli>(d).count();
}
constexpr Duration from_seconds(double s)
{
  return Duration { static_cast<std::int64_t>(s * 1e9) };
}

} // namespace tandem
