#include "tools/lab/medium/rate_control.h"

#include <algorithm>

namespace tandem::medium
{

namespace
{
constexpr double kept = 0.75; // weight of the past in the EWMA
constexpr unsigned sample_every = 10;
constexpr unsigned attempts_per_stage = 2;
} // namespace

RateControl::RateControl(const Phy& phy, std::optional<unsigned> fixed, Random random)
    : stats_(phy.rates.size()), random_(random), fixed_(fixed.has_value())
{
  for (std::size_t i = 0; i < stats_.size(); ++i)
  {
    const PhyRate& rate = phy.rates[i];
    const Duration time = phy.difs() + static_cast<int>(phy.cw_min / 2) * phy.slot + phy.airtime(rate, phy.mpdu(1200))
                          + phy.sifs + phy.airtime(phy.response_rate(rate), mac_bytes::ack);
    stats_[i].airtime = seconds(time);
  }
  // Adaptive control starts in the middle, as drivers do, and learns from there.
  best_ = second_ = safest_ = fixed.value_or(static_cast<unsigned>(stats_.size() / 2));
  if (!fixed_) safest_ = 0;
  chain_.fill(best_);
}

void RateControl::update()
{
  for (auto& s : stats_)
  {
    if (s.sent == 0) continue;
    const double ratio = static_cast<double>(s.delivered) / s.sent;
    s.probability = s.seen ? kept * s.probability + (1 - kept) * ratio : ratio;
    s.seen = true;
    s.sent = s.delivered = 0;
  }
  const auto throughput = [this](unsigned i)
  {
    const double p = stats_[i].probability;
    return p < 0.1 ? 0.0 : std::min(p, 0.95) / stats_[i].airtime;
  };
  unsigned first = 0, second = 0, safest = 0;
  for (unsigned i = 1; i < stats_.size(); ++i)
  {
    if (throughput(i) > throughput(first))
    {
      second = first;
      first = i;
    }
    else if (second == first || throughput(i) > throughput(second))
      second = i;
    // Among rates that nearly always work the fastest is the safest choice; else the most probable.
    const bool both_good = stats_[i].probability >= 0.95 && stats_[safest].probability >= 0.95;
    if (both_good ? throughput(i) > throughput(safest) : stats_[i].probability > stats_[safest].probability) safest = i;
  }
  best_ = first;
  second_ = second;
  safest_ = safest;
}

void RateControl::begin_packet(Tick now)
{
  if (fixed_) return;
  if (now >= next_update_)
  {
    if (next_update_ != Tick {}) update();
    next_update_ = now + interval;
  }
  chain_ = { best_, second_, safest_, 0 };
  if (++packets_ % sample_every != 0) return;
  const unsigned sample = random_.up_to(static_cast<std::uint32_t>(stats_.size() - 1));
  if (sample == best_) return;
  // A slower sample is only tried when the best rate has failed: it cannot win much and costs air.
  if (stats_[sample].airtime > stats_[best_].airtime)
  {
    // A rate that even at 95 % success could not beat the present best is not worth a sample once it has been seen.
    if (stats_[sample].seen && 0.95 / stats_[sample].airtime < stats_[best_].probability / stats_[best_].airtime)
      return;
    chain_ = { best_, sample, safest_, 0 };
  }
  else
    chain_ = { sample, best_, safest_, 0 };
}

unsigned RateControl::rate(unsigned attempt) const
{
  if (fixed_) return best_;
  // A sample gets one attempt, so that a hopeless one costs little.
  if (chain_[0] != best_)
    return attempt == 0 ? chain_[0] : chain_[std::min<std::size_t>(1 + (attempt - 1) / attempts_per_stage, 3)];
  return chain_[std::min<std::size_t>(attempt / attempts_per_stage, 3)];
}

void RateControl::report(unsigned rate, unsigned sent, unsigned delivered)
{
  stats_[rate].sent += sent;
  stats_[rate].delivered += delivered;
}

} // namespace tandem::medium
