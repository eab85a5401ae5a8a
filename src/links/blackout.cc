#include "src/links/blackout.h"

#include <algorithm>

namespace tandem::links
{

namespace
{

using namespace std::chrono_literals;

constexpr Duration fast_look = 10ms;      // at the counter, while traffic flows
constexpr Duration slow_look = 250ms;     // while none does
constexpr Duration sent_look = 100ms;     // while this host has sent, and nothing has arrived yet
constexpr Duration suspicious_look = 5ms; // while probes are out
constexpr Duration busy_memory = 1s;      // silence is worth a look for so long after the link was busy
constexpr Duration gap_memory = 2s;
constexpr Duration settled_after = 2s;      // a sender that recovers from a blackout pauses without a habit of it
constexpr Duration probe_gap = 25ms;        // of a suspicious link
constexpr Duration probe_gap_radio = 8ms;   // likewise, when its radio is heard: an acknowledgement takes microseconds
constexpr Duration radio_probe_time = 20ms; // a frame that waits longer for its acknowledgement will not get one
constexpr Duration radio_tolerance = 50ms;  // between what the radio hears and what the interface counts
// Probes that were kept are answered within that time after the blackout, behind whatever else was kept.
constexpr Duration keeping_shows = 500ms;
constexpr std::uint32_t keeping_probes = 4; // so many at least must have been sent into it
constexpr Duration lesson_gap = 200ms;
constexpr std::uint32_t lessons_at_first = 5;
constexpr Duration lesson_gap_later = 10s;
constexpr Duration suspicion_longest = 2s;
// Servers that are gone, or packets that nobody answers by their nature: each costs a probe, and the next one waits.
constexpr Duration sent_rest_first = 1s;
constexpr Duration sent_rest_longest = 32s;
constexpr int sent_patience = 3; // times verdict_after: nothing is in a hurry
constexpr Duration radio_silence_longest = 60ms;
constexpr Duration timeout_step = 5s; // of traffic without a wrong suspicion
constexpr double timeout_most = 8;
// A young flow over a long path sends a flight and waits for a round trip: its pauses are no silence. And a station
// that dozes meanwhile is woken by a probe, so that the next answers come sooner than those before: a sender takes the
// growing delay that follows for a queue (HyStart, RFC 9406), and every third upload took 2.5 times as long
// (docs/results/drawn.md). So a probe comes early only where traffic has flowed for a while without a pause.
constexpr Duration smooth_after = 1s;
constexpr Duration pause_memory = 60s;

} // namespace

BlackoutDetector::BlackoutDetector(const DetectorSettings& settings) : settings_ { settings } {}

void BlackoutDetector::watch(bool on, Tick now)
{
  if (on == watching_) return;
  watching_ = on;
  total_known_ = sent_known_ = false;
  sent_unanswered_ = 0;
  suspicious_ = false;
  busy_until_ = {};
  forget_probes();
  // Without evidence coming in, a verdict based on it cannot be kept.
  if (!on && !up() && cause_ != BlackoutCause::carrier && cause_ != BlackoutCause::announced)
  {
    cause_ = BlackoutCause::none;
    since_ = last_up_ = now;
  }
}

void BlackoutDetector::carrier(bool up_now, Tick now)
{
  if (up_now == carrier_) return;
  carrier_ = up_now;
  if (!up_now)
  {
    go_down(BlackoutCause::carrier, now);
    return;
  }
  // A new association: whether its gateway answers is to be learned.
  answered_once_ = false;
  lessons_ = 0;
  rtt_count_ = 0;
  odds_.forget();
  forget_probes();
  probe_now_ = true;
  if (held_down(now))
    cause_ = BlackoutCause::announced;
  else
    go_up(now);
}

void BlackoutDetector::new_gateway(bool probeable, Tick)
{
  probeable_ = probeable;
  answered_once_ = false;
  lessons_ = 0;
  rtt_count_ = 0;
  keeps_probes_ = judging_ = false;
  forget_probes();
}

void BlackoutDetector::received_total(std::uint64_t packets, Tick now)
{
  const Duration span = now - looked_;
  looked_ = now;
  if (!total_known_ || packets <= total_)
  {
    // Less than before: the interface was made anew.
    const bool same = total_known_ && packets == total_;
    total_known_ = true;
    total_ = packets;
    if (!same) arrived_ = std::max(arrived_, now);
    return;
  }
  std::uint64_t fresh = packets - total_;
  total_ = packets;
  arrived_unheard_ += fresh;
  if (radio_present_ && !radio_stale_ && arrived_unheard_ > settings_.busy_packets
      && now - std::max(heard_, radio_since_) > 2 * radio_tolerance)
  {
    radio_stale_ = true;
    ++counters_.radio_stale;
  }
  // What a slow look counted came over a longer time than the window.
  if (span > settings_.busy_window)
    fresh = static_cast<std::uint64_t>(static_cast<double>(fresh) * seconds(settings_.busy_window) / seconds(span));
  newest_ = (newest_ + 1) % arrivals_.size();
  arrivals_[newest_] = { now, fresh };

  // A look that came late saw no pause, only its own lateness.
  const bool late = span >= 3 * fast_look;
  const Duration gap = now - arrived_;
  if (busy(now) && !expecting_ && !suspicious_ && up() && !late
      && (gap > usual_gap_ || now - usual_gap_at_ > gap_memory))
  {
    usual_gap_ = gap;
    usual_gap_at_ = now;
  }
  // Of an idle time looked at slowly nobody knows when it ended; of a busy link, late looks tell of a busy machine.
  if (gap >= settings_.silence && !expecting_ && !(late && busy(now))) note_pause(late ? Duration::max() : gap, now);
  since_cleared_ += fresh;
  std::uint64_t lately = 0;
  for (const Arrival& one : arrivals_)
    if (one.packets != 0 && one.at > now - settings_.busy_window) lately += one.packets;
  if (lately >= settings_.busy_packets)
  {
    busy_until_ = now + busy_memory;
    // The answers of probes alone do not end a pause.
    if (since_cleared_ >= settings_.busy_packets / 2)
    {
      if (looked_into_) note_pause(now - pause_from_, now);
      looked_into_ = false;
      if (now - last_up_ >= settled_after) expecting_ = false;
    }
  }
  alive(now);
}

void BlackoutDetector::sent_total(std::uint64_t packets, Tick now)
{
  const std::uint64_t fresh = sent_known_ && packets > sent_total_ ? packets - sent_total_ : 0;
  sending_ = fresh > 0;
  sent_known_ = true;
  sent_total_ = packets;
  // What was sent since the last look may be older than what has arrived since.
  if (arrived_ >= now || !up()) sent_unanswered_ = 0;
  if (fresh == 0 || arrived_ >= now || suspicious_) return;
  if (sent_unanswered_ == 0) sent_first_ = now;
  sent_unanswered_ += fresh;
}

void BlackoutDetector::frame_arrived(Tick now)
{
  alive(now);
}

void BlackoutDetector::probe_sent(Tick now)
{
  ++counters_.probes_sent;
  probe_now_ = false;
  probed_ = now;
  odds_.waiting(now);
  if (unanswered_++ == 0) first_unanswered_ = now;
  ++(up() ? asked_since_ : asked_in_vain_);
}

void BlackoutDetector::probe_answered(Tick now)
{
  ++counters_.probes_answered;
  // An ARP reply does not say which probe it answers: the first one, most often, so the time since then is never too
  // short. Where other frames arrived in between, the answer may have waited behind them; a silent link has no such
  // queue. The answers of a link that comes back waited for the link.
  const bool contradicted = !up() && now - since_ <= false_alarm_within;
  const bool alone = up() && unanswered_ == 1 && arrived_ <= probed_;
  if (unanswered_ > 0 && (suspicious_ || contradicted || alone))
    rtts_[rtt_count_++ % rtts_.size()] = now - first_unanswered_;
  answered_once_ = true;
  if (suspicious_) clear_suspicion(true, now);
  forget_probes();
  alive(now);
  ++answered_since_;
  judge_keeping(now);
}

// Whether what was sent into the last blackout has been answered since its end.
void BlackoutDetector::judge_keeping(Tick now)
{
  if (!judging_ || !up()) return;
  const bool kept = answered_since_ >= asked_since_ + asked_in_vain_ / 2;
  if (!kept && now - last_up_ < keeping_shows) return;
  judging_ = false;
  keeps_probes_ = kept;
}

void BlackoutDetector::radio(const feeder::RadioEvent& event, Tick now)
{
  using Kind = feeder::RadioEventKind;
  // Of a real one the driver tells, and the carrier goes, within tens of milliseconds (docs/results/radio-vm.md):
  // probes would not know it sooner, and forged ones would draw them.
  if (event.deauthentication) ++counters_.deauthentications;
  // A driver may keep what it is given while the access point is away: how long that waits is no wait for the channel.
  if (event.attempt && up()) odds_.attempted(event.at, event.retry);
  switch (event.kind)
  {
  case Kind::sent:
    return;
  case Kind::other:
    other_heard_ = std::max(other_heard_, event.at);
    odds_.other();
    return;
  case Kind::failed:
    if (event.at >= heard_) transmission_failed_ = true;
    return;
  case Kind::disconnected:
    // The carrier has the last word where it is gone already: what arrived before counts for nothing.
    if (watching_ && carrier_) go_down(BlackoutCause::disconnected, now);
    return;
  case Kind::heard:
  case Kind::beacon:
  case Kind::acknowledged:
  case Kind::associated:
    break;
  }
  const bool fresh = event.at > heard_;
  heard_ = std::max(heard_, event.at);
  arrived_unheard_ = 0;
  radio_stale_ = false;
  transmission_failed_ = false;
  if (event.kind == Kind::acknowledged) acknowledgements_seen_ = true;
  if (event.kind == Kind::associated)
    odds_.forget();
  else if (up() && event.kind == Kind::acknowledged)
    odds_.acknowledged(event.at);
  else if (up())
    odds_.heard(event.at);
  // Frames heard before the verdict was given are no new evidence.
  if (!up())
  {
    if (event.at <= since_) return;
    if (event.kind == Kind::acknowledged || event.kind == Kind::associated)
      alive(now);
    else if (fresh && now - probed_ >= 2ms)
      probe_now_ = true; // the access point is audible: does it hear us?
    return;
  }
  if (!suspicious_ || event.at <= suspected_) return;
  if (event.kind == Kind::acknowledged)
  {
    clear_suspicion(unanswered_ > 0, now);
    quiet_since_ = now;
  }
  else if (event.kind == Kind::heard && now - std::max(arrived_, quiet_since_) < silence_wanted(now))
    clear_suspicion(false, now); // it was the radio alone that was silent
}

void BlackoutDetector::radio_present(bool present, Tick now)
{
  radio_present_ = present;
  radio_since_ = now;
  arrived_unheard_ = 0;
  if (present) return;
  heard_ = other_heard_ = {};
  odds_.forget();
  transmission_failed_ = acknowledgements_seen_ = radio_stale_ = false;
}

void BlackoutDetector::announce(Announcement what, Duration span, Tick now)
{
  if (what == Announcement::risk)
  {
    risk_until_ = now + span;
    return;
  }
  announced_ = what;
  announced_until_ = now + span;
  if (what == Announcement::down)
  {
    if (up()) go_down(BlackoutCause::announced, now);
    return;
  }
  risk_until_ = {};
  suspicious_ = false;
  forget_probes();
  if (carrier_ && !up()) go_up(now);
}

BlackoutDetector::Step BlackoutDetector::advance(Tick now)
{
  // What was announced is over, and there is nothing to tell by whether it still holds.
  if (cause_ == BlackoutCause::announced && !held_down(now) && (!watching_ || !probeable_ || arrived_ > since_))
    go_up(now);
  Step step { .next = Tick::max() };
  if (watching_) step = up() ? advance_up(now) : advance_down(now);
  if (cause_ == BlackoutCause::announced && held_down(now)) step.next = std::min(step.next, announced_until_);
  if (now < risk_until_) step.next = std::min(step.next, risk_until_);
  return step;
}

BlackoutDetector::Step BlackoutDetector::advance_down(Tick now)
{
  if (cause_ == BlackoutCause::carrier) return { .next = Tick::max() };
  if (!probeable_) return { .next = now + 2 * fast_look };
  const Duration gap = probe_gap_down(now);
  if (probe_now_ || now - probed_ >= gap) return { .send_probe = true, .next = now + gap };
  return { .next = probed_ + gap };
}

BlackoutDetector::Step BlackoutDetector::advance_up(Tick now)
{
  const bool announced_up = announced_ == Announcement::up && now < announced_until_;
  const bool hearing = radio_usable();
  judge_keeping(now);
  if (!suspicious_ && busy(now) && !announced_up)
  {
    if (timeout_ > 1 && now - timeout_at_ > timeout_step) raise_timeout(1 / 1.5, now);
    const auto radio_wanted =
        looked_into_   ? settings_.silence_longest
        : !smooth(now) ? silence_wanted(now)
                       : std::min<Duration>(std::chrono::duration_cast<Duration>(settings_.radio_silence * timeout_),
                                            radio_silence_longest);
    // Once for each pause: what is sent behind it tells of a link that goes meanwhile.
    const bool silent = !looked_into_ && now - std::max(arrived_, quiet_since_) >= silence_wanted(now);
    if (hearing && acknowledgements_seen_ && probeable_ && now - std::max(heard_, quiet_since_) >= radio_wanted)
      suspect(now);
    else if (silent && probeable_ && answered_once_)
      suspect(now);
    else if (silent && !unprovable_told_)
    {
      ++counters_.unprovable;
      unprovable_told_ = true;
    }
  }

  // By what it has sent since, however long ago the link was busy.
  if (!suspicious_ && !busy(now) && !announced_up && probeable_ && answered_once_
      && sent_unanswered_ >= settings_.unanswered_packets
      && now - std::max(sent_first_, arrived_) >= settings_.unanswered && now >= sent_look_at_)
    suspect(now, true);

  Step step { .next = now + (busy(now) ? fast_look : sent_unanswered_ > 0 ? sent_look : slow_look) };
  if (suspicious_)
  {
    const bool silent_radio = hearing && acknowledgements_seen_ && now - heard_ >= settings_.radio_silence
                              && now - arrived_ >= settings_.radio_silence;
    const bool unacknowledged =
        unanswered_ >= 2 && now - first_unanswered_ >= radio_probe_time && now - heard_ >= settings_.radio_verdict;
    const bool by_radio = silent_radio && (unacknowledged || (transmission_failed_ && unanswered_ >= 1));
    const Duration wanted = settings_.verdict_after * (for_sending_ ? sent_patience : 1);
    const bool by_silence = answered_once_ && unanswered_ >= settings_.verdict_probes
                            && now - first_unanswered_ >= std::max<Duration>(wanted, 4 * probe_rtt())
                            && now - arrived_ >= settings_.silence;
    if ((by_radio || by_silence) && may_be_alive(now))
    {
      if (!held_back_told_) ++counters_.held_back;
      held_back_told_ = true;
    }
    else if (by_radio || by_silence)
    {
      go_down(by_radio ? BlackoutCause::radio : BlackoutCause::silence, now);
      return advance_down(now);
    }
    if (now - suspected_ >= suspicion_longest)
    {
      suspicious_ = false;
      busy_until_ = {};
      sent_look_at_ = now + sent_rest_first;
      ++counters_.undecided;
      forget_probes();
      return { .next = now + slow_look };
    }
    step.send_probe =
        (unanswered_ == 0 || now - probed_ >= (hearing ? probe_gap_radio : probe_gap)) && probe_gate_.take(now);
    step.next = now + suspicious_look;
    return step;
  }
  // Whether the gateway answers at all is learned while there is traffic, so that an idle link stays quiet.
  const Duration lesson_wait = lessons_ < lessons_at_first ? lesson_gap : lesson_gap_later;
  if (probeable_ && !answered_once_ && (busy(now) || probe_now_ || sending_)
      && (probe_now_ || now - probed_ >= lesson_wait) && probe_gate_.take(now))
  {
    ++lessons_;
    step.send_probe = true;
  }
  probe_now_ = false;
  if (hearing && busy(now)) step.next = std::min(step.next, std::max(heard_ + settings_.radio_silence, now + 1ms));
  return step;
}

// A dead link leaves every attempt unacknowledged, and the next one soon says so. Where a live one answers few, or
// rarely gets the channel, only many attempts or a long wait tell them apart.
bool BlackoutDetector::may_be_alive(Tick now) const
{
  return radio_usable() && acknowledgements_seen_ && now - first_unanswered_ < held_back_most
         && odds_.surprise(channel_shared(), now) < odds_.enough(now);
}

// In the present silence: what waits may be waiting for others.
bool BlackoutDetector::channel_shared() const
{
  return other_heard_ > std::min(heard_, first_unanswered_);
}

bool BlackoutDetector::radio_usable() const
{
  return radio_present_ && !radio_stale_ && heard_ != Tick {} && heard_ + radio_tolerance >= arrived_;
}

Duration BlackoutDetector::probe_rtt() const
{
  // The shortest: a silent link has no queue in front of the answer.
  const auto end = rtts_.begin() + static_cast<std::ptrdiff_t>(std::min(rtt_count_, rtts_.size()));
  const auto least = std::min_element(rtts_.begin(), end);
  return least == end ? Duration::zero() : *least;
}

void BlackoutDetector::go_down(BlackoutCause cause, Tick now)
{
  if (cause_ == cause) return;
  ++counters_.verdicts[static_cast<std::size_t>(cause)];
  if (up())
  {
    sent_rest_ = {};
    sent_look_at_ = {};
    since_ = last_down_ = now;
    was_busy_ = busy(now);
    judging_ = false;
    asked_in_vain_ = unanswered_;
    by_chance_ = odds_.surprise(channel_shared(), now) < 2 * odds_.enough(now);
  }
  cause_ = cause;
  suspicious_ = false;
}

void BlackoutDetector::go_up(Tick now)
{
  const bool by_evidence = cause_ == BlackoutCause::silence || cause_ == BlackoutCause::radio;
  if (by_evidence && now - since_ <= false_alarm_within)
  {
    ++counters_.false_alarms;
    raise_timeout(2, now);
    // What was far from anything that this link does alive was a blackout, and a short one.
    if (by_chance_ && acknowledgements_seen_)
    {
      ++counters_.learned;
      odds_.was_there(now);
    }
  }
  else if (by_evidence)
    timeout_ = 1;
  odds_.was_away();
  cause_ = BlackoutCause::none;
  since_ = last_up_ = quiet_since_ = now;
  usual_gap_ = pause_ = {};
  smooth_since_ = now - smooth_after;
  suspicious_ = false;
  forget_probes();
  judging_ = asked_in_vain_ >= keeping_probes;
  asked_since_ = answered_since_ = 0;
  // Who waited for data still does: the link may fade again before much has come.
  if (was_busy_) busy_until_ = now + busy_memory;
  expecting_ = true;
  looked_into_ = false;
  since_cleared_ = 0;
}

void BlackoutDetector::alive(Tick now)
{
  arrived_ = std::max(arrived_, now);
  unprovable_told_ = false;
  if (!watching_ && cause_ != BlackoutCause::announced) return;
  if (!up() && cause_ != BlackoutCause::carrier && !held_down(now))
    go_up(now);
  else if (suspicious_)
    clear_suspicion(false, now);
}

void BlackoutDetector::suspect(Tick now, bool for_sending)
{
  suspicious_ = true;
  for_sending_ = for_sending;
  if (!looked_into_) pause_from_ = arrived_;
  sent_unanswered_ = 0;
  if (for_sending) ++counters_.unanswered;
  suspected_ = now;
  held_back_told_ = false;
  ++counters_.suspicions;
  // Older probes were sent into another silence.
  forget_probes();
}

void BlackoutDetector::clear_suspicion(bool by_probe, Tick now)
{
  suspicious_ = false;
  ++(by_probe ? counters_.cleared_by_probe : counters_.cleared_by_traffic);
  if (for_sending_)
  {
    sent_rest_ = std::clamp<Duration>(2 * sent_rest_, sent_rest_first, sent_rest_longest);
    sent_look_at_ = now + sent_rest_;
    quiet_since_ = now;
    forget_probes();
    return;
  }
  // Once for each pause of the sender. Right after a blackout its pauses are no habit.
  if (!expecting_ && !looked_into_) raise_timeout(1.5, now);
  looked_into_ = looked_into_ || by_probe;
  since_cleared_ = 0;
  quiet_since_ = now;
  if (!by_probe) forget_probes();
}

void BlackoutDetector::forget_probes()
{
  unanswered_ = 0;
  first_unanswered_ = {};
}

void BlackoutDetector::raise_timeout(double factor, Tick now)
{
  timeout_ = std::clamp(timeout_ * factor, 1.0, timeout_most);
  timeout_at_ = now;
}

// Traffic flows again after so long; Duration::max(): nobody knows.
void BlackoutDetector::note_pause(Duration pause, Tick now)
{
  smooth_since_ = now;
  if (pause > settings_.pause_longest || (pause < pause_ && now - pause_at_ < pause_memory)) return;
  pause_ = pause;
  pause_at_ = now;
}

bool BlackoutDetector::smooth(Tick now) const
{
  return now - smooth_since_ >= smooth_after;
}

Duration BlackoutDetector::silence_wanted(Tick now) const
{
  const Duration longest = std::max(settings_.silence, settings_.silence_longest);
  const auto lengthened = std::chrono::duration_cast<Duration>(settings_.silence * timeout_);
  const Duration usual = 2 * usual_gap_;
  const Duration wanted =
      looked_into_ ? longest : std::min(std::max({ settings_.silence, lengthened, usual }), longest);
  if (smooth(now)) return wanted;
  // Before the first pause nobody knows how long the sender's are.
  const bool known = pause_ > Duration {} && now - pause_at_ < pause_memory;
  const Duration of_late = known ? pause_ * 5 / 4 : settings_.pause_longest;
  return std::max({ wanted, settings_.pause, std::min(of_late, settings_.pause_longest) });
}

Duration BlackoutDetector::probe_gap_down(Tick now) const
{
  // A driver that keeps frames for an access point which is away lets all of them go at once when it is back. Then one
  // that it keeps is as good as any later one, and each of them is air that the first acknowledgements wait for.
  const Duration down_for = now - since_;
  if (keeps_probes_) return std::clamp<Duration>(down_for / 2, 25ms, 500ms);
  if (down_for < 500ms) return 8ms;
  if (down_for < 3s) return 12ms;
  return down_for < 10s ? 25ms : 50ms;
}

} // namespace tandem::links
