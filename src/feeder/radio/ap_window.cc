#include "src/feeder/radio/ap_window.h"

#include <algorithm>

namespace tandem::feeder
{

std::uint8_t ApWindow::code(const Rate& rate)
{
  std::size_t index = static_cast<std::size_t>(std::find(rates_.begin(), rates_.end(), rate) - rates_.begin());
  if (index == most_rates)
  {
    // The place of one that no frame of the window came with any more.
    index = 0;
    while (index < most_rates && arrived_[index].first + arrived_[index].later > 0)
      ++index;
    if (index == most_rates) return 0;
    rates_[index] = rate;
  }
  else if (index == rates_.size())
    rates_.push_back(rate);
  return static_cast<std::uint8_t>(index + 1);
}

void ApWindow::count(const Entry& entry, int sign)
{
  bool arrived = true;
  switch (static_cast<What>(entry.what & what_bits))
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
  if ((entry.what & within) != 0) sums_.aggregated += sign;
  if ((entry.what & leads) != 0) sums_.aggregates += sign;
  if (!arrived || entry.rate == 0) return;
  Arrived& at_rate = arrived_[entry.rate - 1U];
  (static_cast<What>(entry.what & what_bits) == What::first ? at_rate.first : at_rate.later) += sign;
}

void ApWindow::pop()
{
  count(entries_.front(), -1);
  entries_.pop_front();
  if (!entries_.empty()) first_at_ += entries_.front().after;
}

void ApWindow::add(const Seen& seen, Tick at)
{
  purge(at);
  if (entries_.size() >= most_entries) pop();
  const std::int64_t now = at.time_since_epoch() / step;
  if (entries_.empty()) first_at_ = last_at_ = now;
  constexpr std::int64_t most_lost = 127, longest = 0xffff;
  const auto what = static_cast<unsigned>(seen.what) | (seen.aggregated ? within : 0U)
                    | (seen.aggregated && seen.new_aggregate ? leads : 0U);
  const Entry entry { .after = static_cast<std::uint16_t>(std::clamp<std::int64_t>(now - last_at_, 0, longest)),
                      .what = static_cast<std::uint8_t>(what),
                      .lost = static_cast<std::int8_t>(std::clamp<std::int64_t>(seen.lost, -most_lost, most_lost)),
                      .rate = seen.rate ? code(*seen.rate) : std::uint8_t { 0 } };
  last_at_ += entry.after;
  count(entry, 1);
  entries_.push_back(entry);
}

void ApWindow::purge(Tick now)
{
  const std::int64_t oldest = now.time_since_epoch() / step - span_;
  while (!entries_.empty() && first_at_ < oldest)
    pop();
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
