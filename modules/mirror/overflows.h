// What the losses of all flows on a link say of its queue, for those flows that have shown little of it themselves.
//
// A short queue overflows before any delay shows it. A download learns that from its answers; the six connections of a
// page end before, and each takes what it loses there for the air's (docs/results/drawn.md). But what a queue loses
// comes many at once as well, which the air's losses seldom do.
#pragma once

#include <tandem/module.h>

#include <array>
#include <cmath>
#include <cstddef>

namespace tandem::mirror
{

class Overflows
{
public:
  // An episode of losses that is no rest of another: so many at once that the air does not explain them, or not.
  void lost(Link link, bool at_once, const LinkStates& links, Tick now)
  {
    Seen& seen = seen_[static_cast<std::size_t>(link)] = faded(link, links, now);
    (at_once ? seen.at_once : seen.alone) += 1;
  }
  // Whether a third of what flows lose on this link, in these seconds and since it is up, is lost many at once: then a
  // queue loses most of it.
  bool usual(Link link, const LinkStates& links, Tick now) const
  {
    const Seen seen = faded(link, links, now);
    return seen.at_once >= enough && seen.alone <= most_alone * seen.at_once;
  }

private:
  // On networks of docs/results/drawn.md 0 to 0.2 came at once for one alone where the air loses, and 0.6 to 1.5 where
  // queues are short (bursts of the air: 0.8).
  static constexpr float most_alone = 2;
  static constexpr float enough = 3;
  static constexpr double memory = 20; // s, in which a count falls to 1/e

  struct Seen
  {
    float at_once = 0;
    float alone = 0;
    Tick at {};
  };

  Seen faded(Link link, const LinkStates& links, Tick now) const
  {
    const Seen& seen = seen_[static_cast<std::size_t>(link)];
    if (seen.at < links[static_cast<std::size_t>(link)].changed) return { .at = now };
    const auto left = static_cast<float>(std::exp(-seconds(now - seen.at) / memory));
    return { .at_once = seen.at_once * left, .alone = seen.alone * left, .at = now };
  }

  std::array<Seen, link_count> seen_ {};
};

} // namespace tandem::mirror
