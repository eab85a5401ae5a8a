// Losses of the air, kept away from the sender's congestion control: after the loss fetching ("mirroring") of Tsao and
// Sivakumar (CoNEXT 2009), and beyond it.
#pragma once

#include "modules/mirror/delay_meter.h"
#include "modules/mirror/episode.h"
#include "modules/mirror/evidence.h"
#include "modules/mirror/fetching.h"
#include "modules/mirror/steering.h"

#include <tandem/module.h>

#include <array>
#include <cstdint>

namespace tandem::mirror
{

enum class Strategy : std::uint8_t
{
  undo,   // the server repairs the loss; one old TSecr takes back what congestion control made of it
  range,  // and missing bytes of plaintext HTTP are fetched by a Range request over the cellular link
  replay, // or, as published, from a mirror connection that replays the request
};

struct Knobs
{
  Strategy strategy = Strategy::undo;
  double threshold = 0.85; // of the score, above which an episode is congestion's
  double undo = 1;
  double cap = 0.5;   // of the target delay; 0: no cap
  double acks = 6;    // per round trip in a lossy slow start; 0: all
  double pace = 1;    // the window opens at the pace of arrivals after an undo
  double dsack = 1;   // without timestamps
  double give_up = 6; // undos without effect until a flow is left alone
  double rest = 30;   // s, then
};

struct State
{
  bool ack_known = false;
  bool alone = false;     // the flow is one that is never touched
  bool was_kept = false;  // the episode before
  bool deaf = false;      // a hole of this episode came while no radio listened
  bool stopped = false;   // data had stopped within this chain of episodes
  bool insisting = false; // the old echo is repeated until an ACK has reached `until`
  std::uint8_t vain = 0;  // undos in a row that brought nothing
  std::uint8_t alike = 0; // episodes in a row at the same queueing delay
  std::uint8_t rests = 0;
  std::uint16_t hidden = 0, kept = 0, reordered = 0; // episodes; the counts stop at their largest value
  Seq last_ack {};
  Seq until {};
  std::uint32_t flight = 0;    // bytes in flight when the last undo was asked for
  float hole_queue = 0;        // s, the most that was queued at a hole of this episode
  float later_queue = 0;       // s, at holes above the recovery point: of the next episode in a chain
  float last_queue = 0;        // s, of the episode before
  float loss_rate = 0;         // bytes that the air surely lost, of all
  std::uint64_t judged_at = 0; // bytes delivered at the last decision
  float score = 0;             // of the last episode
  float hole_span = 0;         // s, within which the frames of this episode's holes were lost
  Tick hole_from {};           // since when
  Tick edge_at {};             // when the last new data arrived
  Tick rest_until {};
  Episode episode {};
  DelayMeter delay {};
  Steering steering {};
  fetching::State fetching {};
  const char* why = "no loss yet";
};

class Mirror final : public FlowModule<State>
{
public:
  std::string_view name() const override { return "mirror"; }
  std::string_view summary() const override;
  std::string_view manual() const override;
  std::span<const Knob> knobs() const override;
  void set(std::string_view knob, double value) override;
  double get(std::string_view knob) const override;
  Interest interest() const override;
  int priority() const override { return 20; }
  Plan decide(const Event& event, const FlowView& flow, State& state) override;
  void describe(const FlowView& flow, const State& state, Facts& facts) const override;

private:
  Plan acknowledge(const Event& event, const FlowView& flow, State& state);
  Plan alarm(const Event& event, const FlowView& flow, State& state);
  Plan repair(const Event& event, const FlowView& flow, State& state, bool progress);
  Plan hide(const Event& event, const FlowView& flow, State& state, const Score& score);
  Score score(const Event& event, const FlowView& flow, const State& state) const;
  void note_holes(const Event& event, State& state) const;
  static void learn(State& state);
  static void learn_rate(const FlowView& flow, State& state, bool surely);
  std::span<const Craft> duplicates(const Event& event, const FlowView& flow, const Episode& episode);
  bool left_alone(const Event& event, const FlowView& flow, State& state) const;
  bool fetches() const { return knobs_.strategy != Strategy::undo; }
  Steering::Settings steering() const
  {
    return { .target = knobs_.cap, .acks = knobs_.acks, .paced = knobs_.pace != 0 };
  }
  fetching::Settings fetch_settings() const
  {
    return { .how = knobs_.strategy == Strategy::replay ? FetchHow::replay : FetchHow::range };
  }

  Knobs knobs_ {};
  fetching::Scratch scratch_ {};
  std::array<Craft, 3> crafts_ {};
};

} // namespace tandem::mirror
