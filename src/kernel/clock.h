// The only place that reads a clock; everyone else is handed a Tick.
#pragma once

#include <tandem/units.h>

namespace tandem::kernel
{

// CLOCK_MONOTONIC. Stands still while the machine sleeps.
Tick now() noexcept;

// What to add to a Tick to get nanoseconds since the Unix epoch, read now (the wall clock may be stepped later).
Duration realtime_offset() noexcept;

// How long the machine has slept since it was started: CLOCK_BOOTTIME goes on meanwhile.
Duration time_asleep() noexcept;

} // namespace tandem::kernel
