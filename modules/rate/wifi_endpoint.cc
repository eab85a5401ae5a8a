#include "modules/rate/wifi_endpoint.h"

namespace tandem::rate
{
namespace
{

using namespace std::chrono_literals;

// A subflow that was made anew starts slowly: a link that comes and goes keeps what it has until it is gone for longer.
// So does one that goes while cellular carries already (measured: docs/results/promise-handoff.md).
constexpr Duration settled = 5s, longest_flap = 300ms;

} // namespace

bool WifiEndpoint::look(const Input& input)
{
  if (input.up)
  {
    if (away_) back_at_ = input.now;
    down_since_ = Tick::max();
    return away_ = false;
  }
  if (down_since_ == Tick::max())
  {
    down_since_ = input.now;
    rested_ = input.rested;
  }
  const bool flaps = back_at_ && input.now - *back_at_ < settled && input.now - down_since_ < longest_flap;
  const bool worth = rested_ || input.now - down_since_ >= longest_flap;
  away_ = away_ || (input.carried && input.cellular && worth && !flaps);
  return away_;
}

} // namespace tandem::rate
