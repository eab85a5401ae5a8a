#include "modules/ecn/packet_times.h"

#include <algorithm>

namespace tandem::ecn
{

namespace
{

using namespace std::chrono_literals;

constexpr Duration unsure_for = 5s;      // of traffic, without a packet time that can be validated
constexpr Duration radio_window = 500ms; // of an estimate (section 5.1)
constexpr Duration evidence_for = 4s;
constexpr Duration look_again = 5s;
// How long the packet time of a link that is left out counts at most: a look at it costs a flood of a queue.
constexpr Duration remember_for = 600s;
// Beacons come from a link that is left out, too. Its packet time is another one when it is heard so much better than
// then, which two fading signals are not by chance.
constexpr float other_signal = 3; // dB
constexpr Duration sought_for = 4s;

} // namespace

// A link that gets few packets, because a slow one takes the air, shows little at a time.
std::optional<Duration> PacketTimes::weigh(Evidence& evidence, const RadioState& radio, Tick now, double least)
{
  if (radio.confidence >= least)
  {
    evidence = {};
    return radio.packet_time;
  }
  if (now - evidence.taken < radio_window) return {}; // the same frames
  if (now - evidence.from > evidence_for) evidence = { .from = now };
  evidence.taken = now;
  evidence.weight += radio.confidence;
  evidence.weighted_time += radio.confidence * seconds(*radio.packet_time);
  if (!(evidence.weight >= least)) return {}; // what is no number is no evidence
  const Duration mean = from_seconds(evidence.weighted_time / evidence.weight);
  evidence = { .from = now, .taken = now };
  return mean;
}

// Whether looking again at a link is worth it: not while it is heard worse than then.
bool PacketTimes::outdated(const Memory& memory, const RadioState* radio, bool left_out, Duration best, Tick now) const
{
  if (now - memory.at > remember_for) return true;
  if (left_out && radio != nullptr && radio->signal && memory.signal && *radio->signal <= *memory.signal - other_signal)
    return false;
  // The good links have become much worse since.
  return now - memory.at > look_again && memory.best_then > Duration {}
         && seconds(best) >= RankingSettings {}.clear * seconds(memory.best_then);
}

// Whether the signal of a link that is left out is about to become the stronger one. What a look finds there counts
// from then on: the next one takes as much again.
bool PacketTimes::heard_better(const Memory& memory, const SignalTrend& trend) const
{
  return trend.told() && memory.signal && strongest_ && *trend.told() >= *memory.signal + other_signal
         && *trend.now() >= *strongest_;
}

// A link that is left out has no traffic by which its packet time could be told: the last one counts, as long as the
// radio reports something of another link.
void PacketTimes::learn(const LinkStates& links, const LeftOut& left_out, std::uint64_t delivered, double least,
                        Duration best, Tick now)
{
  if (delivered != delivered_) traffic_ += std::min<Duration>(now - learned_, unsure_for);
  delivered_ = delivered;
  learned_ = now;
  strongest_.reset();
  for (std::size_t i = 0; i < most_wifi; ++i)
  {
    const auto& radio = links[at(wifi_link(i))].radio;
    trends_[i].look(radio ? radio->signal : std::nullopt, now);
    if (const auto signal = trends_[i].now(); signal && times_[i] && !left_out[i])
      strongest_ = std::max(strongest_.value_or(*signal), *signal);
  }
  bool alive = false;
  const auto sure = [&](const Memory& memory) { return traffic_ - memory.traffic_at <= unsure_for; };
  for (std::size_t i = 0; i < most_wifi; ++i)
  {
    const auto& radio = links[at(wifi_link(i))].radio;
    const RadioState* heard = radio ? &*radio : nullptr;
    const bool stronger = memory_[i] && left_out[i] && heard_better(*memory_[i], trends_[i]);
    if (stronger) sought_at_[i] = now;
    if (stronger || (memory_[i] && outdated(*memory_[i], heard, left_out[i], best, now))) memory_[i].reset();
    if (radio && radio->packet_time && *radio->packet_time > Duration {})
      if (const auto valid = weigh(evidence_[i], *radio, now, least))
        memory_[i] = { *valid, now, traffic_, best, radio->signal };
    alive = alive || (memory_[i] && !left_out[i] && sure(*memory_[i]));
  }
  for (std::size_t i = 0; i < most_wifi; ++i)
  {
    if (memory_[i] && alive && left_out[i]) memory_[i]->traffic_at = traffic_;
    times_[i].reset();
    if (memory_[i] && sure(*memory_[i])) times_[i] = memory_[i]->packet_time;
    sought_[i] = !times_[i] && sought_at_[i] != Tick {} && now - sought_at_[i] <= sought_for;
  }
}

} // namespace tandem::ecn
