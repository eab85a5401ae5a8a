#include "src/association/best_channel.h"

#include <algorithm>

namespace tandem::association
{
namespace
{

constexpr double clearly = 1.1;           // times the best one's goodput that another one needs to take its place
constexpr double nothing = 3000;          // bytes in a cycle: two packets; the access point has no more
constexpr double newest = 0.1;            // weight of the newest cycle
constexpr std::uint32_t worse_cycles = 5; // before a fall counts: TCP has its own
double rate(const BestChannel::Visit& visit)
{
  return visit.receiving > Duration {} ? visit.bytes / seconds(visit.receiving) : 0;
}

} // namespace

void BestChannel::begin(Stage stage)
{
  stage_ = stage;
  cycles_ = 0;
  sums_.clear();
}

BestChannel::Plan BestChannel::next(std::span<const Visit> visits)
{
  const std::vector<double> equal(visits.size(), 0.0);
  const std::vector<Duration> slots = channel_slots(equal, 0, config_.cycle); // with the checks
  if (visits.size() == 1) return { slots, { false }, "one channel" };
  ++cycles_;
  sums_.resize(visits.size());

  if (stage_ == Stage::compare)
  {
    // The first cycle after a stay brings what queues had: it does not count.
    for (std::size_t i = 0; i < visits.size() && cycles_ > 2; ++i)
    {
      sums_[i].bytes += visits[i].bytes;
      sums_[i].receiving += visits[i].receiving;
    }
    if (cycles_ < config_.compare + 2) return { slots, std::vector<bool>(visits.size(), false), "comparing channels" };
    const auto most = static_cast<std::size_t>(
        std::max_element(sums_.begin(), sums_.end(), [](const Visit& a, const Visit& b) { return rate(a) < rate(b); })
        - sums_.begin());
    const bool other =
        !found_ || best_ >= visits.size() || (most != best_ && rate(sums_[most]) > clearly * rate(sums_[best_]));
    stay_ = other ? config_.stay : std::min(2 * stay_, config_.longest_stay);
    if (other) best_ = most;
    found_ = true;
    known_ = rate(sums_[best_]);
    begin(Stage::drain);
    sums_.resize(visits.size());
  }
  else if (stage_ == Stage::drain)
  {
    double left = 0;
    for (std::size_t i = 0; i < visits.size(); ++i)
      if (i != best_) left += visits[i].bytes;
    if ((cycles_ > 2 && left < nothing) || cycles_ >= config_.drain) begin(Stage::stay);
  }
  else
  {
    const double now = rate(visits[best_]);
    if (now >= config_.much_worse * known_)
    {
      known_ += newest * (now - known_);
      sums_[best_] = {};
    }
    else
      sums_[best_].bytes += 1; // counts cycles here
    if (cycles_ >= stay_ || sums_[best_].bytes >= worse_cycles)
    {
      begin(Stage::compare);
      return { slots, std::vector<bool>(visits.size(), false), "comparing channels" };
    }
  }

  Plan plan { slots, std::vector<bool>(visits.size(), true), "emptying the other access points" };
  plan.backup[best_] = false;
  if (stage_ == Stage::stay)
  {
    std::fill(plan.slots.begin(), plan.slots.end(), Duration {});
    plan.slots[best_] = config_.cycle;
    plan.why = "staying on the best channel";
  }
  return plan;
}

} // namespace tandem::association
