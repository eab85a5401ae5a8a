#include "tests/golden/harness/server.h"

#include <algorithm>

namespace tandem::test
{

void Server::send(Tick now, Link by, Seq ack, TsClock value)
{
  const Path& path = paths[static_cast<std::size_t>(by)];
  Tick& free_at = free_at_[static_cast<std::size_t>(by)];
  free_at = std::max(free_at, now) + path.spacing;
  if (path.delivers) flying_.push_back({ free_at + path.delay, order_++, ack, value });
}

TsClock Server::echo(Tick when)
{
  std::sort(flying_.begin(), flying_.end(),
            [](const Flying& a, const Flying& b) { return a.at != b.at ? a.at < b.at : a.order < b.order; });
  const auto end = std::find_if(flying_.begin(), flying_.end(), [&](const Flying& f) { return f.at > when; });
  for (auto at = flying_.begin(); at != end; ++at)
  {
    if (any_ && recent_ - at->value > paws_window)
    {
      ++rejected;
      continue;
    }
    ++taken;
    if (!any_ || at->value.after(recent_)) recent_ = at->value;
    acknowledged = any_ ? later(acknowledged, at->ack) : at->ack;
    any_ = true;
  }
  flying_.erase(flying_.begin(), end);
  return recent_;
}

} // namespace tandem::test
