// Turns between several channels: which access points the card is present at, and which interfaces' subflows are
// backups.
#include "src/association/associator.h"
#include "src/kernel/clock.h"
#include "src/kernel/interface_bytes.h"

#include <algorithm>

namespace tandem::association
{

using nlohmann::json;

// The interfaces that have an address, by frequency. The card's own counts with its access point.
std::map<unsigned, std::set<std::string>> Associator::by_channel() const
{
  std::map<unsigned, std::set<std::string>> all {};
  if (!view_ || made_.empty()) return all;
  if (const Heard* own = view_->ap ? heard_of(view_->heard, *view_->ap) : nullptr)
    all[own->frequency].insert(interface_);
  for (const auto& [name, made] : made_)
    if (made.lease) all[frequency_of(view_->heard, made.ap, made.frequency)].insert(name);
  return all;
}

void Associator::take_turns()
{
  const auto channels = by_channel();
  std::vector<ChannelTurns::Channel> now {};
  for (const auto& [frequency, interfaces] : channels)
  {
    now.push_back({ .frequency = frequency });
    for (const std::string& one : interfaces)
      now.back().bytes += kernel::arrived_by(one);
  }
  const ChannelTurns::Step step = turns_.look(now, kernel::now());
  turn_next_ = step.next;

  std::set<std::string> away {};
  for (const unsigned frequency : step.backup)
    away.insert(channels.at(frequency).begin(), channels.at(frequency).end());
  // Subflows first: what is on its way by then comes yet.
  if (away != told_away_)
  {
    away_(away);
    told_away_ = away;
  }
  for (const ChannelTurns::Order& order : step.orders)
  {
    Presence::Report report { .done = kernel::now() };
    // How the card's own association saves power is the user's business.
    if (const auto its = channels.find(order.frequency); its != channels.end())
      for (const std::string& one : its->second)
        if (one != interface_ && report.problem.empty()) report = power_save_.order(one, order.present);
    turns_.carried_out(order, report);
  }
  if (const bool disobeys = !turns_.problem().empty(); disobeys != disobedience_said_)
  {
    if (disobeys) say_(true, "turns between channels by subflows alone: " + turns_.problem());
    disobedience_said_ = disobeys;
  }
}

json Associator::turns_told() const
{
  const ChannelTurns::Counters& counters = turns_.counters();
  json out { { "doing", turns_.why() },
             { "problem", turns_.problem() },
             { "backup", told_away_ },
             { "orders", counters.orders },
             { "late", counters.late },
             { "failed", counters.failed },
             { "longest_ms", milliseconds(counters.longest) } };
  if (turns_.best() != 0) out["best_mhz"] = turns_.best();
  return out;
}

} // namespace tandem::association
