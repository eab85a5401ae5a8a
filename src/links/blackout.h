// Whether the Wi-Fi link carries anything now, told from what arrives, what answers, and what the radio hears. Pure:
// time and every observation are handed in; the same observations give the same verdicts.
//
// Silence alone proves nothing: servers pause and applications read slowly. It only raises a suspicion, and only on a
// link that was busy a moment before, or on which this host goes on sending and gets nothing back; a verdict needs
// probes that a gateway known to answer leaves unanswered, or a radio that hears nothing of its access point although
// frames were sent to it. Where the radio shows the access point's acknowledgements, either must also be more than what
// happens to a live link (AttemptOdds). An idle link is never probed.
#pragma once

#include "src/feeder/radio/radio_event.h"
#include "src/feeder/radio/token_bucket.h"
#include "src/links/attempt_odds.h"

#include <tandem/units.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace tandem::links
{

struct DetectorSettings
{
  std::uint32_t busy_packets = 20;                              // arrivals ...
  Duration busy_window = std::chrono::milliseconds { 200 };     // ... within this make silence worth a look
  Duration silence = std::chrono::milliseconds { 60 };          // silence of a busy link that raises a suspicion
  Duration silence_longest = std::chrono::milliseconds { 200 }; // the same after suspicions that proved wrong
  // Where traffic has paused within the last second, as flights of a young flow do over a long path: the least silence,
  // and up to this one what is a quarter longer than the longest pause of the last minute.
  Duration pause = std::chrono::milliseconds { 250 };
  Duration pause_longest = std::chrono::milliseconds { 400 };
  Duration verdict_after = std::chrono::milliseconds { 100 }; // probes go unanswered for at least this
  std::uint32_t verdict_probes = 3;                           // and at least so many of them
  Duration radio_silence = std::chrono::milliseconds { 20 };  // nothing heard of the access point of a busy link
  Duration radio_verdict = std::chrono::milliseconds { 45 };  // nothing heard although probes were sent
  std::uint32_t unanswered_packets = 2;                       // this host sent, and nothing arrived, ...
  Duration unanswered = std::chrono::milliseconds { 300 };    // ... for so long
};

enum class BlackoutCause : std::uint8_t
{
  none,
  carrier,      // the interface lost its carrier
  silence,      // probes to the gateway went unanswered
  radio,        // frames were sent and nothing of the access point was heard
  disconnected, // the radio reported it
  announced,    // by the control API
};
constexpr std::size_t blackout_cause_count = 6;

constexpr std::string_view name(BlackoutCause cause)
{
  constexpr std::array<std::string_view, blackout_cause_count> names { "none",  "carrier",      "silence",
                                                                       "radio", "disconnected", "announced" };
  return names[static_cast<std::size_t>(cause)];
}

enum class Announcement : std::uint8_t
{
  risk, // a blackout is near
  down, // it is there
  up,   // it is over
};

struct DetectorCounters
{
  std::array<std::uint64_t, blackout_cause_count> verdicts {}; // "down", by cause
  // Verdicts by silence or radio after which the link was heard of again within `false_alarm_within`: it had been
  // alive.
  std::uint64_t false_alarms = 0;
  std::uint64_t learned = 0;            // of them: of what may happen to a live link, more is expected since
  std::uint64_t held_back = 0;          // suspicions whose verdict waited because a live link may be so silent
  std::uint64_t suspicions = 0;         // silences that were looked into
  std::uint64_t unanswered = 0;         // of them: of a link that was not busy, but this host sent
  std::uint64_t cleared_by_probe = 0;   // of them: the gateway answered, or its access point acknowledged a probe
  std::uint64_t cleared_by_traffic = 0; // of them: something arrived
  std::uint64_t undecided = 0;          // of them: given up without a verdict
  std::uint64_t unprovable = 0;         // silences that could not be looked into: the gateway never answered a probe
  std::uint64_t probes_sent = 0;
  std::uint64_t probes_answered = 0;
  std::uint64_t radio_stale = 0;       // times the radio was silent while packets arrived
  std::uint64_t deauthentications = 0; // also disassociations, heard by the radio: no verdict is drawn from them
};

class BlackoutDetector
{
public:
  // A verdict that the link itself contradicts so soon was wrong, or the blackout not worth one.
  static constexpr Duration false_alarm_within = std::chrono::milliseconds { 50 };
  // A verdict is held back for so long at most, from the first probe: a dead link is told of, whatever it did alive.
  static constexpr Duration held_back_most = std::chrono::milliseconds { 250 };
  // Suspicions cost at most `probe_burst` probes at once and `probes_per_second` on average. A link that is down is
  // probed every 8 ms for 500 ms, every 12 ms up to 3 s, every 25 ms up to 10 s, every 50 ms from then on; where probes
  // of an earlier blackout were kept and answered at its end, when it has lasted half as long again (25 to 500 ms).
  static constexpr double probes_per_second = 20;
  static constexpr double probe_burst = 16;

  explicit BlackoutDetector(const DetectorSettings& settings = {});

  // Off: the verdict is the carrier's alone, and nothing is asked for.
  void watch(bool on, Tick now);
  bool watching() const { return watching_; }

  void carrier(bool up, Tick now);
  // Another network, or another gateway: what was learned of the old one counts no more. `probeable`: there is one.
  void new_gateway(bool probeable, Tick now);
  // The interface's count of received packets, read now.
  void received_total(std::uint64_t packets, Tick now);
  // Likewise its count of sent packets; after received_total.
  void sent_total(std::uint64_t packets, Tick now);
  // A frame arrived; also counted by received_total sooner or later.
  void frame_arrived(Tick now);
  void probe_sent(Tick now);
  void probe_answered(Tick now);
  void radio(const feeder::RadioEvent& event, Tick now);
  void radio_present(bool present, Tick now);
  // Holds for `span`; then evidence counts again.
  void announce(Announcement what, Duration span, Tick now);

  struct Step
  {
    bool send_probe = false; // call probe_sent() when it was
    Tick next {};            // call again then, with fresh observations; Tick::max() = when something happens
  };
  // Decides. Hand in everything that has been observed first.
  Step advance(Tick now);

  bool up() const { return cause_ == BlackoutCause::none; }
  BlackoutCause cause() const { return cause_; }
  Tick since() const { return since_; } // of the present verdict
  Tick last_down() const { return last_down_; }
  Tick last_up() const { return last_up_; }
  bool risk_announced(Tick now) const { return now < risk_until_; }
  bool suspicious() const { return suspicious_; }
  bool gateway_answers() const { return answered_once_; }
  bool radio_usable() const;
  Duration probe_rtt() const; // the shortest of late; zero when unknown
  // What is expected of this access point, as far as the radio shows its acknowledgements.
  const AttemptOdds& odds() const { return odds_; }
  const DetectorCounters& counters() const { return counters_; }

private:
  void go_down(BlackoutCause cause, Tick now);
  void go_up(Tick now);
  void alive(Tick now);
  void suspect(Tick now, bool for_sending = false);
  void clear_suspicion(bool by_probe, Tick now);
  void forget_probes();
  void judge_keeping(Tick now);
  void raise_timeout(double factor, Tick now);
  bool busy(Tick now) const { return now < busy_until_; }
  bool held_down(Tick now) const { return announced_ == Announcement::down && now < announced_until_; }
  bool may_be_alive(Tick now) const;
  bool channel_shared() const;
  Duration silence_wanted(Tick now) const;
  void note_pause(Duration pause, Tick now);
  bool smooth(Tick now) const;
  Duration probe_gap_down(Tick now) const;
  Step advance_down(Tick now);
  Step advance_up(Tick now);

  DetectorSettings settings_;
  DetectorCounters counters_ {};
  bool watching_ = false;
  bool carrier_ = true;
  BlackoutCause cause_ = BlackoutCause::none;
  Tick since_ {}, last_down_ {}, last_up_ {};

  // What arrives.
  struct Arrival
  {
    Tick at {};
    std::uint64_t packets = 0;
  };
  std::array<Arrival, 64> arrivals_ {}; // a ring of counter movements
  std::size_t newest_ = 0;
  std::uint64_t total_ = 0;
  bool total_known_ = false;
  Tick looked_ {};        // last reading of the counter
  Tick arrived_ {};       // last time it had moved, or a frame was seen
  Tick busy_until_ {};    // silence is worth a look until then
  Duration usual_gap_ {}; // the longest pause between arrivals of late
  Tick usual_gap_at_ {};
  Duration pause_ {}; // likewise, of those that are longer than `silence`, but for idle times
  Tick pause_at_ {};
  Tick smooth_since_ {}; // the last of them ended
  Tick pause_from_ {};   // the one that is looked into began

  // What answers.
  bool probeable_ = false;
  bool answered_once_ = false;
  Tick probed_ {}; // last probe
  Tick first_unanswered_ {};
  std::uint32_t unanswered_ = 0;
  std::uint32_t lessons_ = 0; // probes sent to learn whether the gateway answers at all
  bool probe_now_ = false;    // something calls for a probe without delay
  std::array<Duration, 8> rtts_ {};
  std::size_t rtt_count_ = 0;

  // Whether a driver keeps probes while its access point is away, of the present blackout or, once it is over, the
  // last.
  bool keeps_probes_ = false;
  bool judging_ = false;             // it is over, and kept probes would be answered now
  std::uint32_t asked_in_vain_ = 0;  // probes sent into it
  std::uint32_t asked_since_ = 0;    // and after its end
  std::uint32_t answered_since_ = 0; // answers since then
  feeder::TokenBucket probe_gate_ { probes_per_second, probe_burst };

  // What this host sends.
  std::uint64_t sent_total_ = 0;
  bool sent_known_ = false;
  bool sending_ = false;              // between the last two looks
  std::uint64_t sent_unanswered_ = 0; // since something arrived last
  Tick sent_first_ {};                // when the first of them was seen
  Tick sent_look_at_ {};              // not looked into before
  Duration sent_rest_ {};             // after one that was answered; doubles with each

  // Suspicion.
  bool suspicious_ = false;
  bool for_sending_ = false;        // it is of a link that was not busy
  bool unprovable_told_ = false;    // of the present silence
  bool expecting_ = false;          // the link has been back for a short time
  std::uint64_t since_cleared_ = 0; // packets since then
  bool looked_into_ = false;        // the present silence was, and was cleared by a probe
  bool was_busy_ = false;           // when the link went down
  Tick suspected_ {};
  Tick quiet_since_ {}; // the present silence counts from here at the earliest
  double timeout_ = 1;
  Tick timeout_at_ {};

  // What the radio hears.
  bool radio_present_ = false;
  bool radio_stale_ = false;
  Tick heard_ {};
  Tick radio_since_ {};
  Tick other_heard_ {};
  bool acknowledgements_seen_ = false; // else that there is none proves nothing
  bool transmission_failed_ = false;   // since something was heard last
  std::uint64_t arrived_unheard_ = 0;  // packets counted since
  AttemptOdds odds_ {};
  bool by_chance_ = false;      // the present verdict: a live link might just have been so silent
  bool held_back_told_ = false; // of the present suspicion

  // What was announced.
  Tick announced_until_ {};
  Announcement announced_ = Announcement::up;
  Tick risk_until_ {};
};

} // namespace tandem::links
