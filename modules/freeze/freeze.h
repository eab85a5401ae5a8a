// Blackouts of the Wi-Fi link, after the freeze of Tsao and Sivakumar (CoNEXT 2009) and beyond it: a download goes on
// one round trip after the link is back, whatever the sender's retransmission timer made of the silence.
#pragma once

#include <tandem/module.h>
#include <tandem/path_proof.h>

#include <cstdint>

namespace tandem::freeze
{

enum class Strategy : std::uint8_t
{
  automatic,   // the best by measurement: ahead on a prediction, else kick, with lcd where there is no reserve
  kick,        // some acknowledgements are held back while all is well and said at link-up
  drip,        // the reserve is said bit by bit over the second interface while the link is gone, window closed
  lcd,         // RFC 6069: the latest acknowledgement, then host unreachable
  ahead,       // the window is closed before a predicted blackout, so that nothing is lost
  zero_window, // as published in 2009: the window is closed over the second interface once the link is gone
};

struct Knobs
{
  Strategy strategy = Strategy::automatic;
  double bulk_bytes = 262144;    // delivered before a flow counts as bulk
  double bulk_window = 20;       // MSS of window below which nothing is held back
  double reserve_share = 0.01;   // of the window, held back in any case
  double reserve_queue = 0.5;    // of what stands in queues
  double reserve_recent = 0.02;  // of the window, after a recent blackout
  double reserve_warned = 0.125; // of the window, while a warning stands
  double reserve_most = 1.0 / 3; // of the window
  double risk_memory = 60;       // s that a blackout counts as recent
  double release_after = 0.02;   // s without progress, at least
  double kick_gap = 0.01;        // s between the first repetitions at link-up
  double kicks = 8;              // ACKs at link-up until the server answers
  double undo = 1;               // old TSecr at the recovery point
  double drips = 6;              // parts of the reserve
  double ahead_longest = 1;      // s the window stays closed without a blackout
  double ahead_rest = 10;        // s of rest after a warning that came to nothing; doubles
  double prove = 1;              // nothing by cellular without a proof
  double deadline = 60;          // s, longer blackouts are left to TCP
  double rest_above = 2e9;       // bit/s, faster flows are left alone
};

enum class Phase : std::uint8_t
{
  clear,     // all is well
  closed,    // a blackout is predicted: window closed, what is in flight arrives
  down,      // the link is in a blackout
  returning, // the link is back, the server has not answered yet
};

struct State
{
  Phase phase = Phase::clear;
  bool window_closed = false; // the server was told so
  bool ack_known = false;
  bool alone = false;       // the flow is one that is never touched
  bool over = false;        // a reset was seen
  bool owed = false;        // in this blackout: the server lacks a part of the acknowledgements, or a window
  bool unheard = false;     // the reserve was released, and nothing arrived since
  bool stirred = false;     // the flow was delivering when the blackout began
  bool answered = false;    // something arrived since link-up
  std::uint8_t kicks = 0;   // since link-up
  std::uint8_t drips = 0;   // in this blackout
  std::uint8_t growing = 0; // ACKs since the reserve last changed
  std::uint8_t misses = 0;  // warnings in a row without a blackout
  std::uint16_t blackouts = 0;
  std::uint32_t target = 0; // bytes to hold back
  std::string_view why = "freeze: young flow";

  Tick since {};       // start of the phase
  Tick up_at {};       // end of the last blackout
  Tick dripped_at {};  // the last part of the reserve said with a closed window
  Tick progress_at {}; // the local TCP's last progress
  Tick rest_until {};  // no warning is heeded before
  Seq last_ack {};     // of the local TCP
  Seq said {};         // to the server, which may have heard more

  // After a blackout: the episode of retransmissions whose end is watched for.
  bool watching = false;
  bool episode = false;      // SACK blocks were seen
  bool edge_fixed = false;   // a retransmission was seen
  Seq recovery_point {};     // the highest byte that was sent before it
  TsClock retransmission {}; // its TSval

  // The window of a sender that has nothing in flight is opened at the pace of the link.
  bool thawing = false;
  Tick thaw_at {};
  Seq thaw_edge {}; // offered at thaw_at
  float pace = 0;   // bytes per second

  // Model of the sender's RFC 6298 timer while it is fed by drips.
  float srtt = 0;   // s
  float rttvar = 0; // s

  // Strategies drip and zero_window: whether what is sent by cellular arrives.
  bool proving = false;
  std::uint8_t failures = 0; // in a row
  std::uint8_t still = 0;    // ACKs in a row with the same window
  std::uint16_t window = 0;  // of the last ACK, unscaled
  PathProof path {};
  Seq data_edge {};             // next_seq when the proof began
  std::uint64_t cell_bytes = 0; // by cellular, of all modules and flows
  Tick cell_at {};              // when that last grew
  Tick worth_at {};             // since when a proof is wanted
  Tick prove_at {};             // not before
  Tick proved_at {};

  float first_data = 0; // s from the last link-up to the first sign of the server, for people
};

class Freeze final : public FlowModule<State>
{
public:
  std::string_view name() const override { return "freeze"; }
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
  void heard(const Event& event, const FlowView& flow, State& state, bool progress);
  static void note_reset(const Segment& segment, const FlowView& flow, State& state);
  bool left_alone(const Event& event, const FlowView& flow, State& state) const;
  Plan watch(const Event& event, const FlowView& flow, State& state, bool progress) const;
  Plan hold_back(const Event& event, const FlowView& flow, State& state, bool progress) const;
  void prove(const Event& event, const FlowView& flow, State& state, Plan& plan);
  Plan hear(const Event& event, const FlowView& flow, State& state) const;
  bool speaks_by_cell() const;
  bool cell_trusted(const Event& event, const FlowView& flow, const State& state) const;
  void aim(const Event& event, const FlowView& flow, State& state) const;

  Plan link_changed(const Event& event, const FlowView& flow, State& state);
  void rest(const Event& event, State& state) const;
  Plan close_ahead(const Event& event, const FlowView& flow, State& state);
  Plan go_down(const Event& event, const FlowView& flow, State& state);
  Plan come_back(const Event& event, const FlowView& flow, State& state);
  Plan alarm(const Event& event, const FlowView& flow, State& state);
  Plan kick(const Event& event, const FlowView& flow, State& state, std::string_view why);
  Plan drip(const Event& event, const FlowView& flow, State& state);
  Plan thaw(const Event& event, const FlowView& flow, State& state, std::string_view why);
  std::uint16_t window_now(const Event& event, const FlowView& flow, const State& state, Seq ack,
                           std::uint16_t real) const;
  Plan release(const FlowView& flow, State& state, std::string_view why);
  Plan give_up(const Event& event, const FlowView& flow, State& state, std::string_view why);

  bool holds_reserve() const;
  bool heeds_warnings() const;
  bool bulk(const FlowView& flow) const;
  static bool window_limited(const FlowView& flow);
  Duration patience(const FlowView& flow) const;
  static Duration closed_gap(const FlowView& flow);
  Craft latest(const FlowView& flow, Link by) const;

  Knobs knobs_ {};
  std::array<Craft, 4> scratch_ {};
};

} // namespace tandem::freeze
