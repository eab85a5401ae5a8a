// One-way delay of arriving data from the server's timestamps: how much of it is queueing.
#pragma once

#include <tandem/seq.h>
#include <tandem/units.h>

#include <algorithm>
#include <array>
#include <cstdint>

namespace tandem::mirror
{

// The server's TSval against this host's clock. Neither the offset of the two clocks nor the length of the server's
// tick is known (RFC 7323 5.4 allows 1 ms to 1 s; Linux ticks in 1 ms, or 1 us with tcp_usec_ts): the tick is found
// from the pace of TSval, the offset falls out, because only differences to the smallest delay of the last seconds
// count (as in RFC 6817, LEDBAT).
class DelayMeter
{
public:
  // A segment with `value` arrived. Retransmissions and reordered segments are welcome: their TSval is that of their
  // sending. False when it is farther ahead than any path allows: the copy is damaged, or the server's clock was set,
  // which the next one tells; what comes after that one is measured anew.
  bool arrived(TsClock value, Tick now);

  bool known() const { return tick_ > 0; }
  // Seconds that one unit of TSval lasts; 0 while unknown.
  double tick() const { return static_cast<double>(tick_); }
  // Of the newest sample: seconds above the floor.
  double queued() const { return known() ? static_cast<double>(latest_ - floor()) : 0; }
  // The most that was queued within the last few milliseconds: what the packets on both sides of a fresh hole met.
  double peak() const { return known() ? static_cast<double>(std::max(peak_now_, peak_before_) - floor()) : 0; }
  // The most that stood in the queue in the last quarter of a minute, in seconds: for some milliseconds, so that a
  // moment in which this host stalled does not count.
  double top() const;
  // And in the last few seconds.
  double recent() const;

private:
  // Of each of the last spans of time the most that stood there.
  static constexpr std::size_t spans = 8;
  float floor() const;
  void find_tick(TsClock value, std::int32_t passed, Tick now);
  void note_peak(Tick now);
  void note_fall(Tick now);
  void begin_anew(bool doubted);

  Tick epoch_ {};
  Tick turn_ {};
  Tick peak_turn_ {};
  TsClock origin_ {};
  float tick_ = 0;
  float latest_ = 0; // s, of arbitrary offset
  float floor_now_ = 0, floor_before_ = 0;
  float peak_now_ = 0, peak_before_ = 0;
  float low_ = 0;            // the least of the last few milliseconds
  std::uint8_t samples_ = 0; // in them
  std::uint8_t span_ = 0;    // the one that is filled now
  std::uint8_t falls_ = 0;   // spans in a row in which delays fell as those of a clock do that is faster than its tick
  bool doubted_ : 1 = false; // the tick was none of the usual ones before: the next one must be one exactly
  bool leapt_ : 1 = false;   // the last value was too far ahead
  std::uint8_t looks_ : 3 = 0; // in vain, at a clock that was doubted
  float floor_then_ = 0;       // when the span began
  Tick span_turn_ {};
  std::array<float, spans> tops_ {};
};

} // namespace tandem::mirror
