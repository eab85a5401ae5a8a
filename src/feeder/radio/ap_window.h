// The frames of one access point for us within the last half second, six bytes each. Pure.
#pragma once

#include "src/feeder/radio/airtime.h"

#include <tandem/units.h>

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

namespace tandem::feeder
{

class ApWindow
{
public:
  explicit ApWindow(Duration span) : span_ { span / step } {}

  // One PHY rate of data frames; what does not fit into the table of them counts without its rate.
  struct Rate
  {
    double mbps = 0;
    bool ht = false;
    std::uint8_t streams = 1;

    bool operator==(const Rate&) const = default;
  };

  struct Sums
  {
    int first = 0;      // arrived with the first attempt
    int retried = 0;    // with a later one
    int lost = 0;       // never
    int repeated = 0;   // attempts that arrived although an earlier one had: its acknowledgement was lost
    int damaged = 0;    // attempts that were heard damaged
    int foretold = 0;   // of `retried`: an earlier attempt was heard damaged
    int aggregated = 0; // attempts within aggregates
    int aggregates = 0;
  };

  enum class What : std::uint8_t
  {
    first,
    retried,
    foretold, // retried, and an earlier attempt was heard damaged
    repeated,
    damaged,
    lost_only, // none of these, but numbers that are missing
  };
  struct Seen
  {
    What what = What::first;
    int lost = 0; // numbers found missing before it; -1: it had been taken for lost
    bool aggregated = false;
    bool new_aggregate = false;
    std::optional<Rate> rate {};
  };
  void add(const Seen& seen, Tick at);
  void purge(Tick now);
  void clear();

  const Sums& sums() const { return sums_; }
  bool empty() const { return entries_.empty(); }
  // Calls f(rate, first, later) for the rates of frames that arrived, with the first attempt and with later ones.
  template <class F>
  void each_rate(F f) const
  {
    for (std::size_t i = 0; i < rates_.size(); ++i)
      if (arrived_[i].first + arrived_[i].later > 0) f(rates_[i], arrived_[i].first, arrived_[i].later);
  }
  std::size_t memory() const { return entries_.size() * sizeof(Entry); }

private:
  struct Entry
  {
    std::uint16_t after = 0; // steps of time since the entry before it
    std::uint8_t what = 0;   // What, and the bits within and leads: of an aggregate
    std::int8_t lost = 0;
    std::uint8_t rate = 0; // index into rates_ + 1; 0: not known
  };
  static_assert(sizeof(Entry) == 6);
  static constexpr Duration step = std::chrono::microseconds { 16 };
  static constexpr std::uint8_t within = 0x10, leads = 0x20, what_bits = 0x0f;

  void count(const Entry& entry, int sign);
  std::uint8_t code(const Rate& rate);

  static constexpr std::size_t most_rates = 64;
  static constexpr std::size_t most_entries = 65536; // hostile floods end here

  void pop();

  std::int64_t span_; // in steps, as the next two
  std::int64_t first_at_ = 0, last_at_ = 0;
  std::deque<Entry> entries_ {};
  Sums sums_ {};
  std::vector<Rate> rates_ {};
  struct Arrived
  {
    int first = 0, later = 0;
  };
  std::array<Arrived, most_rates> arrived_ {};
};

} // namespace tandem::feeder
