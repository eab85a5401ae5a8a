#include "src/flow/known_senders.h"

#include <algorithm>

namespace tandem::flow
{

auto KnownSenders::find(auto& known, const FlowKey& key, Tick now)
{
  return std::find_if(known.begin(), known.end(),
                      [&](const Known& one) {
                        return one.used && now - one.at <= kept_for && one.remote == key.remote
                               && one.local == key.local;
                      });
}

KnownSenders::Known& KnownSenders::of(const FlowKey& key, Tick now)
{
  auto place = find(known_, key, now);
  if (place == known_.end())
  {
    place = std::min_element(known_.begin(), known_.end(),
                             [](const Known& a, const Known& b) { return a.used != b.used ? b.used : a.at < b.at; });
    *place = { .local = key.local, .remote = key.remote, .used = true };
  }
  place->at = now;
  return *place;
}

void KnownSenders::learned(const FlowKey& key, int votes, Tick now)
{
  Known& one = of(key, now);
  one.votes = std::clamp(one.votes + votes, -at_most, at_most);
}

void KnownSenders::learned_sizes(const FlowKey& key, bool user_space, Tick now)
{
  of(key, now).user_space = user_space;
}

SenderKind KnownSenders::expected(const FlowKey& key, Tick now) const
{
  const auto found = find(known_, key, now);
  if (found == known_.end()) return SenderKind::unknown;
  if (found->user_space) return SenderKind::unresponsive;
  return found->votes <= -enough ? SenderKind::rate_based : SenderKind::unknown;
}

} // namespace tandem::flow
