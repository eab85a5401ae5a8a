#include "src/daemon/pacing_book.h"

#include <algorithm>
#include <cmath>

namespace tandem::daemon
{

namespace
{

// What the kernel's option can say.
constexpr double slowest = 1000, fastest = kernel::pacing_unlimited - 1; // bytes per second

} // namespace

void PacingBook::take(const chain::PaceRequest& request, Tick now, const Find& find)
{
  const double rate = request.pace.rate / 8;
  const bool bounds = std::isfinite(rate) && rate > 0 && rate <= fastest;
  asked_ += bounds ? 1 : 0;
  // Nothing is bounded: there is nothing to let go, and no reason to ask the kernel.
  if (!bounds && entries_.empty()) return;
  const std::optional<std::uint64_t> cookie = find(request.key);
  if (!cookie)
  {
    not_found_ += bounds ? 1 : 0;
    return;
  }
  const auto known = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& one) { return one.cookie == *cookie && one.slot == request.slot; });
  if (!bounds)
  {
    if (known != entries_.end()) entries_.erase(known);
    return;
  }
  const Entry wanted { .cookie = *cookie,
                       .slot = request.slot,
                       .rate = static_cast<std::uint32_t>(std::max(rate, slowest)),
                       .until = now + pace_lasts };
  if (known != entries_.end())
    *known = wanted;
  else if (entries_.size() < kernel::most_paced)
    entries_.push_back(wanted);
  else
    ++too_many_;
}

void PacingBook::lapse(std::uint8_t slot)
{
  std::erase_if(entries_, [slot](const Entry& one) { return one.slot == slot; });
}

std::optional<kernel::PacingPlan> PacingBook::due(Tick now)
{
  std::erase_if(entries_, [now](const Entry& one) { return one.until <= now; });
  kernel::PacingPlan wanted {};
  for (const Entry& one : entries_)
  {
    const auto [at, fresh] = wanted.rates.try_emplace(one.cookie, one.rate);
    if (!fresh) at->second = std::min(at->second, one.rate);
  }
  if (wanted == told_) return {};
  told_ = wanted;
  return wanted;
}

} // namespace tandem::daemon
