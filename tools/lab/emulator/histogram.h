// Percentiles of durations without keeping the samples.
#pragma once

#include <tandem/units.h>

#include <array>
#include <bit>
#include <cstdint>

namespace tandem::lab
{

// Logarithmic buckets with 32 steps per power of two: a percentile is at most 3 % too high. Negative values count as 0.
class Histogram
{
public:
  void add(Duration value)
  {
    const std::uint64_t ns = value.count() < 0 ? 0 : static_cast<std::uint64_t>(value.count());
    ++counts_[bucket(ns)];
    ++total_;
    if (ns > max_) max_ = ns;
  }

  std::uint64_t count() const { return total_; }
  Duration max() const { return Duration { static_cast<std::int64_t>(max_) }; }

  // The value that the share `part` (0 .. 1) of the samples does not exceed.
  Duration percentile(double part) const
  {
    const auto wanted = static_cast<std::uint64_t>(part * static_cast<double>(total_));
    std::uint64_t seen = 0;
    for (std::size_t i = 0; i < counts_.size(); ++i)
    {
      seen += counts_[i];
      if (seen > wanted) return Duration { static_cast<std::int64_t>(std::min(upper(i), max_)) };
    }
    return max();
  }

  void reset() { *this = {}; }

private:
  static constexpr unsigned step_bits = 5;

  static std::size_t bucket(std::uint64_t ns)
  {
    if (ns < (1u << step_bits)) return ns;
    const auto log = static_cast<unsigned>(std::bit_width(ns)) - 1;
    const std::size_t index =
        ((log - step_bits + 1) << step_bits) + ((ns >> (log - step_bits)) & ((1u << step_bits) - 1));
    return index < bucket_count ? index : bucket_count - 1;
  }

  static std::uint64_t upper(std::size_t index)
  {
    if (index < (1u << step_bits)) return index;
    const auto log = (index >> step_bits) + step_bits - 1;
    const std::uint64_t part = index & ((1u << step_bits) - 1);
    return (((1ull << step_bits) + part + 1) << (log - step_bits)) - 1;
  }

  static constexpr std::size_t bucket_count = 40u << step_bits;
  std::array<std::uint32_t, bucket_count> counts_ {};
  std::uint64_t total_ = 0;
  std::uint64_t max_ = 0;
};

} // namespace tandem::lab
