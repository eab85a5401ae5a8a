#include "tools/sim/variation.h"

#include <cmath>

namespace tandem::sim
{

Variation::Variation(Loop& loop, const Config& config, std::uint64_t seed, std::uint64_t number)
    : loop_(loop), config_(config), random_(seed, 0x7a000000u + number), since_(loop.now()),
      timer_(loop, [this] { change(); })
{
  // Inverted, since the draw turns it.
  bad_ = !random_.chance(config.bad_s / (config.good_s + config.bad_s));
  draw();
}

void Variation::draw()
{
  double ms = 0, hold = 0;
  if (config_.how == Config::How::two_state)
  {
    bad_ = !bad_;
    ms = bad_ ? config_.bad_ms : config_.good_ms;
    hold = bad_ ? config_.bad_s : config_.good_s;
  }
  else
  {
    ms = config_.median_ms * std::exp(config_.sigma * random_.normal());
    hold = config_.hold_s;
  }
  packet_time_ = from_seconds(ms / 1e3);
  timer_.set(loop_.now() + from_seconds(random_.exponential(hold)));
}

void Variation::change()
{
  integral_ = integral(loop_.now());
  since_ = loop_.now();
  draw();
  for (const auto& changed : followers_)
    changed();
}

} // namespace tandem::sim
