#include "src/association/lease_term.h"

#include <chrono>

namespace tandem::association
{

void LeaseTerm::granted(Duration lifetime, Tick now)
{
  const bool ends = lifetime > Duration {};
  // RFC 2131, 4.4.5: half of the lease.
  ask_at_ = ends ? now + lifetime / 2 : Tick::max();
  end_ = ends ? now + lifetime : Tick::max();
}

void LeaseTerm::unanswered(Tick now)
{
  constexpr Duration pause = std::chrono::seconds { 10 };
  ask_at_ = now + pause;
}

void LeaseTerm::slept(Duration length, Tick now)
{
  ask_at_ = now;
  if (end_ != Tick::max()) end_ -= length;
}

} // namespace tandem::association
