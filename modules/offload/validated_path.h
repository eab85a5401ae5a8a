// All pure ACKs of a flow leave by the cellular link as long as the server's echoes validate that path (RFC 9000 8.2
// has the word): no byte of a flow depends on a path that was not validated before, and is not again and again.
#pragma once

#include "modules/offload/ack_thinning.h"
#include "modules/offload/goodput.h"
#include "modules/offload/path_delay.h"
#include "modules/offload/window_knob.h"

#include <tandem/knob_table.h>
#include <tandem/module.h>
#include <tandem/path_validation.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace tandem::offload
{

enum class Phase : std::uint8_t
{
  by_wifi, // ACKs leave by Wi-Fi, untouched
  probing, // copies with a younger TSval go by cellular; Wi-Fi ACKs keep the older TSval so that PAWS accepts both
  by_cell, // every pure ACK leaves by cellular
};

class ValidatedPath
{
public:
  static constexpr std::string_view name = "validated";
  static constexpr std::string_view help = "all pure ACKs of a flow, validated by the server's echoes";

  struct Knobs
  {
    double window_mss = window_mss_default; // offload only above this window
    double probe_copies = 6;                // copies sent to validate the path
    double retry_first = 0.5;               // s, after a failed validation; doubles
    double added_delay_free = 0.004;        // s, added delay that is always accepted
    double goodput_loss_limit = 0.05;       // return when the goodput falls by more than this share
    double wifi_ack_ratio = 4;              // one ACK in this many by Wi-Fi, when none goes by cellular
  };
  static constexpr std::array<KnobRow<Knobs>, 6> rows { {
      { window_knob, &Knobs::window_mss },
      { { .name = "probe_copies",
          .type = KnobType::integer,
          .minimum = 1,
          .maximum = 32,
          .help = "copies of an ACK sent by the cellular link to validate the path, before it is given up for now" },
        &Knobs::probe_copies },
      { { .name = "retry_first",
          .type = KnobType::duration,
          .unit = "s",
          .minimum = 0.1,
          .maximum = 600,
          .help = "back-off after the first failed validation; doubles with every further one, up to five minutes" },
        &Knobs::retry_first },
      { { .name = "added_delay_free",
          .type = KnobType::duration,
          .unit = "s",
          .minimum = 0,
          .maximum = 2,
          .help = "delay that a slower ACK path may always add; beyond it as much as the flow is queued on "
                  "average, up to 250 ms" },
        &Knobs::added_delay_free },
      { { .name = "goodput_loss_limit",
          .minimum = 0,
          .maximum = 1,
          .help = "return to Wi-Fi when the goodput stays this share below what it was there" },
        &Knobs::goodput_loss_limit },
      { { .name = "wifi_ack_ratio",
          .type = KnobType::integer,
          .minimum = 1,
          .maximum = 64,
          .help = "without a cellular path at most one ACK in this many is sent by Wi-Fi, 1 = all" },
        &Knobs::wifi_ack_ratio },
  } };

  struct State
  {
    std::string_view why = "offload: window below threshold";
    Tick since {}; // start of the phase, or by Wi-Fi the end of a pause in it
    Tick retry_at {};
    Tick considered {};   // when the flow was first worth a probe
    Tick validated_at {}; // last validation
    Tick slow_until {};   // how long slow_delay counts
    Tick rtt_taken {};    // flow.rtt_at of the last look

    PathValidation path {}; // while probing
    AckThinning thinning {};
    PathDelay delay {};
    UplinkLoad load {}; // by cellular
    Goodput goodput {};

    Seq data_edge {};                // snd_nxt when the phase began: local data in between spoils tags
    TsClock late_at {};              // TSval when an ACK by Wi-Fi was last half as late as a copy by cellular is
    TsClock more_after {};           // by cellular: no more ACKs than now before
    TsClock validated_after {};      // by cellular: echoes up to here may come from local data sent by Wi-Fi
    std::int32_t wifi_base = 0;      // ticks: smallest delay by Wi-Fi; what ACKs wait for the air is in the queue
    std::int32_t cell_base = 0;      // smallest by cellular since the change
    float shortest_by_wifi = 0;      // s, round trip by Wi-Fi with nothing queued; 0 = not known
    float queue_by_wifi = 0;         // s, standing queue by Wi-Fi, averaged
    float queue_by_cell = 0;         // s, likewise by cellular, without the delay that path adds
    float slow_delay = 0;            // s, added delay that was found too long
    float added_delay = 0;           // s, of the cellular ACK path over Wi-Fi at its best; negative: it is faster
    std::uint16_t stretch = 1;       // one ACK in this many leaves by cellular, or left when it was last used
    std::uint16_t window = 0;        // of the last ACK, unscaled
    std::uint16_t copied_at = 0;     // low half of the TSval when the last copy left by cellular beside Wi-Fi
    std::uint16_t unvalidated = 0;   // ACKs sent by cellular since the last validation
    std::uint16_t room_since = 0;    // ms, wraps: since when `room` is so
    std::uint16_t bases_at = 0;      // when both bases were made up for clocks that part; in tick_apart, wraps
    std::uint8_t holes = 0;          // ACKs with SACK blocks, by Wi-Fi, beyond twice those by cellular
    std::uint8_t still = 0;          // ACKs in a row with the same window
    std::uint8_t failures = 0;       // in a row, for the backoff
    std::uint8_t goodput_losses = 0; // times the goodput was worse by cellular, likewise
    std::uint8_t silences = 0;       // times the server was silent by cellular and went on by Wi-Fi, likewise
    Phase phase = Phase::by_wifi;
    bool fell_silent : 1 = false; // the server did, by cellular, and has not been heard of since
    bool on_word : 1 = false;     // by cellular on another flow's word, no echo of its own came yet
    bool distrusts : 1 = false;   // goes on no flow's word before it has validated the path by itself
    bool base_known : 1 = false;  // wifi_base is
    bool base_recent : 1 = false; // and was heard within seconds, as of bases_at, by Wi-Fi
    bool cell_base_known : 1 = false;
    bool delay_known : 1 = false; // added_delay was measured over a round by cellular
    bool late_known : 1 = false;  // late_at is
    bool thin_uplink : 1 = false; // of cellular: it took fewer ACKs than were sent
    bool room : 1 = false;        // by cellular: the air has room for the ACKs
    bool uplink_full : 1 = false; // with as few ACKs as may be by cellular, too

    bool takes_word(const FlowView& flow) const { return flow.cell_path_known && !distrusts; }
  };

  Plan decide(const Event& event, const FlowView& flow, State& state);
  void describe(const FlowView& flow, const State& state, Facts& facts) const;

  Knobs knobs {};

private:
  Plan acknowledge(const Event& event, const FlowView& flow, State& state);
  Plan while_by_wifi(const Event& event, const FlowView& flow, State& state);
  Plan consider(const Event& event, const FlowView& flow, State& state);
  // Why ACKs do not leave by cellular, and for how long not to look again.
  struct Obstacle
  {
    Duration back_off {};
    std::string_view why {};
  };
  static std::optional<Obstacle> unfit(const Event& event, const FlowView& flow);
  std::optional<Obstacle> obstacle(const Event& event, const FlowView& flow) const;
  static bool nothing_to_save(const Event& event, const FlowView& flow, State& state);
  static bool saves_nothing(const Event& event, const FlowView& flow, State& state);
  Plan probe(const Event& event, const FlowView& flow, State& state);
  Plan while_by_cell(const Event& event, const FlowView& flow, State& state);
  Plan hear(const Event& event, const FlowView& flow, State& state);
  Plan confirm(const Event& event, const FlowView& flow, State& state);
  Plan move(const Event& event, const FlowView& flow, State& state, TsClock before, std::string_view why);
  bool wants_copy(const Event& event, const FlowView& flow, const State& state) const;
  static bool unmeasurable(const State& state, Tick now);
  std::optional<double> slow_path(const FlowView& flow, const State& state, Tick now) const;
  void note_late(std::int32_t delay, const FlowView& flow, State& state, Tick now) const;
  bool fits_on_word(const FlowView& flow, const State& state) const;
  Plan move_on_word(const Event& event, const FlowView& flow, State& state);
  static Tick first_echo_due(const FlowView& flow, const State& state);
  std::optional<Plan> leave_on_word(const Event& event, const FlowView& flow, State& state);
  Plan doubt(const Event& event, const FlowView& flow, State& state, bool say_again);
  Plan not_validated(const Event& event, const FlowView& flow, State& state, bool silent);
  Plan alarm(const Event& event, const FlowView& flow, State& state);
  void after_silence(const Event& event, const FlowView& flow, State& state) const;
  Plan release(const Event& event, const FlowView& flow, State& state);
  Plan return_to_wifi(const Event& event, const FlowView& flow, State& state, Duration back_off, std::string_view why,
                      bool say_again);
  Plan too_slow(const Event& event, const FlowView& flow, State& state, bool say_again);
  unsigned wifi_ratio(const Segment& segment, const FlowView& flow, const State& state) const;
  static unsigned apart_since(const State& state, Tick now);
  static bool base_recent(const State& state, Tick now);
  static void make_up_bases(State& state, Tick now);
  static void measure_shortest(const FlowView& flow, State& state);
  void measure_queue(const FlowView& flow, State& state) const;
  void first_acks(const Event& event, const FlowView& flow, State& state, TsClock before) const;
  static void more_acks(const FlowView& flow, State& state);
  static void measure_load(TsClock echo, std::int32_t delay, const FlowView& flow, State& state);
  bool measure_delay(const Segment& segment, const FlowView& flow, State& state, Tick now) const;
  Duration backoff(std::uint8_t& times) const;

  std::array<InjectedSegment, 1> scratch_ {};
};

} // namespace tandem::offload
