// How long a slot plan takes: Google Benchmark's own options, e.g. --benchmark_format=json.
#include "modules/rate/delay_aware.h"

#include <benchmark/benchmark.h>

#include <cstdint>
#include <vector>

namespace
{

using namespace tandem::rate;
using namespace std::chrono_literals;

// Duty cycles from 1 to `spread` times the least one, rising evenly.
std::vector<double> duty_cycles(std::size_t stations, double spread)
{
  std::vector<double> duty;
  double sum = 0;
  for (std::size_t i = 0; i < stations; ++i)
  {
    const double place = stations > 1 ? static_cast<double>(i) / static_cast<double>(stations - 1) : 0;
    duty.push_back(1 + (spread - 1) * place);
    sum += duty.back();
  }
  for (double& share : duty)
    share /= sum;
  return duty;
}

void plan(benchmark::State& state)
{
  const std::vector<double> duty =
      duty_cycles(static_cast<std::size_t>(state.range(0)), static_cast<double>(state.range(1)));
  std::vector<double> delays;
  for (std::size_t i = 0; i < duty.size(); ++i)
    delays.push_back(0.01 + 0.01 * static_cast<double>(i * 7 % 13));
  std::uint32_t slots = 0;
  for (auto _ : state)
  {
    const Slots divided = divide(duty, 10ms);
    slots = divided.total();
    benchmark::DoNotOptimize(DelayAware(delays).allocate(divided));
  }
  state.counters["slots"] = slots;
}
BENCHMARK(plan)
    ->ArgNames({ "aps", "spread" })
    ->ArgsProduct({ { 2, 3, 5, 8, 16 }, { 1, 3, 8 } })
    ->Unit(benchmark::kMicrosecond);

} // namespace

BENCHMARK_MAIN();
