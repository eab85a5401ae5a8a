// Tells when the machine has slept, without looking at a clock again and again.
#pragma once

#include "src/kernel/fd.h"

#include <tandem/units.h>

namespace tandem::kernel
{

class SleepWatch
{
public:
  // Throws std::system_error.
  SleepWatch();

  // Readable once the machine is awake again, and whenever somebody has set the wall clock.
  int fd() const { return timer_.get(); }
  // How long the machine has slept since this was asked last; zero: the clock was set, no more. Call it when fd() is
  // readable.
  Duration slept();

private:
  void arm();

  Fd timer_;
  Duration asleep_; // in all, as it was when it was looked at last
};

} // namespace tandem::kernel
