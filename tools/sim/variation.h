// Packet times that change: a way to an access point that is good for a while, and bad for another.
#pragma once

#include "tools/lab/medium/random.h"
#include "tools/sim/loop.h"

#include <cstdint>
#include <functional>
#include <vector>

namespace tandem::sim
{

// A packet time that is constant for an exponentially distributed while, then another. Stationary from the first moment
// on. Drawn from the seed and the number of the variation alone: whatever else happens, it takes the same course.
class Variation
{
public:
  struct Config
  {
    enum class How : std::uint8_t
    {
      two_state,  // good and bad in turn, each with a mean time of its own
      log_normal, // a new draw each time, whatever was before
    } how = How::two_state;
    double good_ms = 0.5, bad_ms = 5;
    double good_s = 30, bad_s = 5; // mean times
    double median_ms = 0.5, sigma = 1, hold_s = 5;
  };

  // `number`: of the variation in the simulation.
  Variation(Loop& loop, const Config& config, std::uint64_t seed, std::uint64_t number);
  Duration now() const { return packet_time_; }
  // Packet times summed up over time, s * s: the difference by the time between is the mean.
  double integral(Tick at) const { return integral_ + seconds(packet_time_) * seconds(at - since_); }
  // Called with every change.
  void follow(std::function<void()> changed) { followers_.push_back(std::move(changed)); }

private:
  void draw();
  void change();

  Loop& loop_;
  Config config_;
  medium::Random random_;
  bool bad_ = false;
  Duration packet_time_ {};
  double integral_ = 0;
  Tick since_ {};
  std::vector<std::function<void()>> followers_;
  Timer timer_;
};

} // namespace tandem::sim
