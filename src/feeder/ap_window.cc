#include "src/feeder/ap_window.h"

#include <algorithm>

namespace tandem::feeder
{

namespace
{

constexpr std::uint8_t within = 1, leads = 2;

std::uint32_t microseconds(Tick at)
{
  return static_cast<std::uint32_t>(at.time_since_epoch().count() / 1000);
}

} // namespace

std::uint8_t ApWindow::code(const Rate& rate)
{
  const auto known = std::find(rates_.begin(), rates_.end(), rate);
  if (known == rates_.end() && rates_.size() == most_rates) return 0;
  const auto index = static_cast<std::size_t>(known - rates_.begin());
  if (known == rates_.end()) rates_.push_back(rate);
  return static_cast<std::uint8_t>(index + 1);
}

void ApWindow::count(const Entry& entry, int sign)
{
  bool arrived = true;
  switch (entry.what)
  {
  case What::first:
    sums_.first += sign;
    break;
  case What::foretold:
    sums_.foretold += sign;
    [[fallthrough]];
  case What::retried:
    sums_.retried += sign;
    break;
  case What::repeated:
    sums_.repeated += sign;
    break;
  case What::damaged:
    sums_.damaged += sign;
    arrived = false;
    break;
  case What::lost_only:
    arrived = false;
    break;
  }
  sums_.lost += sign * entry.lost;
  if ((entry.aggregate & within) != 0) sums_.aggregated += sign;
  if ((entry.aggregate & leads) != 0) sums_.aggregates += sign;
  if (arrived && entry.rate > 0) arrived_[entry.rate - 1U] += sign;
}

void ApWindow::add(const Seen& seen, Tick at)
{
  if (entries_.size() >= most_entries)
  {
    count(entries_.front(), -1);
    entries_.pop_front();
  }
  constexpr int most = 127;
  const Entry entry { .at_us = microseconds(at),
                      .what = seen.what,
                      .lost = static_cast<std::int8_t>(std::clamp(seen.lost, -most, most)),
                      .rate = seen.rate ? code(*seen.rate) : std::uint8_t { 0 },
                      .aggregate = static_cast<std::uint8_t>((seen.aggregated ? within : 0)
                                                             | (seen.aggregated && seen.new_aggregate ? leads : 0)) };
  count(entry, 1);
  entries_.push_back(entry);
}

void ApWindow::purge(Tick now)
{
  const auto span = static_cast<std::uint32_t>(span_ / std::chrono::microseconds { 1 });
  while (!entries_.empty() && microseconds(now) - entries_.front().at_us > span)
  {
    count(entries_.front(), -1);
    entries_.pop_front();
  }
  if (entries_.empty()) rates_.clear();
}

void ApWindow::clear()
{
  entries_.clear();
  sums_ = {};
  rates_.clear();
  arrived_ = {};
}

} // namespace tandem::feeder
