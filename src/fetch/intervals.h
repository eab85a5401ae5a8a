// A set of stream offsets, kept as ranges that neither touch nor overlap.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>

namespace tandem::fetch
{

class Intervals
{
public:
  // A peer that sends every second byte must not make this grow without end: what would be one more range than this is
  // not taken (the peer sends it again).
  static constexpr std::size_t range_limit = 4096;

  // [from, to) is in. False when the limit keeps it out.
  bool add(std::uint64_t from, std::uint64_t to)
  {
    if (from >= to) return true;
    auto first = ranges_.upper_bound(from);
    if (first != ranges_.begin() && std::prev(first)->second >= from) --first;
    auto last = first;
    for (; last != ranges_.end() && last->first <= to; ++last)
    {
      from = std::min(from, last->first);
      to = std::max(to, last->second);
    }
    if (first == last && ranges_.size() >= range_limit) return false;
    ranges_.erase(first, last);
    ranges_.emplace(from, to);
    return true;
  }

  // The first offset at or behind `from` that is not in.
  std::uint64_t first_gap(std::uint64_t from) const
  {
    const auto behind = ranges_.upper_bound(from);
    if (behind == ranges_.begin()) return from;
    return std::max(from, std::prev(behind)->second);
  }

  bool covers(std::uint64_t from, std::uint64_t to) const { return first_gap(from) >= to; }

  void forget_below(std::uint64_t at)
  {
    const auto end = ranges_.lower_bound(at);
    std::uint64_t over = at;
    if (end != ranges_.begin()) over = std::prev(end)->second;
    ranges_.erase(ranges_.begin(), end);
    if (over > at) ranges_.emplace(at, over);
  }

  // Calls `take` as bool(from, to) for the ranges that begin behind `at`, in order, until it says false.
  template <class Take>
  void above(std::uint64_t at, Take&& take) const
  {
    for (auto range = ranges_.upper_bound(at); range != ranges_.end(); ++range)
      if (!take(range->first, range->second)) return;
  }

  std::size_t size() const { return ranges_.size(); }

private:
  std::map<std::uint64_t, std::uint64_t> ranges_ {};
};

} // namespace tandem::fetch
