#include "tools/sim/slot_scenarios.h"

#include "modules/rate/blind.h"
#include "modules/rate/delay_aware.h"
#include "modules/rate/min_max.h"
#include "modules/rate/no_policy.h"
#include "tools/sim/scenarios.h"

#include <cmath>
#include <map>
#include <memory>

namespace tandem::sim
{
namespace
{

using nlohmann::json;
using namespace tandem::rate;

constexpr double to_mbps = 8e-6;

// The same schedule comes again and again in a search through all allocations, only turned: its round-trip time is
// kept.
RttModel remembered(const RttModel& model)
{
  using Key = std::vector<std::int64_t>;
  return [model, known = std::make_shared<std::map<Key, double>>()](const Schedule& schedule, double delay)
  {
    const auto connections = schedule.connections();
    const std::size_t count = connections.size();
    Key least;
    for (std::size_t first = 0; first < count; ++first)
    {
      Key key { std::llround(delay * 1e9) };
      for (std::size_t i = 0; i < count; ++i)
      {
        const Connection& one = connections[(first + i) % count];
        const double next = connections[(first + i + 1) % count].begin;
        const double away = next - one.begin;
        key.push_back(std::llround(one.length() * 1e8));
        key.push_back(std::llround((away <= 0 ? away + schedule.period() : away) * 1e8));
      }
      if (least.empty() || key < least) least = std::move(key);
    }
    const auto [at, fresh] = known->try_emplace(least, 0.0);
    if (fresh) at->second = model(schedule, delay);
    return at->second;
  };
}

std::unique_ptr<Allocator> strategy(const std::string& name, const std::vector<double>& delays, const RttModel& model)
{
  if (name == "no-policy") return std::make_unique<NoPolicy>();
  if (name == "min-max") return std::make_unique<MinMax>();
  if (name == "blind") return std::make_unique<Blind>();
  if (name == "upper-bound") return std::make_unique<UpperBound>(delays, model);
  return std::make_unique<DelayAware>(delays, model);
}

ModelSettings settings_of(const SlotRun& run)
{
  return { .mean_share = run.mean_share, .air_time = run.air_ms / 1e3 };
}

// Mean round-trip time of each station, s: drawn as published, or expected.
std::vector<double> evaluated(const SlotRun& run, const Slots& slots, const Allocation& order,
                              const std::vector<double>& delays, const RttModel& model)
{
  std::vector<double> rtts;
  for (std::size_t i = 0; i < delays.size(); ++i)
  {
    const Schedule schedule(slots, order, static_cast<Station>(i));
    if (run.model == "published" && run.samples > 0)
      rtts.push_back(mean(sampled_rtts(schedule, delays[i], run.samples, run.seed * 1000 + i, settings_of(run))));
    else
      rtts.push_back(model(schedule, delays[i]));
  }
  return rtts;
}

double throughput(const std::vector<double>& rtts, double loss)
{
  double sum = 0;
  for (const double rtt : rtts)
    sum += mathis(published_mss, rtt, loss) * to_mbps;
  return sum;
}

std::string text(const Allocation& order)
{
  std::string made;
  for (const Station station : order)
    made += (made.empty() ? "" : " ") + std::to_string(station + 1);
  return made;
}

json point(const SlotRun& run, const Slots& slots, double delay_ms, const RttModel& model)
{
  std::vector<double> delays;
  for (std::size_t i = 0; i < slots.stations(); ++i)
    delays.push_back((delay_ms + (run.more_ms.empty() ? 0 : run.more_ms[i])) / 1e3);
  const double unit = mathis(published_mss, 1, run.loss) * to_mbps;

  const Allocated made = strategy(run.strategy, delays, model)->allocate(slots);
  const std::vector<double> rtts = evaluated(run, slots, made.slots, delays, model);
  const Allocation plain = NoPolicy().allocate(slots).slots;
  json told { { "delay_ms", delay_ms },
              { "order", text(made.slots) },
              { "searches", made.searches },
              { "mbps", throughput(rtts, run.loss) },
              { "no_policy_mbps", throughput(evaluated(run, slots, plain, delays, model), run.loss) },
              { "expected_mbps", unit * aggregate(slots, made.slots, delays, model) } };
  if (run.bound)
    told["bound_mbps"] = unit * aggregate(slots, UpperBound(delays, model).allocate(slots).slots, delays, model);
  for (std::size_t i = 0; i < slots.stations(); ++i)
  {
    told["rtt_ms"].push_back(rtts[i] * 1e3);
    told["disconnection_ms"].push_back(milliseconds(longest_disconnection(slots, made.slots, static_cast<Station>(i))));
  }
  return told;
}

} // namespace

json slots(const SlotRun& run)
{
  try
  {
    if (!run.more_ms.empty() && run.more_ms.size() != run.duty.size())
      throw BadInput("--more has " + std::to_string(run.more_ms.size()) + " delays for "
                     + std::to_string(run.duty.size()) + " duty cycles; one for each is needed");
    const Slots made = divide(run.duty, from_seconds(run.slot_ms / 1e3), from_seconds(run.longest_ms / 1e3));
    const RttModel model = remembered(
        run.model == "self-clocked"
            ? RttModel([](const Schedule& schedule, double delay) { return self_clocked_rtt(schedule, delay); })
            : RttModel([settings = settings_of(run)](const Schedule& schedule, double delay)
                       { return expected_rtt(schedule, delay, settings); }));
    json result { { "period_ms", milliseconds(made.period) }, { "slots", made.count } };
    for (const Duration length : made.length)
      result["lengths_ms"].push_back(milliseconds(length));
    for (const double delay : run.delays_ms)
      result["points"].push_back(point(run, made, delay, model));
    return result;
  }
  catch (const BadInput& error)
  {
    throw BadScenario(std::string("slots: ") + error.what());
  }
}

json rtts(const RttRun& run)
{
  try
  {
    const Schedule schedule(from_seconds(run.on_ms / 1e3), from_seconds(run.off_ms / 1e3));
    json result;
    for (const double delay_ms : run.delays_ms)
    {
      const double delay = delay_ms / 1e3;
      const ModelSettings published { .mean_share = run.mean_share, .air_time = run.air_ms / 1e3 };
      const double drawn = run.samples > 0 ? mean(sampled_rtts(schedule, delay, run.samples, run.seed, published))
                                           : expected_rtt(schedule, delay, published);
      const double clocked = self_clocked_rtt(schedule, delay, { .window = run.window, .air_time = run.air_ms / 1e3 });
      result["points"].push_back({ { "delay_ms", delay_ms },
                                   { "published_ms", drawn * 1e3 },
                                   { "self_clocked_ms", clocked * 1e3 },
                                   { "published_mbps", mathis(published_mss, drawn, measured_loss) * to_mbps },
                                   { "self_clocked_mbps", mathis(published_mss, clocked, measured_loss) * to_mbps } });
    }
    return result;
  }
  catch (const BadInput& error)
  {
    throw BadScenario(std::string("rtts: ") + error.what());
  }
}

} // namespace tandem::sim
