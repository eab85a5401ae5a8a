// How far the worse access points may be used: found by trying, judged by the goodput of all subflows together.
//
// Level 0 uses the good links alone, level 1 the best of the worse ones part of the time, level n + 1 the n best of the
// worse ones all the time. Where the worse links only waste air, level 0 wins; where a good access point's uplink is
// the bottleneck, more does. Nobody has to say which: the loop holds a level, tries another one for a second or two now
// and then, stays where the goodput is better, and asks the less often the clearer the answers were. Pure.
#pragma once

#include <tandem/link.h>
#include <tandem/units.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace tandem::ecn
{

struct LoopSettings
{
  Duration settle = std::chrono::milliseconds { 500 }; // after a change, before its effect is measured
  Duration measure = std::chrono::seconds { 1 };
  double gain = 0.05; // goodput that a level must bring over a lower one
  double full = 0.75; // share of busy air from which on it counts as full: between frames it is idle

  Duration retry = std::chrono::seconds { 10 }; // until a level that lost is tried again; doubles
  Duration retry_most = std::chrono::seconds { 160 };
};

// What the loop sees, at every look.
struct Look
{
  std::uint64_t delivered = 0;   // bytes, all subflows on all links, since start
  double capacity = 0;           // bytes per second of the best link, alone on its air; 0 = not known
  double spare = 0;              // likewise of the best of the worse links
  Duration rtt {};               // longest smoothed round-trip time of the subflows
  Duration rtt_least {};         // longest of their least ones
  std::optional<double> busy {}; // share of time in which the channel is in use by anybody
  std::size_t first = 0;         // level to begin with
  std::size_t levels = 1;        // how many there are
  bool changed = false;          // other links, or another order
};

class Loop
{
public:
  void look(const Look& look, Tick now, const LoopSettings& settings);
  std::size_t level() const { return trial_ ? *trial_ : level_; }
  bool trying() const { return trial_.has_value(); }
  double goodput() const { return goodput_; } // bytes per second, over the last second or so
  std::uint64_t trials() const { return trials_; }
  std::uint64_t moves() const { return moves_; } // trials that won

  static constexpr std::size_t most_levels = most_wifi + 2; // one is good: 0, 1, each of the others, and marks

private:
  struct Sample
  {
    Tick at {};
    std::uint64_t delivered = 0;
  };
  struct Record
  {
    Tick next {};      // not tried before
    Duration pause {}; // after the next loss
  };

  double rate(Tick from) const;
  double rate(Tick from, Tick to) const;
  bool rising(Tick now, Duration over) const;
  static double most_gain(double goodput, const Look& look, const LoopSettings& settings);
  void begin(std::size_t level, const Look& look, double reference, Tick now, const LoopSettings& settings);
  void restart(const Look& look, Tick now, const LoopSettings& settings);
  void judge(const Look& look, Tick settled, Tick now, const LoopSettings& settings);
  void consider(const Look& look, Tick settled, Tick now, const LoopSettings& settings);
  void decide(bool won, Tick now, const LoopSettings& settings);
  void forget(Tick now, const LoopSettings& settings);
  std::optional<std::size_t> due(const Look& look, Tick now) const;

  std::array<Sample, 64> samples_ {}; // a ring
  std::size_t count_ = 0;
  std::size_t level_ = 0;
  Tick since_ {}; // of level_
  std::optional<std::size_t> trial_ {};
  Tick trial_from_ {};
  Duration settle_ {};   // of the trial, or of the level after it
  double reference_ = 0; // goodput just before
  std::array<Record, most_levels> records_ {};
  double goodput_ = 0;
  double usual_ = 0; // goodput over many seconds at this level
  double best_ = 0;  // of the last minute or so, at any
  // Its highest values in this span of time and in the one before: a download dips now and then by itself.
  std::array<double, 2> peaks_ {};
  Tick peaks_from_ {};
  Tick reset_at_ {};
  std::uint64_t trials_ = 0, moves_ = 0;
};

} // namespace tandem::ecn
