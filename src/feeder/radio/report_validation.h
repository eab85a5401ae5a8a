// What a driver reports is validated first: values that cannot be are taken out, and what was rejected is
// counted with the reason. Pure.
#pragma once

#include "src/feeder/radio/report.h"

#include <tandem/units.h>

#include <array>
#include <cstdint>
#include <string_view>

namespace tandem::feeder
{

enum class Doubt : std::uint8_t
{
  clock_jump,      // the time of a report lies before the one before it, or ahead of now
  impossible_rate, // not between 1 and 50,000 Mb/s
  impossible_signal,
  impossible_frequency,
  impossible_time, // an interval that is negative or endless
  constant_signal, // a hundred frames, or polls between which some came, and a minute, with the very same signal: it
                   // is not measured
};
constexpr std::size_t doubt_count = 6;

constexpr std::string_view name(Doubt doubt)
{
  constexpr std::string_view names[] = { "clock jump",           "impossible rate", "impossible signal",
                                         "impossible frequency", "impossible time", "constant signal" };
  return names[static_cast<std::size_t>(doubt)];
}

class ReportValidation
{
public:
  // Takes the impossible out of the report and puts its time right. True when the clock jumped: what was learned over
  // time before it is void.
  bool examine(Report& report, Tick now);
  // The signal changes, as measured ones do. Until enough was seen they are taken to.
  bool signal_varies() const { return !constant_; }
  const std::array<std::uint64_t, doubt_count>& counts() const { return counts_; }

private:
  void doubt(Doubt what) { ++counts_[static_cast<std::size_t>(what)]; }
  template <class T>
  void bound(std::optional<T>& value, T least, T most, Doubt what);
  void watch_signal(float signal, Tick at);

  std::array<std::uint64_t, doubt_count> counts_ {};
  Tick last_ {};
  std::optional<std::uint32_t> packets_ {}; // that the driver had received
  float signal_ = 0;
  Tick same_since_ {};
  unsigned same_ = 0;
  bool constant_ = false;
};

} // namespace tandem::feeder
