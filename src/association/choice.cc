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

std::vector<Station>::const_iterator weakest(const std::vector<Station>& stations, const std::vector<Heard>& all)
{
  return std::min_element(stations.begin(), stations.end(),
                          [&](const Station& a, const Station& b)
                          { return signal_of(a, all).value_or(-200) < signal_of(b, all).value_or(-200); });
}

// Why a station at `frequency` would be one too many beside the card's own association and these stations; empty: it
// would not.
std::string beyond(unsigned frequency, const Heard& own, const std::vector<Station>& stations, const Situation& now)
{
  std::set<unsigned> channels { own.frequency, frequency };
  for (const Station& one : stations)
    if (const unsigned its = frequency_of(now.heard, one.ap, one.frequency); its != 0) channels.insert(its);
  if (channels.size() <= 1) return {};
  if (now.channels <= 1 && frequency != own.frequency)
    return "on another channel (" + now.interface + " is on " + std::to_string(own.frequency)
           + " MHz): " + now.one_channel;
  if (channels.size() > std::max<std::size_t>(now.channels, 1))
    return "on a channel too many: the card or its driver can be on " + std::to_string(now.channels);
  if (stations.size() + 2 > now.most_apart)
    return "on several channels the card or its driver can be at " + std::to_string(now.most_apart) + " access points";
  return {};
}

} // namespace

const Heard* heard_of(const std::vector<Heard>& all, const Mac& ap)
{
  const auto found = std::find_if(all.begin(), all.end(), [&](const Heard& one) { return one.ap == ap; });
  return found == all.end() ? nullptr : &*found;
}

unsigned frequency_of(const std::vector<Heard>& all, const Mac& ap, unsigned otherwise)
{
  const Heard* heard = heard_of(all, ap);
  return heard == nullptr || heard->frequency == 0 ? otherwise : heard->frequency;
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
std::string Chooser::against(const Heard& heard, const Heard* own, const Situation& now) const
{
  if (heard.ssid.empty()) return "its name is hidden";
  if (now.networks && !now.networks->contains(heard.ssid))
    return "wpa_supplicant has no such network, or it is disabled, excluded or of one access point alone (bssid)";
  if (!now.own) return now.interface + " is not associated";
  if (own == nullptr) return "the channel of " + now.interface + " is not known yet";
  if (std::string why = beyond(heard.frequency, *own, now.stations, now); !why.empty()) return why;
  if (!heard.signal) return "the driver tells no signal";
  if (heard.age && *heard.age > stale_scan) return "not heard for " + whole(seconds(*heard.age)) + " s";
  if (*heard.signal < join_signal) return "too weak: from " + whole(join_signal) + " dBm on it is joined";
  if (const Rests::Rest* its = rests_.of(heard.ap, now.now))
    return "rests for " + whole(std::ceil(seconds(its->until - now.now))) + " s: " + its->why;
  return {};
}

std::vector<Station> Chooser::who_stays(const Situation& now, const Heard* own, std::size_t room, Choice& choice)
{
  std::vector<Station> stay {};
  for (const Station& one : now.stations)
  {
    const Heard* heard = heard_of(now.heard, one.ap);
    const auto signal = signal_of(one, now.heard);
    const unsigned frequency = frequency_of(now.heard, one.ap, one.frequency);
    const bool weak = signal && *signal < leave_signal;
    if (!weak) weak_since_.erase(one.ap);
    const Tick since = weak ? weak_since_.try_emplace(one.ap, now.now).first->second : now.now;
    std::string why {};
    if (room == 0)
      why = "virtual stations are switched off";
    else if (now.seen && !now.own)
      why = now.interface + " is not associated: it gets the radio for itself";
    else if (now.own && *now.own == one.ap)
      why = now.interface + " is at this access point now";
    else if (frequency != 0 && own != nullptr && !beyond(frequency, *own, stay, now).empty())
      why = now.channels <= 1 ? now.interface + " is on another channel now" : beyond(frequency, *own, stay, now);
    else if (heard != nullptr && !heard->ssid.empty() && now.networks && !now.networks->contains(heard->ssid))
      why = "the network was removed, disabled, excluded or bound to one access point";
    else if (now.now - since >= weak_for)
    {
      why = "too weak for " + whole(seconds(weak_for)) + " s";
      rests_.begin(one.ap, now.now, "it was too weak");
    }
    if (why.empty())
      stay.push_back(one);
    else
      choice.leave.push_back({ one.interface, why });
  }
  std::erase_if(weak_since_, [&](const auto& one) { return station_at(now.stations, one.first) == nullptr; });
  std::erase_if(stronger_since_, [&](const auto& one) { return heard_of(now.heard, one.first) == nullptr; });
  // Of fewer than there were, the strongest stay.
  while (stay.size() > room)
  {
    const auto last = weakest(stay, now.heard);
    choice.leave.push_back({ last->interface, "fewer access points are wanted" });
    stay.erase(last);
  }
  return stay;
}

Choice Chooser::look(const Situation& now)
{
  Choice choice {};
  const std::size_t room = now.most < 2 ? 0 : now.most - 1;
  const Heard* own = now.own ? heard_of(now.heard, *now.own) : nullptr;
  std::vector<Station> stay = who_stays(now, own, room, choice);

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
      one.why = against(heard, own, now);
      if (one.why.empty() && !now.cannot.empty()) one.why = now.cannot;
      one.worth = one.why.empty();
      if (!one.worth) stronger_since_.erase(heard.ap);
    }
    choice.all.push_back(std::move(one));
  }
  if (room == 0)
  {
    for (Judgement& one : choice.all)
      if (one.worth && one.why.empty()) one.why = "worth it: `tandem aps keep 2` makes use of it";
    return choice;
  }

  // What is on the card's own channel comes first: no turns have to be taken for it.
  const auto apart = [own](unsigned frequency) { return own != nullptr && frequency != own->frequency; };
  bool join_apart = false;
  const bool busy = std::any_of(stay.begin(), stay.end(), [](const Station& one) { return !one.associated; });
  for (Judgement& one : choice.all)
  {
    if (!one.worth || !one.why.empty()) continue;
    if (stay.size() < room)
    {
      one.why = "worth it";
      // One after the other: a card authenticates with one at a time.
      if (!busy && choice.leave.empty() && (!choice.join || (join_apart && !apart(one.heard.frequency))))
      {
        choice.join = one.heard.ap;
        join_apart = apart(one.heard.frequency);
      }
      continue;
    }
    const auto last = weakest(stay, now.heard);
    const float other = signal_of(*last, now.heard).value_or(-200);
    const bool costs = apart(one.heard.frequency) && !apart(frequency_of(now.heard, last->ap, last->frequency));
    if (costs || *one.heard.signal < other + stronger)
    {
      stronger_since_.erase(one.heard.ap);
      one.worth = false;
      one.why =
          "no room: " + std::to_string(now.most) + " are kept, "
          + (costs ? "on the channel of " + now.interface : "and none of them is " + whole(stronger) + " dB weaker");
      continue;
    }
    one.why = "stronger than " + last->interface + ": takes its place";
    const Tick since = stronger_since_.try_emplace(one.heard.ap, now.now).first->second;
    if (now.now - since < stronger_for || !choice.leave.empty() || busy) continue;
    stronger_since_.erase(one.heard.ap);
    rests_.begin(last->ap, now.now, "a stronger one took its place");
    choice.leave.push_back({ last->interface, "a stronger access point takes its place" });
  }
  return choice;
}

} // namespace tandem::association
