// Which holes of a download are fetched a second time, and what is handed to the local TCP. Pure: for the strategies
// range and replay, called by mirror.cc for each event of a flow.
//
//   on an egress pure ACK:         Plan plan = fetching::on_ack(event, flow, state.fetching, settings, scratch_);
//   on EventKind::alarm:           the same by fetching::on_alarm (any alarm of the module will do)
//   on EventKind::fetched:         Plan plan = fetching::on_fetched(event, flow, state.fetching, scratch_);
//
// Each returns fetches, injected segments, a wake or nothing, and never an edit: take them over into the plan of your
// own, with the earlier of two wakes. Interest::content must be set, and traffic::egress_pure_ack decided; each egress
// pure ACK must be shown, in order.
#pragma once

#include <tandem/module.h>

#include <array>
#include <cstdint>

namespace tandem::mirror::fetching
{

struct Settings
{
  FetchHow how = FetchHow::range;
  std::uint8_t at_once = 8;      // holes that are fetched at a time, at most State::room
  std::uint32_t largest = 65535; // bytes of a hole; a larger one is left to the server
};

// Where the fetches and injected segments of a plan live until the module is called again: one for each module, not for
// each flow.
struct Scratch
{
  std::array<Fetch, 8> fetches {};
  std::array<InjectedSegment, 8> injected_segments {};
};

enum class Stage : std::uint8_t
{
  none,
  seen,   // may be reordering
  asked,  // being fetched
  filled, // handed to the local TCP, which has not acknowledged it yet
};

// Of one flow.
struct State
{
  static constexpr std::size_t room = 8;

  struct Hole
  {
    Seq from {};
    std::uint16_t length = 0; // bytes
    std::uint16_t at = 0;     // ms, wrapping: when it came into its stage
    Seq to() const { return from + length; }
  };

  std::array<Hole, room> holes {};
  std::array<Stage, room> stage {};
  Seq top {};                       // behind the highest byte that was held at the last ACK
  std::uint32_t back_off_until = 0; // ms, wrapping
  std::uint16_t asked = 0;          // fetches; the counts stop at their largest value
  std::uint16_t filled = 0;         // holes that the local TCP took
  std::uint16_t beaten = 0;         // closed by the server's own retransmission while being fetched
  std::uint16_t failed = 0;         // fetches that brought nothing
  std::uint8_t outcomes = 0;        // of the last eight, one bit each: 1 = filled
  std::uint8_t outcome_count = 0;   // since the last back-off, up to 8
  std::uint8_t back_offs = 0;       // in a row
  std::uint8_t not_taken = 0;       // fills in a row that nothing came of
  bool begun = false;
  bool backing_off = false;
  bool refused = false; // no fetch of this download will ever succeed
};
static_assert(sizeof(State) <= 96);

Plan on_ack(const Event& event, const FlowView& flow, State& state, const Settings& settings, Scratch& scratch);
Plan on_alarm(const Event& event, const FlowView& flow, State& state, const Settings& settings, Scratch& scratch);
Plan on_fetched(const Event& event, const FlowView& flow, State& state, Scratch& scratch);

// For Module::describe.
void describe(const FlowView& flow, const State& state, Facts& facts);

} // namespace tandem::mirror::fetching
