#include "modules/mirror/fetching.h"

#include "modules/mirror/count.h"

#include <algorithm>
#include <cstdlib>

namespace tandem::mirror::fetching
{

namespace
{

using namespace std::chrono_literals;

constexpr std::uint32_t reordering = 3;         // segments held behind a hole (RFC 6675, DupThresh)
constexpr std::uint32_t timeout_for_fill = 200; // ms until a fill that nothing came of is counted
constexpr std::uint8_t not_taken_allowed = 3;

// Since then; the 16 bits are enough for a minute.
std::uint32_t age(const State::Hole& hole, Tick now)
{
  return static_cast<std::uint16_t>(static_cast<std::uint16_t>(clock_ms(now)) - hole.at);
}

void enter(State& state, std::size_t i, Stage stage, Tick now)
{
  state.stage[i] = stage;
  state.holes[i].at = static_cast<std::uint16_t>(clock_ms(now));
}

// How long a hole may be mere reordering. Linux waits as long (RACK, RFC 8985 6.2).
Duration window(const FlowView& flow)
{
  return flow.rtt_min > Duration {} ? std::clamp<Duration>(flow.rtt_min / 4, 1ms, 50ms) : 10ms;
}

// Later the server's own retransmission has arrived, or even its second one.
Duration useful(const FlowView& flow)
{
  return std::clamp<Duration>(3 * flow.rtt_smoothed + 100ms, 200ms, 2s);
}

// No sooner than the server's own retransmission, one round trip after it heard of the hole. Then a fill brings little,
// and costs: the sender takes what it hears for reordering (RFC 8985 6.2 step 4), and from then on waits up to a round
// trip more before each retransmission.
bool no_sooner(Duration took, const FlowView& flow)
{
  return flow.rtt_smoothed > Duration {} && took > flow.rtt_smoothed * 9 / 10;
}

// The server's own retransmission would have come by then: it was lost, too, or there is none yet.
bool overdue(std::uint32_t age, const FlowView& flow)
{
  return std::chrono::milliseconds { age } > flow.rtt_smoothed * 3 / 2;
}

bool backs_off(State& state, Tick now)
{
  if (state.backing_off && static_cast<std::int32_t>(clock_ms(now) - state.back_off_until) >= 0)
    state.backing_off = false;
  return state.backing_off;
}

void back_off(State& state, Tick now)
{
  constexpr std::uint32_t shortest = 2000; // ms
  constexpr std::uint8_t most = 5;         // doublings: a minute
  state.back_off_until = clock_ms(now) + (shortest << std::min(state.back_offs, most));
  state.backing_off = true;
  state.outcome_count = 0;
  bump(state.back_offs);
}

// Fetching what the server sends sooner costs cellular bytes for nothing.
std::string_view came_out(State& state, bool won, Tick now)
{
  state.outcomes = static_cast<std::uint8_t>(state.outcomes << 1 | (won ? 1 : 0));
  if (state.outcome_count < 8) ++state.outcome_count;
  if (won) state.back_offs = 0;
  if (state.outcome_count < 8 || std::popcount(state.outcomes) > 1) return {};
  back_off(state, now);
  return "mirror: backs off, the server is faster";
}

void forget(State& state, const FlowView& flow)
{
  state.stage.fill(Stage::none);
  state.top = flow.highest_held;
  state.begun = true;
}

bool covered(const State::Hole& hole, const FlowView& flow, const Segment& segment)
{
  if (flow.rcv_nxt.at_or_after(hole.to())) return true;
  for (const SackBlock& block : segment.sacks())
    if (block.left.at_or_before(hole.from) && block.right.at_or_after(hole.to())) return true;
  return false;
}

// What became of the holes that are known.
std::string_view settle(const FlowView& flow, const Segment& segment, State& state, Tick now)
{
  std::string_view why {};
  const auto say = [&](std::string_view words)
  {
    if (why.empty()) why = words;
  };
  for (std::size_t i = 0; i < State::room; ++i)
  {
    if (state.stage[i] == Stage::none) continue;
    const State::Hole& hole = state.holes[i];
    const Stage stage = state.stage[i];
    if (covered(hole, flow, segment))
    {
      state.stage[i] = Stage::none;
      if (stage == Stage::asked)
      {
        bump(state.beaten);
        say(came_out(state, false, now));
        say("mirror: the server was faster");
      }
      else if (stage == Stage::filled)
      {
        bump(state.filled);
        state.not_taken = 0;
        say(came_out(state, true, now));
        say("mirror: fill acknowledged");
      }
    }
    else if (stage == Stage::filled && age(hole, now) > timeout_for_fill)
    {
      // A firewall may forbid such packets on the loopback interface.
      state.stage[i] = Stage::none;
      bump(state.not_taken);
      say("mirror: fill not taken");
    }
  }
  return why;
}

void notice(const FlowView& flow, const Segment& segment, State& state, const Settings& settings, Tick now)
{
  state.top = later(state.top, flow.rcv_nxt);
  std::array<SackBlock, 4> blocks = segment.sack_blocks;
  const auto end = blocks.begin() + std::min<std::size_t>(segment.sack_count, blocks.size());
  std::sort(blocks.begin(), end, [](const SackBlock& a, const SackBlock& b) { return a.left.before(b.left); });
  for (auto block = blocks.begin(); block != end; ++block)
  {
    if (block->right.at_or_before(state.top)) continue;
    const std::int32_t gap = block->left - state.top;
    if (gap > 0 && static_cast<std::uint32_t>(gap) <= std::min<std::uint32_t>(settings.largest, 65535))
    {
      const auto free = std::find(state.stage.begin(), state.stage.end(), Stage::none);
      if (free != state.stage.end())
      {
        const auto i = static_cast<std::size_t>(free - state.stage.begin());
        state.holes[i] = { .from = state.top, .length = static_cast<std::uint16_t>(gap) };
        enter(state, i, Stage::seen, now);
      }
    }
    state.top = block->right;
  }
}

// Asks for what is surely missing.
Plan ask(const Event& event, const FlowView& flow, State& state, const Settings& settings, Scratch& scratch)
{
  Plan plan {};
  const std::size_t most = std::min<std::size_t>({ settings.at_once, State::room, scratch.fetches.size() });
  auto under_way = static_cast<std::size_t>(std::count(state.stage.begin(), state.stage.end(), Stage::asked));
  std::size_t count = 0;
  const bool may = !state.refused && state.not_taken < not_taken_allowed && !backs_off(state, event.now)
                   && usable(Link::cell, *event.links, flow);
  const Duration timeout = window(flow);
  for (std::size_t i = 0; i < State::room; ++i)
  {
    if (state.stage[i] != Stage::seen) continue;
    const State::Hole& hole = state.holes[i];
    const std::int32_t behind = flow.highest_held - hole.to();
    const Duration waited = std::chrono::milliseconds { age(hole, event.now) };
    const bool sure = behind >= static_cast<std::int32_t>(reordering * flow.mss) || waited >= timeout;
    if (!sure)
    {
      const Tick at = event.now + (timeout - waited);
      plan.wake = plan.wake ? std::min(*plan.wake, at) : at;
      continue;
    }
    if (!may || hole.to().at_or_before(flow.rcv_nxt) || hole.to().after(flow.highest_held))
    {
      state.stage[i] = Stage::none;
      continue;
    }
    if (under_way >= most) continue; // its turn comes with the next ACK
    ++under_way;
    bump(state.asked);
    enter(state, i, Stage::asked, event.now);
    scratch.fetches[count++] = {
      .how = settings.how, .from = later(hole.from, flow.rcv_nxt), .to = hole.to(), .deadline = event.now + useful(flow)
    };
  }
  if (count > 0)
  {
    plan.fetch = std::span { scratch.fetches }.first(count);
    plan.why = "mirror: hole asked for";
  }
  return plan;
}

bool followed(const FlowView& flow)
{
  return flow.content == Content::http && flow.sack_ok && !flow.mptcp;
}

} // namespace

Plan on_ack(const Event& event, const FlowView& flow, State& state, const Settings& settings, Scratch& scratch)
{
  const Segment& segment = *event.segment;
  if (!followed(flow))
  {
    forget(state, flow);
    state.refused = false;
    return {};
  }
  constexpr std::int32_t far = 1 << 30;
  if (!state.begun || std::abs(flow.highest_held - state.top) > far) forget(state, flow);
  const std::string_view why = settle(flow, segment, state, event.now);
  notice(flow, segment, state, settings, event.now);
  Plan plan = ask(event, flow, state, settings, scratch);
  if (plan.why.empty()) plan.why = why;
  return plan;
}

Plan on_alarm(const Event& event, const FlowView& flow, State& state, const Settings& settings, Scratch& scratch)
{
  return followed(flow) && state.begun ? ask(event, flow, state, settings, scratch) : Plan {};
}

Plan on_fetched(const Event& event, const FlowView& flow, State& state, Scratch& scratch)
{
  const FetchResult& result = *event.fetched;
  std::size_t i = 0;
  // The start may have been moved up when it was asked for.
  while (i < State::room
         && !(state.stage[i] == Stage::asked && state.holes[i].to() == result.to
              && state.holes[i].from.at_or_before(result.from)))
    ++i;
  if (!result.ok)
  {
    bump(state.failed);
    if (i < State::room)
    {
      state.stage[i] = Stage::none;
      came_out(state, false, event.now);
      // The content's own refusal ends with this download; the flow's view says when another one begins. Of a hole that
      // is closed by now it may be of the download before.
      state.refused = state.refused || result.final;
    }
    return { .why = result.why };
  }
  if (i == State::room) return { .why = "mirror: fetched too late" }; // counted when the server's own came
  const Seq from = later(result.from, flow.rcv_nxt);
  if (!followed(flow) || from.at_or_after(result.to) || result.to.after(flow.highest_held))
  {
    state.stage[i] = Stage::none;
    return { .why = "mirror: fetched too late" };
  }
  if (no_sooner(result.took, flow) && !overdue(age(state.holes[i], event.now), flow))
  {
    state.stage[i] = Stage::none;
    bump(state.beaten);
    came_out(state, false, event.now);
    return { .why = "mirror: fetched no sooner than the server repairs" };
  }
  std::size_t count = 0;
  for (Seq at = from; at.before(result.to) && count < scratch.injected_segments.size();)
  {
    const auto length = std::min(static_cast<std::uint32_t>(result.to - at), longest_fill);
    InjectedSegment& injected = scratch.injected_segments[count++];
    injected = { .kind = InjectedKind::fill, .by = flow.link, .at = event.now, .seq = at, .length = length };
    // Not younger than what the last ACK echoed: the fill does not look as if a retransmission has arrived.
    if (flow.timestamps_ok) injected.timestamps = Timestamps { flow.ts_recent, {} };
    at = at + length;
  }
  enter(state, i, Stage::filled, event.now);
  return { .inject = std::span { scratch.injected_segments }.first(count), .why = "mirror: hole filled" };
}

void describe(const FlowView& flow, const State& state, Facts& facts)
{
  facts.add("content", flow.content_why.empty() ? name(flow.content) : flow.content_why);
  facts.add("holes asked for", state.asked);
  facts.add("holes filled", state.filled);
  facts.add("server was faster", state.beaten);
  facts.add("fetches failed", state.failed);
  if (state.refused)
    facts.add("fetching", "refused");
  else if (state.not_taken >= not_taken_allowed)
    facts.add("fetching", "the local TCP does not take fills");
  else if (state.backing_off)
    facts.add("fetching", "backs off");
}

} // namespace tandem::mirror::fetching
