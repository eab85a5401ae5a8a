// Strategy undo, the default: the server repairs its losses, and one old TSecr takes back what congestion control made
// of those that the air caused. Beyond the loss fetching ("mirroring") of Tsao and Sivakumar (CoNEXT 2009): nothing is
// fetched.
#pragma once

#include "modules/mirror/delay_meter.h"
#include "modules/mirror/episode.h"
#include "modules/mirror/evidence.h"
#include "modules/mirror/load_watch.h"
#include "modules/mirror/lossy_air.h"
#include "modules/mirror/overflows.h"
#include "modules/mirror/path_order.h"
#include "modules/mirror/steering.h"

#include <tandem/knob_table.h>
#include <tandem/module.h>

#include <array>
#include <cstdint>

namespace tandem::mirror
{

class Undo
{
public:
  static constexpr std::string_view name = "undo";
  static constexpr std::string_view help = "the server repairs, its congestion control is told nothing";
  static constexpr bool fetches = false; // Interest::content

  struct Knobs
  {
    double threshold = 0.85; // of the score, above which an episode is congestion's
    double undo = 1;
    double cap = 0.5; // of the target delay; 0: no cap
    double acks = 6;  // per round trip in a lossy slow start; 0: all
    double pace = 1;  // the window opens at the pace of arrivals after an undo

    // Constants for everybody but tests: what docs/results/mirror.md was measured with.
    double give_up = 6;   // undos without effect until a flow is bypassed
    double back_off = 30; // s, then
  };
  static constexpr std::array<KnobRow<Knobs>, 5> rows { {
      { { .name = "threshold",
          .minimum = 0,
          .maximum = 1,
          .help =
              "score above which an episode of losses is left to the sender as congestion: 0 hides nothing that could "
              "be a full queue, 1 hides all but certain ones" },
        &Knobs::threshold },
      { { .name = "undo",
          .type = KnobType::boolean,
          .minimum = 0,
          .maximum = 1,
          .help =
              "the sender's reaction to wireless losses is taken back; off, they are fetched only (range, replay)" },
        &Knobs::undo },
      { { .name = "cap",
          .minimum = 0,
          .maximum = 8,
          .help = "once wireless losses were seen the advertised window keeps the queueing delay near this many "
                  "eighths of the round trip (4 to 16 ms times this); 0: the window stays as it is" },
        &Knobs::cap },
      { { .name = "acks",
          .minimum = 0,
          .maximum = 1000,
          .help = "ACKs per round trip in a slow start with wireless losses, so that it does not end early; 0: all" },
        &Knobs::acks },
      { { .name = "pace",
          .type = KnobType::boolean,
          .minimum = 0,
          .maximum = 1,
          .help = "after an undo the window opens at the pace of what arrives, not at once" },
        &Knobs::pace },
  } };
  static constexpr std::array<KnobRow<Knobs>, 2> test_rows { {
      { { .name = "give_up",
          .minimum = 1,
          .maximum = 100,
          .help = "undos in a row after which less is in flight than before, until a flow is bypassed for a while" },
        &Knobs::give_up },
      { { .name = "back_off", .unit = "s", .minimum = 0, .maximum = 3600, .help = "that while; doubles each time" },
        &Knobs::back_off },
  } };

  struct State
  {
    static constexpr std::uint32_t judged_unit = 256; // bytes

    bool ack_known = false;
    bool bypassed = false;   // the flow is one that is never touched
    bool was_kept = false;   // the episode before
    bool overflowed = false; // a loss has shown where the queue ends
    bool deaf = false;       // a hole of this episode came while no radio listened
    bool stopped = false;    // data had stopped within this chain of episodes
    bool aged = false;       // the path reorders, and this chain's echo has become too old for that
    bool insisting = false;  // the old echo is repeated until an ACK has reached `until`
    bool owed = false;       // the end of a chain had no old echo: up to `until` the sender may still be given it
    bool waiting = false;    // an ACK with the old echo waits for one that reports new data
    std::uint8_t vain = 0;   // undos in a row that brought nothing
    std::uint8_t alike = 0;  // episodes in a row at the same queueing delay
    std::uint8_t pauses = 0; // times that a flow was bypassed because its sender does not respond
    std::uint16_t hidden = 0, kept = 0, reordered = 0; // episodes; the counts stop at their largest value
    Seq last_ack {};
    Seq until {};
    std::uint32_t flight = 0;    // bytes in flight when the last undo was asked for
    float hole_queue = 0;        // s, the most that was queued at a hole of this episode
    float later_queue = 0;       // s, at holes above the recovery point: of the next episode in a chain
    float last_queue = 0;        // s, of the episode before
    float loss_rate = 0;         // bytes that the air surely lost, of all
    std::uint32_t judged_at = 0; // what was delivered at the last of them, in judged_unit: up to a terabyte
    float score = 0;             // of the last episode
    float hole_span = 0;         // s, within which the frames of this episode's holes were lost
    Tick hole_from {};           // since when
    Tick edge_at {};             // when the last new data arrived
    Tick bypass_until {};
    Episode episode {};
    DelayMeter delay {};
    PathOrder order {};
    LoadWatch load {};
    Steering steering {};
    const char* why = "no loss yet";
  };

  virtual ~Undo() = default;
  Plan decide(const Event& event, const FlowView& flow, State& state);
  void describe(const FlowView& flow, const State& state, Facts& facts) const;

  Knobs knobs {};

protected:
  // What a strategy that also repairs losses itself adds to the plan for an ACK.
  virtual void repair_too(const Event&, const FlowView&, State&, Plan&) {}
  virtual Plan alarm(const Event& event, const FlowView& flow, State& state);
  virtual Plan fetched(const Event&, const FlowView&, State&) { return {}; }

private:
  Plan acknowledge(const Event& event, const FlowView& flow, State& state);
  static Plan look_away(const Event& event, State& state);
  void expect_losses(const Event& event, const FlowView& flow, State& state) const;
  void end_by_block(const Event& event, const FlowView& flow, State& state, Plan& plan);
  void spare_timer(const Event& event, const FlowView& flow, State& state, Plan& plan);
  void ease(const Event& event, const FlowView& flow, State& state, Plan& plan) const;
  Plan follow(const Event& event, const FlowView& flow, State& state, bool progress, bool dry);
  Plan go_on(const Event& event, const FlowView& flow, State& state, bool crossed);
  Plan hide(const Event& event, const FlowView& flow, State& state, const Score& score);
  Score score(const Event& event, const FlowView& flow, const State& state) const;
  std::span<const InjectedSegment> duplicates(const Event& event, const FlowView& flow, const Episode& episode);
  Steering::Settings steering() const { return { .target = knobs.cap, .acks = knobs.acks, .paced = knobs.pace != 0 }; }

  LossyAir air_ {};
  Overflows overflows_ {};
  std::array<InjectedSegment, 3> scratch_ {};
};

} // namespace tandem::mirror
