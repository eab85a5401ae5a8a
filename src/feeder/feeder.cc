#include "src/feeder/feeder.h"

#include <algorithm>
#include <chrono>
#include <limits>

namespace tandem::feeder
{

namespace
{

using namespace std::chrono_literals;

constexpr Duration retry = 1s;
constexpr Duration quiet_between_lines = 10s;
constexpr std::size_t most_candidates = 256, most_surveys = 256, most_modems = 8,
                      most_interfaces = 64; // drivers may be hostile, too
constexpr Duration candidate_kept = 60s;
// Some 20 m at walking speed: what was heard longer ago may be another place's.
constexpr Duration candidate_counts = 15s;

std::string span_text(Duration span)
{
  return span >= 1s ? std::to_string(span / 1s) + " s" : std::to_string(span / 1ms) + " ms";
}

} // namespace

Feeder::Feeder(std::vector<std::unique_ptr<Source>> sources, std::vector<Mac> own, Say say, EstimatorSettings settings)
    : say_ { std::move(say) }, own_ { own.empty() ? Mac {} : own.front() }, air_ { own_ },
      estimator_ { std::move(own), settings }, load_ { own_ }
{
  for (auto& source : sources)
    slots_.emplace_back(std::move(source));
}

void Feeder::receive(Tick now, std::vector<RadioEvent>& events)
{
  seen_ = now;
  for (Slot& slot : slots_)
  {
    if (slot.source->fd() < 0 && (slot.tried == Tick {} || now - slot.tried >= retry))
    {
      slot.tried = now;
      if (slot.source->reopen(now))
      {
        if (slot.said_closed) say_(false, slot.source->name() + " is back");
        slot.said_closed = false;
      }
      else if (!slot.said_closed && !slot.source->optional())
      {
        slot.said_closed = true;
        say_(true, slot.source->name() + ": nothing comes from there: " + slot.source->problem());
      }
    }
    follow_own(slot);
    if (slot.source->fd() >= 0) read(slot, now, events);
    check_staleness(slot, now);
  }
  if (ap_ != ap_told_)
  {
    ap_told_ = ap_;
    for (Slot& slot : slots_)
      slot.source->set_ap(ap_);
  }
  estimator_.advance(now);
  std::erase_if(candidates_, [&](const auto& one) { return now - one.second.at > candidate_kept; });
  std::stable_sort(events.begin(), events.end(), [](const auto& a, const auto& b) { return a.at < b.at; });
}

void Feeder::set_interfaces(const std::vector<std::string>& interfaces)
{
  std::erase_if(interfaces_, [&](const auto& one)
                { return std::find(interfaces.begin(), interfaces.end(), one.first) == interfaces.end(); });
  for (Slot& slot : slots_)
    slot.source->set_interfaces(interfaces);
}

// Network managers give an interface another address with another network (cloned-mac-address=random, stable-ssid).
void Feeder::follow_own(const Slot& slot)
{
  const auto own = slot.source->own_address();
  if (!own || *own == own_) return;
  own_ = *own;
  air_ = AirLog { own_ };
  estimator_.set_own({ own_ });
  load_ = OwnLoad { own_ };
}

void Feeder::read(Slot& slot, Tick now, std::vector<RadioEvent>& events)
{
  reports_.clear();
  const bool alive = slot.source->receive(now, reports_);
  for (Report& report : reports_)
  {
    if (!slot.gate.take(now))
    {
      ++slot.limited;
      continue;
    }
    if (slot.validation.examine(report, now)) estimator_.forget();
    if (tap_) tap_(slot.source->name(), report);
    ++slot.reports;
    slot.last = std::max(slot.last, report.at);
    if (slot.is_stale) say_(false, slot.source->name() + " speaks again");
    slot.is_stale = false;
    const std::optional<Mac> before = ap_;
    take(slot, report, events);
    if (ap_ == before) continue;
    // Which channel was in use is said of the access point before.
    for (auto& [frequency, survey] : surveys_)
      survey.in_use = false;
  }
  if (!reports_.empty()) tell_doubts(slot);
  if (alive) return;
  slot.tried = now;
  went_away(slot);
  if (!slot.said_closed) say_(true, slot.source->name() + " has ended: " + slot.source->problem());
  slot.said_closed = true;
}

void Feeder::take(Slot& slot, const Report& report, std::vector<RadioEvent>& events)
{
  if (const auto* frame = std::get_if<Frame>(&report.what))
  {
    slot.frames = slot.steady = true;
    events.push_back(air_.take(*frame, report.at));
    // The driver tells of that itself. Without it it is a forged frame, or another radio of the same access point.
    if (events.back().kind == RadioEventKind::associated && driver_tells_ap())
      events.back().kind = RadioEventKind::heard;
    // Anybody can send us frames in the name of an access point; nobody makes the driver associate with it by that.
    if (air_.ap() && !driver_tells_ap()) ap_ = air_.ap();
    estimator_.take(*frame, report.at);
    load_.take(*frame, report.at);
  }
  else if (const auto* stats = std::get_if<StationStats>(&report.what))
  {
    slot.driver = slot.steady = true;
    station_.take(*stats, report.at, events);
    busy_.take(*stats);
    load_.take(*stats, report.at);
    ap_ = station_.ap();
    estimator_.take(*stats, report.at);
  }
  else if (const auto* change = std::get_if<WifiChange>(&report.what))
  {
    station_.take(*change, report.at, events);
    ap_ = station_.ap();
    if (change->kind == WifiChange::Kind::disconnected) air_.forget_ap();
  }
  else if (const auto* survey = std::get_if<Survey>(&report.what))
  {
    slot.steady = true;
    // Who surveys several channels may not know which one is ours.
    Survey known = *survey;
    // There is one that is in use: an older report of another channel is of before we went over to this one.
    if (known.in_use)
      for (auto& [frequency, one] : surveys_)
        one.in_use = false;
    known.in_use = known.in_use || known.frequency == frequency();
    if (surveys_.size() < most_surveys || surveys_.contains(known.frequency)) surveys_[known.frequency] = known;
    busy_.take(known, report.at);
  }
  else if (const auto* candidate = std::get_if<Candidate>(&report.what))
  {
    // Two sources, or one access point by two names, may tell of a beacon that is older than what is known.
    const Known told { *candidate, report.at };
    const auto known = candidates_.find(candidate->ap);
    if (known == candidates_.end() ? make_room_for(*candidate) : told.heard() >= known->second.heard())
      candidates_.insert_or_assign(candidate->ap, told);
  }
  else if (const auto* modem = std::get_if<ModemStats>(&report.what))
  {
    slot.modem = slot.steady = true;
    if (modem->gone)
      modems_.erase(modem->modem);
    else if (modems_.size() < most_modems || modems_.contains(modem->modem))
      modems_[modem->modem] = *modem;
  }
  else if (const auto* interface = std::get_if<InterfaceChange>(&report.what))
  {
    if (interface->gone)
      interfaces_.erase(interface->interface);
    else if (interfaces_.size() < most_interfaces || interfaces_.contains(interface->interface))
      interfaces_[interface->interface] = *interface;
  }
}

void Feeder::tell_doubts(Slot& slot)
{
  for (std::size_t i = 0; i < doubt_count; ++i)
  {
    if (slot.validation.counts()[i] == 0 || slot.said_doubt[i]) continue;
    slot.said_doubt[i] = true;
    say_(true, slot.source->name() + " is not accepted: " + std::string { feeder::name(static_cast<Doubt>(i)) }
                   + (static_cast<Doubt>(i) == Doubt::constant_signal ? "; warnings of a weak signal are off"
                                                                      : "; such values count as absent"));
  }
}

// Windows of frames and differences of counters pass by themselves; what was reported once does not.
void Feeder::went_away(const Slot& slot)
{
  if (slot.modem) modems_.clear();
}

// Of more than are remembered the strongest are, and ours. False: it is weaker than all of them.
bool Feeder::make_room_for(const Candidate& fresh)
{
  if (candidates_.size() < most_candidates) return true;
  const auto worth = [this](const Candidate& one)
  { return one.ap == ap_ ? std::numeric_limits<float>::max() : one.signal.value_or(-200.F); };
  const auto least = std::min_element(candidates_.begin(), candidates_.end(),
                                      [&](const auto& a, const auto& b)
                                      { return worth(a.second.candidate) < worth(b.second.candidate); });
  if (worth(fresh) <= worth(least->second.candidate)) return false;
  candidates_.erase(least);
  return true;
}

bool Feeder::driver_tells_ap() const
{
  return station_.ap()
         && std::any_of(slots_.begin(), slots_.end(),
                        [](const Slot& slot) { return slot.driver && !slot.is_stale && slot.source->fd() >= 0; });
}

bool Feeder::may_fall_silent(const Slot& slot) const
{
  if (slot.last == Tick {} || slot.is_stale || !slot.steady) return false;
  // Not associated, the driver has nothing to report, and has told so.
  return !slot.driver || slot.frames || ap_;
}

void Feeder::check_staleness(Slot& slot, Tick now)
{
  if (!may_fall_silent(slot) || now - slot.last <= slot.source->stale_after()) return;
  slot.is_stale = true;
  ++slot.stale;
  went_away(slot);
  if (slot.said_at != Tick {} && now - slot.said_at < quiet_between_lines) return;
  slot.said_at = now;
  say_(true, slot.source->name() + " has reported nothing for " + span_text(slot.source->stale_after())
                 + "; what depends on it is off until it does");
}

Tick Feeder::due() const
{
  Tick next = Tick::max();
  for (const Slot& slot : slots_)
  {
    next = std::min(next, slot.source->fd() < 0 ? slot.tried + retry : slot.source->due());
    if (may_fall_silent(slot) && slot.source->stale_after() < 24h)
      next = std::min(next, slot.last + slot.source->stale_after() + 1ms);
  }
  return next;
}

std::vector<Feeder::Descriptor> Feeder::descriptors() const
{
  std::vector<Descriptor> all;
  for (const Slot& slot : slots_)
    if (slot.source->fd() >= 0) all.push_back({ slot.source->fd(), slot.frames });
  return all;
}

bool Feeder::hears_frames() const
{
  return std::any_of(slots_.begin(), slots_.end(),
                     [](const Slot& slot) { return slot.frames && !slot.is_stale && slot.source->fd() >= 0; });
}

bool Feeder::signal_validated() const
{
  return std::none_of(slots_.begin(), slots_.end(), [](const Slot& slot) { return !slot.validation.signal_varies(); });
}

std::optional<ApEstimate> Feeder::current() const
{
  if (!ap_) return {};
  auto estimate = estimator_.estimate(*ap_);
  if (!estimate) return {};
  const bool fresh = std::any_of(slots_.begin(), slots_.end(),
                                 [&](const Slot& slot)
                                 {
                                   const bool basis = estimate->basis == Basis::frames ? slot.frames : slot.driver;
                                   return basis && !slot.is_stale && slot.source->fd() >= 0;
                                 });
  return fresh ? estimate : std::nullopt;
}

unsigned Feeder::frequency() const
{
  if (!ap_) return 0;
  if (const unsigned heard = estimator_.frequency(*ap_); heard != 0) return heard;
  if (const auto known = candidates_.find(*ap_); known != candidates_.end()) return known->second.candidate.frequency;
  for (const auto& [frequency, survey] : surveys_)
    if (survey.in_use) return frequency;
  return 0;
}

std::optional<float> Feeder::best_candidate() const
{
  const auto ours = ap_ ? candidates_.find(*ap_) : candidates_.end();
  // Hidden networks have no name to tell them apart by.
  if (ours == candidates_.end() || ours->second.candidate.ssid.empty()) return {};
  std::optional<float> best {};
  for (const auto& [mac, known] : candidates_)
  {
    const Candidate& one = known.candidate;
    // Of an association of several links (802.11be) each counts as one that we are associated with.
    if (mac == *ap_ || one.associated || one.ssid != ours->second.candidate.ssid || !one.signal) continue;
    if (seen_ - known.heard() > candidate_counts) continue;
    best = std::max(best.value_or(*one.signal), *one.signal);
  }
  return best;
}

std::optional<RadioState> Feeder::radio() const
{
  const auto known = current();
  if (!known) return {};
  RadioState state { .packet_time = known->packet_time,
                     .confidence = static_cast<float>(known->confidence),
                     .frequency = frequency(),
                     .busy = busy_.share(seen_) };
  if (known->packet_time) state.received = load_.share(seen_, *known->packet_time);
  if (known->delivery) state.delivery = static_cast<float>(*known->delivery);
  if (!signal_validated()) return state;
  state.signal = known->signal;
  state.candidate = best_candidate();
  return state;
}

std::vector<Feeder::Status> Feeder::status(Tick now) const
{
  std::vector<Status> all;
  for (const Slot& slot : slots_)
  {
    const bool open = slot.source->fd() >= 0;
    Status one { .name = slot.source->name(),
                 .state = State::silent,
                 .problem = slot.source->problem(),
                 .reports = slot.reports,
                 .skipped = slot.source->skipped(),
                 .limited = slot.limited,
                 .stale = slot.stale,
                 .doubts = slot.validation.counts() };
    if (!open)
      one.state = State::closed;
    else if (slot.is_stale)
      one.state = State::stale;
    else if (slot.last != Tick {})
      one.state = State::fresh;
    if (slot.last != Tick {}) one.age = now - slot.last;
    all.push_back(std::move(one));
  }
  return all;
}

} // namespace tandem::feeder
