#include "src/association/choice.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace tandem::association
{
namespace
{

using namespace std::chrono_literals;

// A reading differs from the next one by a few dB, and people walk past.
constexpr Duration weak_for = 5s, stronger_for = 10s;

std::string whole(double value)
{
  return std::to_string(std::lround(value));
}

const Station* station_at(const std::vector<Station>& all, const Mac& ap)
{
  const auto found = std::find_if(all.begin(), all.end(), [&](const Station& one) { return one.ap == ap; });
  return found == all.end() ? nullptr : &*found;
}

std::optional<float> signal_of(const Station& station, const std::vector<Heard>& all)
{
  if (station.signal) return station.signal;
  const Heard* heard = heard_of(all, station.ap);
  return heard == nullptr ? std::nullopt : heard->signal;
}

std::vector<Station>::const_iterator weakest_of(const std::vector<Station>& all, const std::vector<Heard>& heard)
{
  return std::min_element(all.begin(), all.end(),
                          [&](const Station& a, const Station& b)
                          { return signal_of(a, heard).value_or(-200) < signal_of(b, heard).value_or(-200); });
}

} // namespace

const Heard* heard_of(const std::vector<Heard>& all, const Mac& ap)
{
  const auto found = std::find_if(all.begin(), all.end(), [&](const Heard& one) { return one.ap == ap; });
  return found == all.end() ? nullptr : &*found;
}

std::vector<Heard> newest(const std::vector<Heard>& all)
{
  std::vector<Heard> out {};
  for (const Heard& one : all)
  {
    const auto before = std::find_if(out.begin(), out.end(), [&](const Heard& other) { return other.ap == one.ap; });
    if (before == out.end())
      out.push_back(one);
    else if (one.age.value_or(Duration::max()) < before->age.value_or(Duration::max()))
      *before = one;
  }
  return out;
}

void Chooser::failed(const Mac& ap, Tick now, std::string why)
{
  rests_.begin(ap, now, std::move(why));
}

// Why an access point without a station is not worth one; empty: it is.
std::string Chooser::against(const Heard& heard, const Situation& now) const
{
  if (heard.ssid.empty()) return "its name is hidden";
  if (now.networks && !now.networks->contains(heard.ssid))
    return "wpa_supplicant has no such network, or it is disabled or excluded";
  if (!now.own) return now.interface + " is not associated";
  const Heard* own = heard_of(now.heard, *now.own);
  if (own == nullptr) return "the channel of " + now.interface + " is not known yet";
  if (heard.frequency != own->frequency)
    return "on another channel (" + now.interface + " is on " + std::to_string(own->frequency)
           + " MHz): stations on several channels take turns, which is not done on cards yet";
  if (!heard.signal) return "the driver tells no signal";
  if (heard.age && *heard.age > stale_scan) return "not heard for " + whole(seconds(*heard.age)) + " s";
  if (*heard.signal < join_signal) return "too weak: from " + whole(join_signal) + " dBm on it is joined";
  if (const Rests::Rest* its = rests_.of(heard.ap, now.now))
    return "rests for " + whole(std::ceil(seconds(its->until - now.now))) + " s: " + its->why;
  return {};
}

// Why a station has to go; empty: it stays.
std::string Chooser::against(const Station& one, std::size_t room, const Situation& now)
{
  const Heard* heard = heard_of(now.heard, one.ap);
  const Heard* own = now.own ? heard_of(now.heard, *now.own) : nullptr;
  const auto signal = signal_of(one, now.heard);
  const bool weak = signal && *signal < leave_signal;
  if (!weak) weak_since_.erase(one.ap);
  const Tick since = weak ? weak_since_.try_emplace(one.ap, now.now).first->second : now.now;
  if (room == 0) return "virtual stations are switched off";
  if (!now.own) return now.interface + " is not associated: it gets the radio for itself";
  if (*now.own == one.ap) return now.interface + " is at this access point now";
  if (heard != nullptr && own != nullptr && heard->frequency != own->frequency)
    return now.interface + " is on another channel now";
  if (heard != nullptr && !heard->ssid.empty() && now.networks && !now.networks->contains(heard->ssid))
    return "the network was removed, disabled or excluded";
  if (now.now - since < weak_for) return {};
  rests_.begin(one.ap, now.now, "it was too weak");
  return "too weak for " + whole(seconds(weak_for)) + " s";
}

// Lets go of stations; returns those that stay.
std::vector<Station> Chooser::let_go(std::size_t room, const Situation& now, Choice& choice)
{
  std::vector<Station> stay {};
  for (const Station& one : now.stations)
    if (std::string why = against(one, room, now); why.empty())
      stay.push_back(one);
    else
      choice.leave.push_back({ one.interface, std::move(why) });
  std::erase_if(weak_since_, [&](const auto& one) { return station_at(now.stations, one.first) == nullptr; });
  std::erase_if(stronger_since_, [&](const auto& one) { return heard_of(now.heard, one.first) == nullptr; });
  // Of fewer than there were, the strongest stay.
  while (stay.size() > room)
  {
    const auto weakest = weakest_of(stay, now.heard);
    choice.leave.push_back({ weakest->interface, "fewer access points are wanted" });
    stay.erase(weakest);
  }
  return stay;
}

// What is to be with each access point in range, the strongest first; of one that is worth a station and has none
// nothing is said yet.
void Chooser::judge(const Situation& now, Choice& choice)
{
  std::vector<Heard> ordered = now.heard;
  std::stable_sort(ordered.begin(), ordered.end(),
                   [](const Heard& a, const Heard& b) { return a.signal.value_or(-200) > b.signal.value_or(-200); });
  for (const Heard& heard : ordered)
  {
    Judgement one { .heard = heard };
    const Station* station = station_at(now.stations, heard.ap);
    if (now.own && heard.ap == *now.own)
      one = { heard, now.interface, true, "the access point of " + now.interface };
    else if (station != nullptr)
    {
      const auto left = std::find_if(choice.leave.begin(), choice.leave.end(),
                                     [&](const Choice::Leave& leave) { return leave.interface == station->interface; });
      one = { heard, station->interface, left == choice.leave.end(),
              left != choice.leave.end() ? left->why : (station->associated ? "kept" : "being associated") };
    }
    else
    {
      one.why = against(heard, now);
      if (one.why.empty() && !now.cannot.empty()) one.why = now.cannot;
      one.worth = one.why.empty();
      if (!one.worth) stronger_since_.erase(heard.ap);
    }
    choice.all.push_back(std::move(one));
  }
}

// Who joins, into the room that is left or in the place of a weaker one.
void Chooser::take_on(std::size_t room, const std::vector<Station>& stay, const Situation& now, Choice& choice)
{
  const bool busy = std::any_of(stay.begin(), stay.end(), [](const Station& one) { return !one.associated; });
  for (Judgement& one : choice.all)
  {
    if (!one.worth || !one.why.empty()) continue;
    if (stay.size() < room)
    {
      one.why = "worth it";
      // One after the other: a card authenticates with one at a time.
      if (!busy && !choice.join && choice.leave.empty()) choice.join = one.heard.ap;
      continue;
    }
    const auto weakest = weakest_of(stay, now.heard);
    const float other = signal_of(*weakest, now.heard).value_or(-200);
    if (*one.heard.signal < other + stronger)
    {
      stronger_since_.erase(one.heard.ap);
      one.worth = false;
      one.why =
          "no room: " + std::to_string(now.most) + " are kept, and none of them is " + whole(stronger) + " dB weaker";
      continue;
    }
    one.why = "stronger than " + weakest->interface + ": takes its place";
    const Tick since = stronger_since_.try_emplace(one.heard.ap, now.now).first->second;
    if (now.now - since < stronger_for || !choice.leave.empty() || busy) continue;
    stronger_since_.erase(one.heard.ap);
    rests_.begin(weakest->ap, now.now, "a stronger one took its place");
    choice.leave.push_back({ weakest->interface, "a stronger access point takes its place" });
  }
}

Choice Chooser::look(const Situation& now)
{
  Choice choice {};
  const std::size_t room = now.most < 2 ? 0 : now.most - 1;
  const std::vector<Station> stay = let_go(room, now, choice);
  judge(now, choice);
  if (room > 0)
    take_on(room, stay, now, choice);
  else
    for (Judgement& one : choice.all)
      if (one.worth && one.why.empty()) one.why = "worth it: `tandem aps keep 2` makes use of it";
  return choice;
}

} // namespace tandem::association
