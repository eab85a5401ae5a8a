// What stands in queues, and what the cellular way of the ACKs adds, measured while a flow runs.
#include "modules/offload/added_delay.h"
#include "modules/offload/validated_path.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

namespace tandem::offload
{

namespace
{

constexpr double most_stretch = 16; // on a thin cellular link at least one ACK in this many is sent

// The queue that ACKs make in the uplink of a cellular link that takes fewer of them.
constexpr double shortest_window = 10;         // ticks over which the least delay is taken
constexpr std::int32_t longest_queue = 20;     // ticks by which it may grow
constexpr std::int32_t uplink_memory = 30'000; // ticks, of how many ACKs it took
// Ticks until one ACK in fewer leaves by cellular, after the uplink took too few.
constexpr std::uint32_t until_more_overloaded = 10'000;
constexpr double drain = 1.25; // so much fewer ACKs than the uplink takes leave, so that the queue drains

// Over how long the standing queue is averaged, in seconds: longer than a peak, shorter than a download.
constexpr double queue_memory = 1;
// Once losses came while ACKs went by the slower path, a handoff's for instance: a window that they have cut grows back
// by round trips, which that path makes longer.
constexpr double queue_memory_cut = 0.3;
constexpr std::int32_t most_above_least = 1000; // ticks of a queue of the uplink

constexpr std::uint32_t beyond = 1u << 30; // ticks, of no delay

// For so many times tick_apart a base that was not heard again still tells what another way adds: to 3 ms.
constexpr unsigned recent = 2;
// An ACK is not late by less, in ticks: one for each clock that is read, and one by which they have parted meanwhile.
constexpr std::int32_t least_late = 3;
// After a pause of the server for so long nothing of the flow stands in queues, and FlowView::rtt_min has forgotten
// what was before.
constexpr Duration until_empty = std::chrono::seconds { 10 };

// Ticks until one ACK in fewer leaves, where it has taken them all: what it does not take is known a round trip later.
std::uint32_t until_more(const FlowView& flow)
{
  return static_cast<std::uint32_t>(2 * milliseconds(flow.rtt_smoothed));
}

} // namespace

// The shortest round trip by Wi-Fi of the whole flow. FlowView::rtt_min forgets within ten seconds, but the queue of a
// loss-based sender need not be empty once in a minute: what always stands would no longer count, and by cellular the
// delay that this way adds would be taken off twice.
void ValidatedPath::measure_shortest(const FlowView& flow, State& state)
{
  if (state.phase != Phase::by_wifi) return;
  // Until a path was left no other round trips are in rtt_min. The first one after a return may still be of the other.
  const bool since_always = state.since == Tick {};
  if (!since_always && flow.rtt_at - state.since < flow.rtt_smoothed) return;
  // Nor is one that is far above the mean: the tracker lets it be no longer, where the server may have made a pause.
  if (!since_always && flow.rtt_latest > flow.rtt_smoothed * 3 / 2) return;
  const auto sample = static_cast<float>(seconds(since_always ? flow.rtt_min : flow.rtt_latest));
  if (state.shortest_by_wifi == 0 || sample < state.shortest_by_wifi) state.shortest_by_wifi = sample;
}

void ValidatedPath::measure_queue(const FlowView& flow, State& state) const
{
  if (flow.rtt_at == state.rtt_taken) return;
  const Tick before = std::exchange(state.rtt_taken, flow.rtt_at);
  if (before != Tick {} && flow.rtt_at - before > until_empty && flow.resumed <= before)
  {
    // The path may have become longer meanwhile, which must not look like a queue for the rest of the flow. What was
    // timed across the pause does not count.
    state.shortest_by_wifi = 0;
    if (state.phase == Phase::by_wifi) state.since = flow.rtt_at;
  }
  measure_shortest(flow, state);
  if (before != Tick {} && flow.rtt_at - before > PathValidation::timeout(flow.rtt_smoothed))
  {
    // A blackout. What comes first behind it was not in a queue for so long, and what stood in one before is gone.
    state.queue_by_wifi = 0;
    return state.goodput.restart();
  }
  const bool by_cell = state.phase == Phase::by_cell;
  // Until a round has told what this way adds there is a lower bound alone, which over long paths is far below zero.
  if (by_cell && !state.delay_known) return;
  float& average = by_cell ? state.queue_by_cell : state.queue_by_wifi;
  const double shortest =
      state.shortest_by_wifi > 0 ? static_cast<double>(state.shortest_by_wifi) : seconds(flow.rtt_min);
  double queue = seconds(flow.rtt_smoothed) - shortest;
  if (by_cell) queue = std::min<double>(queue - state.added_delay, state.added_delay); // only whether it goes is asked
  const double memory = by_cell && flow.filled_at > state.since ? queue_memory_cut : queue_memory;
  const double age = std::clamp(seconds(flow.rtt_at - before) / memory, 0.0, 1.0);
  // From nothing: a young flow's overshoot is no standing queue.
  if (before != Tick {}) average += static_cast<float>((queue - average) * age);
}

// As many ACKs by cellular as by Wi-Fi without it at first, or as the uplink took lately; on another flow's word the
// first of all is to be echoed as soon as can be. What left with `before` went by Wi-Fi.
void ValidatedPath::first_acks(const Event& event, const FlowView& flow, State& state, TsClock before) const
{
  const auto ratio =
      state.on_word ? std::uint16_t { 1 } : static_cast<std::uint16_t>(wifi_ratio(*event.segment, flow, state));
  const bool known = state.stretch > ratio && flow.last_ts_value - state.more_after < uplink_memory;
  if (!known) state.stretch = ratio;
  state.thin_uplink = known;
  state.uplink_full = false;
  state.more_after = flow.last_ts_value + (known ? until_more_overloaded : until_more(flow));
  state.load.restart(before);
}

// Where ACKs leave faster than the uplink takes them fewer of them leave, before their queue is longer than what
// offloading saves. An uplink that takes not even those is none for this download.
void ValidatedPath::measure_load(TsClock echo, std::int32_t delay, const FlowView& flow, State& state)
{
  const auto window = static_cast<std::int32_t>(std::max(shortest_window, milliseconds(flow.rtt_smoothed) / 8));
  const auto load = state.load.hear(echo, delay, window, longest_queue);
  if (!load) return;
  state.thin_uplink = true;
  state.uplink_full = state.stretch >= most_stretch;
  state.stretch = static_cast<std::uint16_t>(std::min(most_stretch, std::ceil(state.stretch * *load * drain)));
  state.load.restart(flow.sent_ts_value);
  state.more_after = flow.last_ts_value + until_more_overloaded;
}

// More of them again, a little at a time: what an uplink does not take is known only a round trip later.
void ValidatedPath::more_acks(const FlowView& flow, State& state)
{
  if (state.stretch == 1 || !flow.last_ts_value.after(state.more_after)) return;
  if (--state.stretch == 1) state.thin_uplink = false;
  state.load.restart(flow.sent_ts_value);
  state.more_after = flow.last_ts_value + until_more(flow);
}

// What a cellular path adds that works, and is too slow to be the only one: this flow has found that lately, or another
// one has.
std::optional<double> ValidatedPath::slow_path(const FlowView& flow, const State& state, Tick now) const
{
  std::optional<double> added {};
  if (now < state.slow_until)
    added = static_cast<double>(state.slow_delay);
  else if (state.takes_word(flow))
    added = seconds(*flow.cell_path_known);
  return added && *added > longest_delay(flow, knobs.added_delay_free, state.queue_by_wifi) ? added : std::nullopt;
}

// By how many ticks more than at the last round the clocks may have parted.
unsigned ValidatedPath::apart_since(const State& state, Tick now)
{
  return static_cast<std::uint16_t>(now.time_since_epoch() / tick_apart - state.bases_at);
}

// A least delay that was not heard again counts as so much longer, by whichever way ACKs leave. So no ACK looks late
// because the clocks part.
void ValidatedPath::make_up_bases(State& state, Tick now)
{
  const unsigned passed = apart_since(state, now);
  state.bases_at = static_cast<std::uint16_t>(state.bases_at + passed);
  state.wifi_base = wrapped(state.wifi_base, -static_cast<std::int32_t>(passed));
  state.cell_base = wrapped(state.cell_base, -static_cast<std::int32_t>(passed));
  state.base_recent = state.base_recent && passed <= recent;
}

bool ValidatedPath::base_recent(const State& state, Tick now)
{
  return state.base_known && state.base_recent && apart_since(state, now) <= recent;
}

// By cellular, and there was nothing to measure what that adds as long as the delay by Wi-Fi was known.
bool ValidatedPath::unmeasurable(const State& state, Tick now)
{
  return state.delay.clocks_agree() && !state.delay_known && state.base_known && !base_recent(state, now);
}

// Once ACKs leave by both links the delay heard is that of whichever was faster, and no longer than a copy's.
void ValidatedPath::note_late(std::int32_t delay, const FlowView& flow, State& state, Tick now) const
{
  // What left by cellular before the return to Wi-Fi is echoed for a round trip more.
  if (!state.base_known || now - state.since < 2 * flow.rtt_smoothed) return;
  const std::optional<double> slow = slow_path(flow, state, now);
  // Half as late: what keeps ACKs from the air for so long will do so for longer.
  const std::int32_t late = wrapped(delay, state.wifi_base) - static_cast<std::int32_t>(apart_since(state, now));
  if (!slow || late < least_late || late * 1e-3 < *slow / 2) return;
  state.late_at = flow.last_ts_value;
  state.late_known = true;
}

// True when the delay that the cellular path adds has just become known.
bool ValidatedPath::measure_delay(const Segment& segment, const FlowView& flow, State& state, Tick now) const
{
  // What another module injects while ACKs go by cellular goes by Wi-Fi, with a TSval that is not reserved, and is
  // sooner there.
  if (state.phase == Phase::by_cell && !flow.ts_reserved.holds(segment.timestamps->echo)) return false;
  const auto [ack, round, clock_set] = state.delay.hear(segment, flow, now);
  if (clock_set)
  {
    // So long that whatever is heard next is less. What was measured that cellular adds still holds.
    state.wifi_base = static_cast<std::int32_t>(segment.timestamps->value.raw - segment.timestamps->echo.raw + beyond);
    state.base_recent = state.cell_base_known = false;
    state.load.restart(flow.sent_ts_value);
  }
  if (ack && state.phase == Phase::by_cell) measure_load(segment.timestamps->echo, *ack, flow, state);
  if (ack && state.phase == Phase::by_wifi) note_late(*ack, flow, state, now);
  if (!round) return false;
  if (state.phase == Phase::by_wifi)
  {
    make_up_bases(state, now);
    const std::int32_t above = state.base_known ? std::clamp(wrapped(*round, state.wifi_base), 0, most_above_least) : 0;
    state.wifi_base = wrapped(*round, above);
    state.base_known = state.base_recent = true;
    return false;
  }
  if (state.phase != Phase::by_cell) return false;
  make_up_bases(state, now);
  if (!state.cell_base_known || wrapped(*round, state.cell_base) < 0)
  {
    state.cell_base = *round;
    state.cell_base_known = true;
  }
  const bool first = state.base_known && state.base_recent && !state.delay_known;
  if (first)
  {
    state.added_delay = static_cast<float>(wrapped(state.cell_base, state.wifi_base)) * 1e-3f;
    state.delay_known = true;
  }
  if (wrapped(*round, state.cell_base) < longest_queue / 4) more_acks(flow, state);
  return first;
}

} // namespace tandem::offload
