// ACK offloading after Tsao and Sivakumar (CoNEXT 2009): the pure ACKs of a download leave by the cellular link, so
// that they no longer contend with the data for the Wi-Fi air. Unlike the published method every path is proved per
// flow before and while it is used.
#pragma once

#include <tandem/module.h>
#include <tandem/path_proof.h>

#include <cstdint>

namespace tandem::offload
{

enum class Strategy : std::uint8_t
{
  proved,   // all pure ACKs of a flow on one path, delivery proved by TSval tags
  fraction, // as published: a share of the ACKs, packet by packet, no proof. For comparison only
};

struct Knobs
{
  Strategy strategy = Strategy::proved;
  double fraction = 0.5;             // Strategy::fraction: share of ACKs sent by the cellular link
  double window_mss = 20;            // offload only above this window (paper: ssthresh heuristic, 20 MSS)
  double probe_copies = 6;           // copies sent in search of a proof
  double proof_acks = 64;            // ACKs without a proof until the flow returns to Wi-Fi
  double retry_first = 0.5;          // s, after a failed proof; doubles
  double retry_longest = 300;        // s
  double added_delay_share = 1;      // share of the standing queueing delay that the slower path may add
  double added_delay_free = 0.004;   // s, added delay that is always accepted
  double added_delay_longest = 0.25; // s, never more than this
  double regret = 0.05;              // return when the goodput falls by more than this share
  double stretch = 16;               // thinning: at most one ACK in this many
  double stretch_time = 0.25;        // and at least one in this share of an RTT
  double thin_at_home = 4;           // one ACK in this many by Wi-Fi, when none goes by cellular
  double sparse_acks = 32;           // MSS an ACK may cover on average
  double cell_budget = 0;            // bytes since start, 0 = no limit
};

enum class Phase : std::uint8_t
{
  home,    // ACKs leave by Wi-Fi, untouched
  probing, // copies with a younger TSval go by cellular; Wi-Fi ACKs keep the older TSval so that PAWS accepts both
  away,    // every pure ACK leaves by cellular
};

struct State
{
  Phase phase = Phase::home;
  std::uint8_t failures = 0;     // in a row, for the backoff
  std::uint8_t regrets = 0;      // times the goodput was worse away, likewise
  std::uint8_t slow_windows = 0; // in a row, slower than at home
  std::uint16_t stretch = 1;     // one ACK in this many
  std::uint8_t still = 0;        // ACKs in a row with the same window
  std::uint16_t window = 0;      // of the last ACK, unscaled
  Tick considered {};            // when the flow was first worth a probe
  std::uint16_t counted = 0;     // ACKs since counted_from
  std::uint8_t sparse = 0;       // times in a row that ACKs were found sparse
  std::uint16_t held = 0;        // ACKs left out since the last that left
  std::uint16_t unproved = 0;    // ACKs sent by cellular since the last proof
  bool clocks_agree = false;     // both TSval clocks tick in milliseconds: one-way delays can be compared
  bool base_known = false;
  bool away_base_known = false;
  std::string_view why = "offload: window below threshold";

  Tick since {}; // start of the phase
  Tick retry_at {};
  Tick proof_at {};    // last proof
  Tick released_at {}; // last ACK that left while thinning
  Seq data_edge {};    // next_seq when the phase began: local data in between spoils tags

  PathProof path {};        // while probing
  TsClock trusted_after {}; // away: echoes up to here may come from local data sent by Wi-Fi
  TsClock last_echo {};     // newest TSecr seen

  // TSval of the server minus TSecr: the delay of the ACK path plus a constant, in ticks.
  std::int32_t home_delay = 0;  // smallest over the last round at home
  std::int32_t away_base = 0;   // smallest since away
  std::int32_t round_delay = 0; // smallest in the running round
  bool round_any = false;
  Tick round_at {};

  // Clock rates: first TSval pair and when.
  TsClock first_local {}, first_remote {};
  Tick first_at {};
  bool first_known = false;

  std::uint64_t counted_from = 0; // bytes delivered then
  float mss_per_ack = 0;          // what the local TCP acknowledges at a time; 0 = not known yet

  // Goodput: bytes delivered at the start of the running window.
  Tick window_at {};
  std::uint64_t window_bytes = 0;
  bool delay_known = false; // added_delay was measured over a round away
  Tick rtt_taken {};        // flow.rtt_at of the last look
  float queue_at_home = 0;  // s, standing queue at home, averaged
  float slow_delay = 0;     // s, added delay that was found too long
  Tick slow_until {};       // how long that counts
  float home_rate = 0;      // bytes per second
  float away_rate = 0;
  float added_delay = 0; // s, of the cellular ACK path over Wi-Fi; negative when it is faster
};

class Offload final : public FlowModule<State>
{
public:
  std::string_view name() const override { return "offload"; }
  std::string_view summary() const override;
  std::string_view manual() const override;
  std::span<const Knob> knobs() const override;
  void set(std::string_view knob, double value) override;
  double get(std::string_view knob) const override;
  Interest interest() const override;
  Plan decide(const Event& event, const FlowView& flow, State& state) override;
  void describe(const FlowView& flow, const State& state, Facts& facts) const override;

private:
  Plan acknowledge(const Event& event, const FlowView& flow, State& state);
  Plan at_home(const Event& event, const FlowView& flow, State& state);
  Plan consider(const Event& event, const FlowView& flow, State& state);
  void count_acks(const FlowView& flow, State& state);
  unsigned stretch_at_home(const Segment& segment, const FlowView& flow, const State& state) const;
  bool leave_out(const Event& event, const FlowView& flow, State& state, unsigned stretch, Plan& plan) const;
  Duration longest_hold(const FlowView& flow) const;
  bool budget_spent(const Event& event) const;
  Duration sparse_rest(State& state) const;
  Plan probe(const Event& event, const FlowView& flow, State& state);
  Plan go_away(const Event& event, const FlowView& flow, State& state);
  Plan hear(const Event& event, const FlowView& flow, State& state);
  Plan alarm(const Event& event, const FlowView& flow, State& state);
  Plan publish(const Event& event, const FlowView& flow, State& state);
  Plan return_home(const Event& event, const FlowView& flow, State& state, Duration rest, std::string_view why,
                   bool say_again);
  Plan too_slow(const Event& event, const FlowView& flow, State& state, bool say_again);
  double longest_delay(const State& state) const;
  void proved(const Event& event, const FlowView& flow, State& state);
  void measure_delay(const Segment& segment, const FlowView& flow, State& state, Tick now);
  void measure_rate(const FlowView& flow, State& state, Tick now);
  Duration backoff(std::uint8_t& times) const;
  Duration patience(const FlowView& flow) const;
  Craft latest(const FlowView& flow, Link by) const;

  Knobs knobs_ {};
  std::array<Craft, 1> scratch_ {};
};

} // namespace tandem::offload
