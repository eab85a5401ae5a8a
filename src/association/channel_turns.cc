#include "src/association/channel_turns.h"

#include <algorithm>

namespace tandem::association
{

ChannelTurns::Known* ChannelTurns::known(unsigned frequency)
{
  const auto found =
      std::find_if(channels_.begin(), channels_.end(), [&](const Known& one) { return one.frequency == frequency; });
  return found == channels_.end() ? nullptr : &*found;
}

void ChannelTurns::begin(std::span<const Channel> channels, Tick now)
{
  std::vector<Known> fresh {};
  for (const Channel& one : channels)
  {
    const Known* before = known(one.frequency);
    fresh.push_back({ one.frequency, one.bytes, before == nullptr || before->present, now });
  }
  channels_ = std::move(fresh);
  rule_ = {};
  best_ = 0;
  failures_ = 0;
  problem_.clear();
  why_ = {};
  if (channels_.size() < 2) return;
  plan_ = rule_.next(std::vector<BestChannel::Visit>(channels_.size()));
  why_ = plan_.why;
  cycle_began_ = now;
  cycle_ends_ = now + longest_cycle;
}

void ChannelTurns::end_cycle(std::span<const Channel> channels, Tick now)
{
  std::vector<BestChannel::Visit> visits(channels_.size());
  std::uint64_t total = 0;
  for (std::size_t i = 0; i < channels_.size(); ++i)
  {
    Known& one = channels_[i];
    const std::uint64_t bytes = channels[i].bytes - std::min(one.bytes, channels[i].bytes);
    total += bytes;
    if (one.present) one.there += now - one.since;
    // A card that shares its time tells nobody how; where all slots are equal that is no matter.
    visits[i] = { static_cast<double>(bytes), one.there };
    one = { one.frequency, channels[i].bytes, one.present, now };
  }
  const bool idle = total < idle_bytes;
  // While nothing is downloaded nothing is learnt, nor from a cycle during which nobody looked: a sleep, a slow driver.
  if (!idle && now - cycle_ends_ < longest_cycle)
  {
    plan_ = rule_.next(visits);
    const bool compared = std::count(plan_.backup.begin(), plan_.backup.end(), true) != 0;
    if (compared) best_ = channels_[rule_.best()].frequency;
  }
  why_ = idle ? "nothing is downloaded" : plan_.why;
  // A late cycle does not move the next one, as long as that has not begun.
  const Duration length = idle && !in_slots() ? idle_cycle : longest_cycle;
  cycle_began_ = now - cycle_ends_ < length ? cycle_ends_ : now;
  cycle_ends_ = cycle_began_ + length;
}

// Slots follow each other in the order of the channels.
Tick ChannelTurns::slot_begin(std::size_t channel) const
{
  Tick begin = cycle_began_;
  for (std::size_t i = 0; i < channel; ++i)
    begin += plan_.slots[i];
  return begin;
}

bool ChannelTurns::wanted(std::size_t channel, Tick now) const
{
  if (channels_.size() < 2 || !problem_.empty()) return true;
  if (!in_slots() || plan_.slots[channel] <= Duration {}) return plan_.slots[channel] > Duration {};
  const Tick begin = slot_begin(channel);
  // What rounding leaves of the cycle belongs to the last one.
  const bool last = std::all_of(plan_.slots.begin() + static_cast<std::ptrdiff_t>(channel) + 1, plan_.slots.end(),
                                [](Duration slot) { return slot <= Duration {}; });
  return now >= begin && (last || now < begin + plan_.slots[channel]);
}

Tick ChannelTurns::next_slot(Tick now) const
{
  Tick next = cycle_ends_;
  for (std::size_t i = 0; in_slots() && i < channels_.size(); ++i)
    if (const Tick begin = slot_begin(i); plan_.slots[i] > Duration {} && begin > now) next = std::min(next, begin);
  return next;
}

ChannelTurns::Step ChannelTurns::look(std::span<const Channel> channels, Tick now)
{
  const bool same = std::equal(channels.begin(), channels.end(), channels_.begin(), channels_.end(),
                               [](const Channel& a, const Known& b) { return a.frequency == b.frequency; });
  if (!same) begin(channels, now);
  const bool several = channels_.size() >= 2;
  if (several && now >= cycle_ends_) end_cycle(channels, now);

  Step step {};
  for (const bool present : { false, true }) // who goes tells it before somebody else is there
    for (std::size_t i = 0; i < channels_.size(); ++i)
      if (wanted(i, now) == present && channels_[i].present != present)
        step.orders.push_back({ channels_[i].frequency, present, several && in_slots() ? slot_begin(i) : now });
  // Who goes does so when the slot begins that another one gets.
  for (Order& order : step.orders)
    if (!order.present) order.due = step.orders.back().present ? step.orders.back().due : now;
  if (!several) return step;
  for (std::size_t i = 0; i < channels_.size(); ++i)
    if (plan_.backup[i]) step.backup.insert(channels_[i].frequency);
  step.next = next_slot(now);
  return step;
}

void ChannelTurns::carried_out(const Order& order, const Presence::Report& report)
{
  const Duration took = std::max(report.done - order.due, Duration {});
  ++counters_.orders;
  counters_.longest = std::max(counters_.longest, took);
  if (!report.problem.empty())
    ++counters_.failed;
  else if (took > switching_cost)
    ++counters_.late;
  failures_ = report.problem.empty() ? 0 : failures_ + 1;
  if (failures_ >= most_failures) problem_ = report.problem;

  Known* its = known(order.frequency);
  if (its == nullptr) return;
  // Where the order failed the card is as it was; it is not asked again before the next slot.
  if (its->present && !order.present) its->there += report.done - its->since;
  if (!its->present && order.present) its->since = report.done;
  its->present = order.present;
}

} // namespace tandem::association
