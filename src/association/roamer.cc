#include "src/association/roamer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

namespace tandem::association
{
namespace
{

using namespace std::chrono_literals;

// While somebody is waited for.
constexpr Duration soon = 200ms, period = 1s;
// Who is where it was after this did not go.
constexpr Duration unmoved = 4s;
// The driver's average of the signal begins anew at the new access point.
constexpr Duration judge_after = 3s;
// Whoever agrees that no access point has it: the rest of all of them.
constexpr Mac nobody {};

std::string dbm(float signal)
{
  return std::to_string(std::lround(signal)) + " dBm";
}

std::optional<float> signal_of_own(const Roamer::Seen& seen)
{
  if (seen.signal) return seen.signal;
  const Heard* heard = seen.own ? heard_of(seen.heard, *seen.own) : nullptr;
  return heard == nullptr ? std::nullopt : heard->signal;
}

// By whichever of its links.
bool is_at(const Roamer::Seen& seen, const Mac& ap)
{
  return seen.own == ap || (seen.own && seen.links.contains(ap));
}

} // namespace

// Whereto, by what is known now.
Roamer::Chosen Roamer::choose(const Seen& seen) const
{
  if (!seen.problem.empty()) return { .why = seen.problem, .problem = true };
  if (!seen.own) return { .why = seen.interface + " is not associated" };
  if (seen.state.empty()) return { .why = "wpa_supplicant does not answer" };
  if (seen.state != "COMPLETED") return { .why = "wpa_supplicant is busy (" + seen.state + ")" };
  const Heard* own = heard_of(seen.heard, *seen.own);
  if (own == nullptr || own->ssid.empty()) return { .why = "the name of this network is not known" };
  if (!seen.networks.contains(own->ssid))
    return { .why =
                 "wpa_supplicant has no such network, or it is disabled, excluded or of one access point alone (bssid)",
             .problem = true };
  const auto signal = signal_of_own(seen);
  if (!signal) return { .why = "the driver tells no signal" };

  const Heard* best = nullptr;
  bool weaker = false;
  Chosen against {};
  for (const Heard& one : seen.heard)
  {
    if (is_at(seen, one.ap) || one.ssid != own->ssid || !one.signal || one.age.value_or(0s) > stale_scan) continue;
    const auto left = left_.find(one.ap);
    const bool weak = *one.signal < *signal + margin;
    std::string why {};
    if (left != left_.end() && seen.now - left->second < not_back)
      why = feeder::text(one.ap) + " was left less than a minute ago";
    else if (const Rests::Rest* rest = rests_.of(one.ap, seen.now))
      why = feeder::text(one.ap) + " rests: " + rest->why;
    else if (seen.stations && one.frequency != own->frequency)
      why = feeder::text(one.ap) + " is on another channel, and virtual stations hold this one";
    if (weak)
      weaker = true;
    else if (!why.empty())
      against.why = why; // more than that it is no better
    else if (best == nullptr || *one.signal > *best->signal)
      best = &one;
  }
  if (best == nullptr && against.why.empty())
    against.why =
        weaker ? "no other access point of this network is " + std::to_string(std::lround(margin)) + " dB stronger"
               : "no other access point of this network was heard lately";
  if (best == nullptr) return against;
  if (const Rests::Rest* rest = all_rest_.of(nobody, seen.now)) return { .why = "roaming rests: " + rest->why };
  if (moved_at_ != Tick::min() && seen.now - moved_at_ < apart) return { .why = "the card has just moved" };
  return { .to = best->ap };
}

// Whoever moved it: the way back would be to and fro.
void Roamer::follow_own(const Seen& seen)
{
  std::erase_if(left_, [&](const auto& one) { return seen.now - one.second >= not_back; });
  if (own_ && seen.own && !is_at(seen, *own_) && seen.now - own_seen_ < not_back)
  {
    left_[*own_] = seen.now;
    for (const Mac& link : links_)
      left_[link] = seen.now;
    moved_at_ = seen.now;
  }
  if (!seen.own) return;
  own_ = seen.own;
  links_ = seen.links;
  own_seen_ = seen.now;
}

Roamer::Step Roamer::look(const Seen& seen)
{
  follow_own(seen);
  Step step { .next = seen.wanted ? seen.now + period : Tick::max() };
  switch (phase_)
  {
  case Phase::idle:
    idle(seen, step);
    break;
  case Phase::announced:
    announced(seen, step);
    break;
  case Phase::moving:
    moving(seen, step);
    break;
  case Phase::judged:
    judged(seen, step);
    break;
  }
  return step;
}

void Roamer::idle(const Seen& seen, Step& step)
{
  if (!seen.wanted)
  {
    against_.clear();
    return;
  }
  const Chosen chosen = choose(seen);
  if (!chosen.to) return stay(chosen, step);
  against_.clear();
  phase_ = Phase::announced;
  since_ = seen.now;
  to_ = *chosen.to;
  step.announce = to_;
  step.next = seen.now + ready_for;
}

void Roamer::stay(const Chosen& chosen, Step& step)
{
  if (chosen.why == against_) return;
  against_ = chosen.why;
  ++counters_.stayed;
  last_ = "no roam: " + chosen.why;
  // What the user can do something about is said once.
  if (!chosen.problem || chosen.why == said_) return;
  said_ = chosen.why;
  step.said = last_;
  step.problem = true;
}

void Roamer::announced(const Seen& seen, Step& step)
{
  const Chosen chosen = choose(seen);
  if (!seen.wanted || chosen.to != to_)
  {
    phase_ = Phase::idle;
    if (seen.wanted && !chosen.to) stay(chosen, step);
    return;
  }
  step.next = since_ + ready_for;
  if (seen.now < step.next) return;
  phase_ = Phase::moving;
  since_ = seen.now;
  from_ = *seen.own;
  from_signal_ = signal_of_own(seen);
  ++counters_.asked;
  step.ask = to_;
  step.next = seen.now + soon;
  step.said = seen.interface + " is asked to roam to " + feeder::text(to_) + ", from " + dbm(*from_signal_) + " to "
              + dbm(*heard_of(seen.heard, to_)->signal);
}

void Roamer::unwanted(const std::string& why, Tick now)
{
  if (phase_ != Phase::announced) return;
  phase_ = Phase::idle;
  rests_.begin(to_, now, why);
}

void Roamer::refused(const std::string& why, Tick now)
{
  if (phase_ == Phase::moving) fail(why, now);
}

void Roamer::fail(const std::string& why, Tick now)
{
  phase_ = Phase::idle;
  ++counters_.failed;
  last_ = "no roam to " + feeder::text(to_) + ": " + why;
  rest(now, "a roam failed");
}

void Roamer::rest(Tick now, const std::string& why)
{
  rests_.begin(to_, now, why);
  all_rest_.begin(nobody, now, why);
}

void Roamer::moving(const Seen& seen, Step& step)
{
  step.next = seen.now + soon;
  const bool settled = seen.own && seen.state == "COMPLETED";
  if (settled && is_at(seen, to_))
  {
    phase_ = Phase::judged;
    since_ = seen.now;
    ++counters_.moved;
    last_ = "roamed to " + feeder::text(to_);
    step.arrived = true;
    step.said = seen.interface + " has " + last_;
    step.next = seen.now + judge_after;
  }
  else if (settled && is_at(seen, from_) && seen.now - since_ >= unmoved)
    fail("the card stays at " + feeder::text(from_), seen.now);
  else if (settled && !is_at(seen, from_) && seen.now - since_ >= unmoved)
    fail("the card is at " + feeder::text(*seen.own), seen.now);
  else if (seen.now - since_ >= roam_limit)
    fail("it did not let us in (" + (seen.state.empty() ? "wpa_supplicant does not answer" : seen.state) + ")",
         seen.now);
  if (phase_ == Phase::idle)
  {
    step.said = last_;
    step.problem = true;
  }
}

void Roamer::judged(const Seen& seen, Step& step)
{
  if (is_at(seen, to_) && seen.now - since_ < judge_after)
  {
    step.next = since_ + judge_after;
    return;
  }
  phase_ = Phase::idle;
  const auto signal = signal_of_own(seen);
  if (!is_at(seen, to_) || !signal || !from_signal_ || *signal > *from_signal_) return;
  ++counters_.worse;
  last_ = "roamed to " + feeder::text(to_) + ", which is no better: " + dbm(*signal) + ", " + dbm(*from_signal_)
          + " before";
  rest(seen.now, "the last one made it no better");
  step.said = last_;
}

} // namespace tandem::association
