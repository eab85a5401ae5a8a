// Foresees blackouts from the signal's level and slope. Pure; keeps the score of its own predictions and grows more
// careful with every wrong one.
//
// Frames are forged: anybody can send weak beacons in the access point's name. As long as most of what is heard in most
// bins is real, the curve is that of the real frames; else what a forger gains is one wrong prediction per back-off.
#pragma once

#include <tandem/units.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace tandem::links
{

struct RiskSettings
{
  double critical_dbm = -85;                            // below it, frames are not expected to arrive
  Duration horizon = std::chrono::milliseconds { 300 }; // how far ahead is looked
  double hysteresis_db = 3;                             // a warning ends above critical plus this
};

class RiskPredictor
{
public:
  explicit RiskPredictor(const RiskSettings& settings = {}) : settings_ { settings }, horizon_ { settings.horizon } {}

  // A frame of the access point was heard.
  void sample(double dbm, Tick at);
  // The link went down. A hit when a warning was out, or had been not longer than two horizons ago.
  void blackout(Tick now);
  // Another access point, or no source: what was heard counts no more. A warning is still judged by what comes of it.
  void forget();

  // Whether a blackout within the horizon is predicted.
  bool at_risk(Tick now);

  double level() const { return level_; } // dBm, as fitted; NaN-free: 0 when unknown
  double slope() const { return slope_; } // dB per second
  bool known(Tick now) const;             // enough fresh samples
  Duration horizon() const { return horizon_; }
  std::uint64_t hits() const { return hits_; }
  std::uint64_t misses() const { return misses_; }

private:
  static constexpr Duration bin = std::chrono::milliseconds { 50 };
  static constexpr std::size_t bins = 20; // a second
  // Kept of each, the newest: 1300 frames a second. Of more, whoever sends most of the newest is believed.
  static constexpr std::size_t kept = 64;

  struct Bin
  {
    std::int64_t number = -1; // of the time line cut into bins
    std::array<double, kept> heard {};
    std::size_t count = 0;
  };
  void fit(Tick now);

  RiskSettings settings_;
  std::array<Bin, bins> bins_ {};
  std::int64_t fitted_ = -1; // bin in which the line was last fitted
  std::size_t points_ = 0;
  double level_ = 0;
  double slope_ = 0;
  bool warned_ = false;
  bool judged_ = true; // the last warning came true or not
  Tick warned_at_ {};
  Tick back_off_until_ {};
  unsigned wrong_in_a_row_ = 0;
  Duration horizon_;
  std::uint64_t hits_ = 0;
  std::uint64_t misses_ = 0;
};

} // namespace tandem::links
