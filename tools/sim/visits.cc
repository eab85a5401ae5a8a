#include "tools/sim/visits.h"

#include "tools/sim/card.h"
#include "tools/sim/scenarios.h"
#include "tools/sim/transfer.h"

#include <chrono>

namespace tandem::sim
{

using namespace std::chrono_literals;

nlohmann::json visits(const VisitsRun& run)
{
  if (run.warmup >= run.seconds) throw BadScenario("visits: the warm-up leaves nothing to count");
  if (!(run.on_ms > run.cost_ms))
    throw BadScenario("visits: --on must be above --cost, which is what a switch takes of it");
  World world(run.seed);
  // Elsewhere is a second channel, on which nobody has anything for us.
  const bool leaves = run.off_ms > 0;
  const std::vector<Duration> slots { from_seconds(run.on_ms / 1e3), from_seconds(run.off_ms / 1e3) };
  Card card(world, std::vector<double>(leaves ? 2 : 1, run.mbps), from_seconds(run.cost_ms / 1e3), run.buffer,
            [=](const std::vector<Card::Visit>& seen)
            { return std::vector<Duration>(slots.begin(), slots.begin() + static_cast<std::ptrdiff_t>(seen.size())); });
  const auto wan = [&](double loss)
  {
    medium::PipeConfig config { .delay = from_seconds(run.delay_ms / 2e3), .queue_packets = 100'000 };
    config.loss.random = loss;
    return config;
  };
  Wire down(world, wan(run.loss)), up(world, wan(0));
  TransferConfig config;
  config.sender.algorithm = run.cc == "cubic" ? Algorithm::cubic : Algorithm::reno;
  Transfer transfer(world, config);
  transfer.add({ .down = { &down, &card.down(0) }, .up = { &card.up(0), &up } }, Tick {});
  world.loop.run_until(Tick {} + from_seconds(run.warmup));
  const Sender& sender = *transfer.subflow(0).sender;
  const auto delivered = transfer.delivered();
  const auto acked = sender.window().acked;
  const Sender::Stats before = sender.stats();
  // Little's law, as the bench rtt-model measures kernel TCP: what is under way on average, by what is acknowledged in
  // a second. Looks must not keep step with a period.
  constexpr Duration look = 1700us;
  double sum = 0, looks = 0;
  for (Tick at = world.now() + look; at < Tick {} + from_seconds(run.seconds); at += look, ++looks)
  {
    world.loop.run_until(at);
    sum += static_cast<double>(sender.in_flight());
  }
  const double span = seconds(world.now().time_since_epoch()) - run.warmup;
  const double rate = static_cast<double>(sender.window().acked - acked) / span, under_way = sum / looks;
  return { { "mbps", static_cast<double>(transfer.delivered() - delivered) * 8e-6 / span },
           { "rtt_ms", rate > 0 ? 1e3 * under_way / rate : 0 },
           { "under_way", under_way },
           { "retransmissions", sender.stats().retransmissions - before.retransmissions },
           { "timeouts", sender.stats().timeouts - before.timeouts } };
}

} // namespace tandem::sim
