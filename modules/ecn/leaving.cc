#include "modules/ecn/leaving.h"

#include <algorithm>

namespace tandem::ecn
{

namespace
{

using namespace std::chrono_literals;

constexpr Duration rate_over = 300ms;
// At 5 % of the packets a window halves about once a round trip, whose queue takes up to half a second.
constexpr Duration longest = 3s;

} // namespace

void Leaving::look(std::span<const std::uint64_t, most_wifi> delivered, Tick now)
{
  const double elapsed = seconds(now - looked_);
  if (elapsed <= 0) return;
  const double share = looked_ == Tick {} ? 0 : std::min(1.0, elapsed / seconds(rate_over));
  for (std::size_t i = 0; i < most_wifi; ++i)
    rates_[i] += share * (static_cast<double>(delivered[i] - delivered_[i]) / elapsed - rates_[i]);
  std::copy(delivered.begin(), delivered.end(), delivered_.begin());
  looked_ = now;
}

bool Leaving::later(std::size_t link, const Links& wanted, Tick now) const
{
  if (wanted[link] || !used_[link] || (!good_[link] && !leaves_[link])) return false;
  if (leaves_[link] && now - *leaves_[link] >= longest) return false;
  return carries_more(link, wanted);
}

bool Leaving::carries_more(std::size_t link, const Links& others) const
{
  double sum = 0;
  for (std::size_t i = 0; i < most_wifi; ++i)
    sum += others[i] ? rates_[i] : 0;
  return sum < rates_[link];
}

void Leaving::told(const Links& used, const Links& good, Tick now)
{
  for (std::size_t i = 0; i < most_wifi; ++i)
  {
    const bool leaves = used[i] && !good[i] && used_[i] && (good_[i] || leaves_[i]);
    if (!leaves)
      leaves_[i].reset();
    else if (!leaves_[i])
      leaves_[i] = now;
  }
  used_ = used;
  good_ = good;
}

} // namespace tandem::ecn
