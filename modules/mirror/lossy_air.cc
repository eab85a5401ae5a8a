#include "modules/mirror/lossy_air.h"

#include <algorithm>

namespace tandem::mirror
{

namespace
{

using namespace std::chrono_literals;

constexpr Duration close = 20s;
// The place of a laptop, and who else is on the air, are other ones after that.
constexpr Duration remembered = 60s;

// Of the flow's server, on its link; nullptr: nothing.
auto* find(auto& known, const FlowView& flow)
{
  const auto found =
      std::find_if(known.begin(), known.end(),
                   [&](const auto& one) { return one.link == flow.link && one.server == flow.key.remote; });
  return found == known.end() ? nullptr : &*found;
}

} // namespace

void LossyAir::lost(const FlowView& flow, const Expected& found, Tick now)
{
  const auto newest = [](const Known& one) { return *std::max_element(one.at.begin(), one.at.end()); };
  Known* one = find(known_, flow);
  if (one == nullptr)
  {
    one = std::min_element(known_.begin(), known_.end(),
                           [&](const Known& a, const Known& b) { return newest(a) < newest(b); });
    *one = { .server = flow.key.remote, .link = flow.link };
  }
  one->found = found;
  one->at[one->next] = now;
  one->next = (one->next + 1) % enough;
}

LossyAir::Expected LossyAir::expected(const FlowView& flow, const LinkStates& links, Tick now) const
{
  const Known* one = find(known_, flow);
  if (one == nullptr) return {};
  const auto [oldest, newest] = std::minmax_element(one->at.begin(), one->at.end());
  const bool known = *oldest != Tick {} && *oldest >= links[static_cast<std::size_t>(flow.link)].changed
                     && *newest - *oldest <= close && now - *newest <= remembered;
  return known ? one->found : Expected {};
}

} // namespace tandem::mirror
