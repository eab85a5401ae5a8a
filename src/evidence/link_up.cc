#include "src/evidence/link_up.h"

#include <utility>

namespace tandem::evidence
{

void LinkUp::see(bool up, const std::string& access_point, Tick now)
{
  const bool was_up = std::exchange(up_, up);
  if (!up)
  {
    if (was_up) since_ = now;
    asking_ = false;
    return;
  }
  if (!was_up)
  {
    asking_ = true;
    long_enough_ = now - since_ >= shortest;
    since_ = now;
    kept_ = missed_ = false;
  }
  if (access_point != access_point_) asking_ = false;
  access_point_ = access_point;
}

void LinkUp::found(bool kept)
{
  (kept ? kept_ : missed_) = true;
}

std::optional<bool> LinkUp::due(Tick now)
{
  if (!asking_ || now - since_ < settles) return {};
  asking_ = false;
  if (access_point_.empty() || (!kept_ && !missed_) || (kept_ && !long_enough_)) return {};
  return kept_;
}

} // namespace tandem::evidence
