// When an address by DHCP is asked for again, and when it is over. Pure.
//
// A Tick stands still while the machine sleeps; the server's clock does not.
#pragma once

#include <tandem/units.h>

namespace tandem::association
{

class LeaseTerm
{
public:
  // There is none yet, and it is asked for at once.
  explicit LeaseTerm(Tick now = {}) : ask_at_ { now } {}

  void granted(Duration lifetime, Tick now); // zero: for ever
  void unanswered(Tick now);
  // So long. Perhaps the network is another one now, too.
  void slept(Duration length, Tick now);

  bool due(Tick now) const { return now >= ask_at_; }
  // The address may be somebody else's. Never before one was granted.
  bool over(Tick now) const { return now >= end_; }

private:
  Tick ask_at_;
  Tick end_ = Tick::max();
};

} // namespace tandem::association
