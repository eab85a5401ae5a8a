#include "tools/sim/rate_commands.h"

#include "tools/sim/channel_scenarios.h"
#include "tools/sim/handoff_scenario.h"
#include "tools/sim/slot_scenarios.h"
#include "tools/sim/visits.h"

#include <memory>

namespace tandem::sim
{
namespace
{

const CLI::Range some_ms(0.0, 60'000.0);

template <class Run>
void add_clock(CLI::App& own, Run& run)
{
  own.add_option("--seconds", run.seconds, "virtual time")->check(CLI::Range(0.1, 1e5));
  own.add_option("--warmup", run.warmup, "not counted, s")->check(CLI::Range(0.0, 1e5));
  own.add_option("--seed", run.seed, "seed");
}

void add_slots(CLI::App& app, nlohmann::json& result)
{
  auto run = std::make_shared<SlotRun>();
  CLI::App* own =
      app.add_subcommand("slots", "a slot plan for several access points by one card, and what TCP gets by it");
  own->add_option("--duty", run->duty, "share of the time for each access point, together 1")->delimiter(',');
  own->add_option("--slot", run->slot_ms, "least length of a slot, ms");
  own->add_option("--longest", run->longest_ms, "longest period that is allowed, ms; 0 = any")->check(some_ms);
  own->add_option("--delays", run->delays_ms, "end-to-end wired delays, ms: a result for each")->delimiter(',');
  own->add_option("--more", run->more_ms, "what is added to it for each access point, ms")->delimiter(',');
  own->add_option("--strategy", run->strategy, "how the slots are ordered")
      ->check(CLI::IsMember({ "no-policy", "min-max", "blind", "delay-aware", "upper-bound" }));
  own->add_option("--model", run->model, "of the round-trip time")
      ->check(CLI::IsMember({ "published", "self-clocked" }));
  own->add_option("--mean-share", run->mean_share,
                  "published: mean time of ACKs behind the begin of a connection, in its lengths")
      ->check(CLI::Range(0.01, 1e3));
  own->add_option(
         "--air", run->air_ms,
         "published: data of an ACK that comes less than this before the end waits for the next connection, ms")
      ->check(some_ms);
  own->add_option("--samples", run->samples, "published: round-trip times drawn; 0 = their expectation")
      ->check(CLI::Range(0u, 10'000'000u));
  own->add_option("--loss", run->loss, "congestion signals per packet")->check(CLI::Range(1e-6, 0.5));
  own->add_option("--bound", run->bound, "say what the best of all allocations reaches");
  own->add_option("--seed", run->seed, "seed");
  own->callback([run, &result] { result = slots(*run); });
}

void add_rtts(CLI::App& app, nlohmann::json& result)
{
  auto run = std::make_shared<RttRun>();
  CLI::App* own = app.add_subcommand("rtts", "TCP's round-trip time over a card that comes and goes, by both models");
  own->add_option("--on", run->on_ms, "connection, ms")->check(some_ms);
  own->add_option("--off", run->off_ms, "disconnection, ms")->check(some_ms);
  own->add_option("--delays", run->delays_ms, "end-to-end wired delays, ms: a result for each")->delimiter(',');
  own->add_option("--mean-share", run->mean_share,
                  "published: mean time of ACKs behind the begin of a connection, in its lengths")
      ->check(CLI::Range(0.01, 1e3));
  own->add_option("--window", run->window, "self-clocked: packets in flight")->check(CLI::Range(1.0, 1e6));
  own->add_option("--air", run->air_ms, "time of a packet on the air, ms")->check(some_ms);
  own->add_option("--samples", run->samples, "published: round-trip times drawn; 0 = their expectation")
      ->check(CLI::Range(0u, 10'000'000u));
  own->add_option("--seed", run->seed, "seed");
  own->callback([run, &result] { result = rtts(*run); });
}

void add_visits(CLI::App& app, nlohmann::json& result)
{
  auto run = std::make_shared<VisitsRun>();
  CLI::App* own = app.add_subcommand("visits", "one TCP download over a card that comes and goes, packet by packet");
  own->add_option("--on", run->on_ms, "connection in each wireless period, ms")->check(some_ms);
  own->add_option("--off", run->off_ms, "disconnection, ms; 0 = never away")->check(some_ms);
  own->add_option("--delay", run->delay_ms, "end-to-end wired delay, ms")->check(some_ms);
  own->add_option("--mbps", run->mbps, "what the air carries, each way")->check(CLI::Range(0.1, 1e4));
  own->add_option("--cost", run->cost_ms, "of a switch, ms of the connection")->check(CLI::Range(0.0, 100.0));
  own->add_option("--loss", run->loss, "congestion signals per packet")->check(CLI::Range(0.0, 0.5));
  own->add_option("--cc", run->cc, "congestion control")->check(CLI::IsMember({ "reno", "cubic" }));
  own->add_option("--buffer", run->buffer, "packets at the access point")->check(CLI::Range(1u, 100'000u));
  add_clock(*own, *run);
  own->callback([run, &result] { result = visits(*run); });
}

void add_users(CLI::App& app, nlohmann::json& result)
{
  auto run = std::make_shared<UsersRun>();
  CLI::App* own = app.add_subcommand("users", "clients that switch between channels, in steps of 1 ms");
  own->add_option("--users", run->users, "how many")->check(CLI::Range(1u, 1000u));
  own->add_option("--mbps", run->mbps, "rate of each channel")->delimiter(',');
  own->add_option("--rule", run->rule, "how they switch")
      ->check(CLI::IsMember({ "published", "phase-shift", "stay-or-move" }));
  own->add_option("--alpha", run->alpha, "published: of equation 6")->check(CLI::Range(0.0, 100.0));
  own->add_option("--cycle", run->cycle_ms, "C, ms: at most 200");
  own->add_option("--order", run->order, "published: in which order channels are visited")
      ->check(CLI::IsMember({ "same", "each", "new" }));
  own->add_option("--start", run->start, "published: where users begin")
      ->check(CLI::IsMember({ "slot", "cycle", "together" }));
  own->add_option("--jitter-least", run->jitter_least_ms, "a switch is at least so late, ms")
      ->check(CLI::Range(0.0, 100.0));
  own->add_option("--jitter-most", run->jitter_most_ms, "and at most, ms")->check(CLI::Range(0.0, 100.0));
  own->add_option("--cost", run->cost_ms, "time without reception at each switch, ms")->check(CLI::Range(0.0, 100.0));
  own->add_option("--drift", run->drift_ppm, "phase-shift: error of clocks, ppm")->check(CLI::Range(0.0, 1e5));
  own->add_option("--arrive", run->arrive_s, "users come evenly spread over so long, s")->check(CLI::Range(0.0, 1e5));
  add_clock(*own, *run);
  own->callback([run, &result] { result = users(*run); });
}

void add_switching(CLI::App& app, nlohmann::json& result)
{
  auto run = std::make_shared<SwitchingRun>();
  CLI::App* own = app.add_subcommand("switching", "one download over access points on different channels, by one card");
  own->add_option("--mbps", run->mbps, "rate of each channel; one: plain TCP without switching")->delimiter(',');
  own->add_option("--rule", run->rule, "how the card switches")->check(CLI::IsMember({ "published", "best-channel" }));
  own->add_option("--alpha", run->alpha, "published: of equation 6")->check(CLI::Range(0.0, 100.0));
  own->add_option("--cycle", run->cycle_ms, "C, ms: at most 200");
  own->add_option("--interval", run->interval, "published: cycles between two changes of the slots")
      ->check(CLI::Range(1u, 1000u));
  own->add_option("--least", run->least_ms, "least slot, ms");
  own->add_option("--cost", run->cost_ms, "of a switch, ms")->check(CLI::Range(0.0, 100.0));
  own->add_option("--cc", run->cc, "congestion control")->check(CLI::IsMember({ "reno", "cubic", "lia", "olia" }));
  own->add_option("--rtt", run->rtt_ms, "round-trip time without queues, ms")->check(CLI::Range(0.0, 1e4));
  own->add_option("--buffer", run->buffer, "packets at each access point")->check(CLI::Range(1u, 100'000u));
  own->add_option("--receive-buffer", run->receive_buffer, "bytes")->check(CLI::Range(1e4, 1e12));
  add_clock(*own, *run);
  own->callback([run, &result] { result = switching(*run); });
}

void add_handoff(CLI::App& app, nlohmann::json& result)
{
  auto run = std::make_shared<HandoffRun>();
  CLI::App* own = app.add_subcommand("handoff", "a walk past access points while data is sent by Wi-Fi and cellular");
  own->add_option("--arm", run->arm,
                  "uncoupled, coupled, olia: MPTCP with the traditional handoff; cla: as published; promise: ours")
      ->check(CLI::IsMember({ "uncoupled", "coupled", "olia", "cla", "promise" }));
  own->add_option("--reading", run->reading,
                  "cla: windows are set and grow on, or what was set last is held; see handoff_scenario.h")
      ->check(CLI::IsMember({ "set", "held" }));
  own->add_option("--forget", run->forget, "cla: RTT and RTO estimations are reset at the handoff");
  own->add_option("--R0", run->R0, "throughput to be held, Mb/s");
  own->add_option("--C1", run->C1, "capacity of Wi-Fi, Mb/s");
  own->add_option("--C2", run->C2, "of LTE, Mb/s");
  own->add_option("--R1h", run->R1h, "Wi-Fi throughput at the handoff, Mb/s");
  own->add_option("--delta0", run->delta0, "scan trigger, dB");
  own->add_option("--delta1", run->delta1, "pre-handoff trigger, dB");
  own->add_option("--delta2", run->delta2, "handoff trigger, dB");
  own->add_option("--offered", run->offered, "what the application writes, Mb/s")->check(CLI::Range(0.1, 1e4));
  own->add_option("--associate", run->associate_ms, "time of a handoff, ms")->check(CLI::Range(5.0, 1e4));
  own->add_option("--access-points", run->access_points, "one more than handoffs")->check(CLI::Range(2u, 20u));
  own->add_option("--speed", run->speed, "of the user, m/s")->check(CLI::Range(0.1, 40.0));
  own->add_option("--near", run->near_s, "what counts as near a handoff, s before and after")
      ->check(CLI::Range(0.5, 60.0));
  own->add_option("--seed", run->seed, "seed");
  own->callback([run, &result] { result = handoff(*run); });
}

} // namespace

void add_rate_commands(CLI::App& app, nlohmann::json& result)
{
  add_slots(app, result);
  add_rtts(app, result);
  add_visits(app, result);
  add_users(app, result);
  add_switching(app, result);
  add_handoff(app, result);
}

} // namespace tandem::sim
