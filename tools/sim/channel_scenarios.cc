#include "tools/sim/channel_scenarios.h"

#include "src/association/channel_slots.h"
#include "src/association/desync.h"
#include "tools/lab/medium/random.h"
#include "tools/sim/scenarios.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <numeric>

namespace tandem::sim
{
namespace
{

using nlohmann::json;
using namespace tandem::association;

constexpr double step_ms = 1;

// One client: where it is, and what it makes of what it gets.
class User
{
public:
  explicit User(const UsersRun& run, std::uint64_t seed) : run_(run), random_(seed) {}
  virtual ~User() = default;

  // The next step of 1 ms begins at `now` (ms).
  virtual void step(double now) = 0;
  // What this step brought, Mb/s; `capacity`: of the channel.
  virtual void got(double now, double mbps) = 0;

  std::size_t channel() const { return channel_; }
  bool receives(double now) const { return now >= deaf_until_; }

protected:
  double jitter() { return run_.jitter_least_ms + random_.uniform() * (run_.jitter_most_ms - run_.jitter_least_ms); }
  void change(double now, std::size_t channel)
  {
    if (channel != channel_) deaf_until_ = now + run_.cost_ms;
    channel_ = channel;
  }

  const UsersRun& run_;
  medium::Random random_;
  std::size_t channel_ = 0;

private:
  double deaf_until_ = 0;
};

// Equation 6: after every cycle the next one's slots by what each channel brought, each a few random ms longer.
class ByRule final : public User
{
public:
  ByRule(const UsersRun& run, std::uint64_t seed)
      : User(run, seed), order_(run.mbps.size()), bytes_(run.mbps.size()), time_(run.mbps.size())
  {
    std::iota(order_.begin(), order_.end(), std::size_t { 0 });
    plan();
    if (run.order != "same") shuffle();
    if (run.start == "slot") end_ = random_.uniform() * milliseconds(slots_[order_[0]]);
    if (run.start == "together") end_ = milliseconds(slots_[order_[0]]);
    if (run.start == "cycle")
    {
      at_ = static_cast<std::size_t>(random_.uniform() * static_cast<double>(order_.size()));
      end_ = random_.uniform() * milliseconds(slots_[order_[at_]]);
    }
    channel_ = order_[at_];
  }

  void step(double now) override
  {
    if (now < end_) return;
    if (++at_ == order_.size())
    {
      at_ = 0;
      plan();
      if (run_.order == "new") shuffle();
    }
    change(now, order_[at_]);
    end_ = now + milliseconds(slots_[order_[at_]]) + std::round(jitter());
  }
  void got(double, double mbps) override
  {
    bytes_[channel_] += mbps;
    time_[channel_] += 1;
  }

private:
  void plan()
  {
    std::vector<double> measured;
    for (std::size_t i = 0; i < bytes_.size(); ++i)
      measured.push_back(time_[i] > 0 ? bytes_[i] / time_[i] : 0);
    slots_ = channel_slots(measured, run_.alpha, from_seconds(run_.cycle_ms / 1e3));
    std::fill(bytes_.begin(), bytes_.end(), 0.0);
    std::fill(time_.begin(), time_.end(), 0.0);
  }
  void shuffle()
  {
    for (std::size_t left = order_.size(); left > 1; --left)
      std::swap(order_[left - 1], order_[static_cast<std::size_t>(random_.uniform() * static_cast<double>(left))]);
  }

  std::vector<std::size_t> order_; // of the channels
  std::size_t at_ = 0;             // place in it
  std::vector<double> bytes_, time_;
  std::vector<Duration> slots_;
  double end_ = 0;
};

class ByPhase final : public User
{
public:
  ByPhase(const UsersRun& run, std::uint64_t seed)
      : User(run, seed), shift_(static_cast<std::uint32_t>(run.mbps.size()), from_seconds(run.cycle_ms / 1e3)),
        pace_(1 + (2 * random_.uniform() - 1) * run.drift_ppm * 1e-6)
  {
    channel_ = static_cast<std::size_t>(random_.uniform() * static_cast<double>(run.mbps.size()));
    planned_ = random_.uniform() * milliseconds(shift_.slot());
    switch_ = planned_ + jitter();
  }

  void step(double now) override
  {
    if (now < switch_) return;
    const Duration later = shift_.slot_over(halves_[0], halves_[1]);
    halves_[0] = halves_[1] = {};
    change(now, (channel_ + 1) % run_.mbps.size());
    // The next one is planned from the plan, not from the late switch.
    planned_ += milliseconds(shift_.slot() + later) * pace_;
    middle_ = (now + planned_) / 2;
    switch_ = std::max(now + step_ms, planned_ + jitter());
  }
  void got(double now, double mbps) override
  {
    PhaseShift::Half& half = halves_[now < middle_ ? 0 : 1];
    half.bytes += mbps;
    half.time += from_seconds(step_ms / 1e3);
  }

private:
  PhaseShift shift_;
  double pace_;
  PhaseShift::Half halves_[2] {};
  double planned_ = 0, switch_ = 0, middle_ = 0;
};

class ByStaying final : public User
{
public:
  ByStaying(const UsersRun& run, std::uint64_t seed)
      : User(run, seed), move_(static_cast<std::uint32_t>(run.mbps.size()), seed)
  {
    channel_ = move_.channel();
    look_ = run.cycle_ms + jitter();
  }

  void step(double now) override
  {
    if (now < look_) return;
    const double share = time_ > 0 ? bytes_ / time_ / run_.mbps[channel_] : 0;
    bytes_ = time_ = 0;
    change(now, move_.look(share));
    look_ = now + run_.cycle_ms + jitter();
  }
  void got(double, double mbps) override
  {
    bytes_ += mbps;
    time_ += 1;
  }

private:
  StayOrMove move_;
  double bytes_ = 0, time_ = 0, look_ = 0;
};

std::unique_ptr<User> make_user(const UsersRun& run, std::uint64_t seed)
{
  if (run.rule == "phase-shift") return std::make_unique<ByPhase>(run, seed);
  if (run.rule == "stay-or-move") return std::make_unique<ByStaying>(run, seed);
  return std::make_unique<ByRule>(run, seed);
}

double optimum(const UsersRun& run)
{
  std::vector<double> best = run.mbps;
  std::sort(best.rbegin(), best.rend());
  best.resize(std::min<std::size_t>(best.size(), run.users));
  return std::accumulate(best.begin(), best.end(), 0.0);
}

} // namespace

json users(const UsersRun& run)
{
  if (run.mbps.empty() || *std::min_element(run.mbps.begin(), run.mbps.end()) <= 0)
    throw BadScenario("users: --mbps: a rate above 0 for each channel is needed");
  if (run.jitter_most_ms < run.jitter_least_ms) throw BadScenario("users: the largest jitter is below the least");
  if (run.warmup >= run.seconds) throw BadScenario("users: the warm-up leaves nothing to count");
  try
  {
    std::vector<std::unique_ptr<User>> all;
    std::vector<double> sum(run.users), arrival(run.users);
    for (unsigned i = 0; i < run.users; ++i)
    {
      all.push_back(make_user(run, run.seed * 1000 + i));
      arrival[i] = run.arrive_s * 1e3 * i / run.users;
    }
    for (double now = 0; now < run.seconds * 1e3; now += step_ms)
    {
      std::vector<unsigned> there(run.mbps.size());
      for (unsigned i = 0; i < run.users; ++i)
      {
        if (now < arrival[i]) continue;
        all[i]->step(now - arrival[i]);
        there[all[i]->channel()] += all[i]->receives(now - arrival[i]);
      }
      for (unsigned i = 0; i < run.users; ++i)
      {
        if (now < arrival[i]) continue;
        const std::size_t channel = all[i]->channel();
        const double own = all[i]->receives(now - arrival[i]) ? run.mbps[channel] / there[channel] : 0;
        all[i]->got(now - arrival[i], own);
        if (now >= run.warmup * 1e3) sum[i] += own;
      }
    }
    const double steps = (run.seconds - run.warmup) * 1e3 / step_ms;
    double total = 0, squares = 0;
    for (double& one : sum)
    {
      one /= steps;
      total += one;
      squares += one * one;
    }
    return { { "share", total / optimum(run) },
             { "mbps", sum },
             { "jain", squares > 0 ? total * total / (squares * run.users) : 0.0 } };
  }
  catch (const std::invalid_argument& error)
  {
    throw BadScenario(std::string("users: ") + error.what());
  }
}

} // namespace tandem::sim
