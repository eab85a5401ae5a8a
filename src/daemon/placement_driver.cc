#include "src/daemon/placement_driver.h"

#include "src/kernel/interface_setting.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

namespace tandem::daemon
{

using nlohmann::json;

namespace
{

const kernel::PlacedCount& count_of(const kernel::PlacementState& state, Link link)
{
  static const kernel::PlacedCount none {};
  const auto found = state.count.find(placement_value(link));
  return found == state.count.end() ? none : found->second;
}

} // namespace

std::uint64_t PlacementDriver::counted(const kernel::PlacementState& state,
                                       const std::array<std::uint64_t, link_count>& arrived, Tick now)
{
  for (const Link link : all_links)
  {
    if (link == Link::other) continue;
    capacity_[at(link)].look(now, arrived[at(link)]);
    const kernel::PlacedCount& count = count_of(state, link);
    if (count.rtt_us > 0) rtt_[at(link)] = std::chrono::microseconds { count.rtt_us };
    if (link != Link::wifi) trial_[at(link)].look(now, count.connections, count.answered);
  }
  const kernel::PlacedCount& cell = count_of(state, Link::cell);
  const std::uint64_t all = cell.bytes_in + cell.bytes_out;
  return all - std::exchange(cell_bytes_, all);
}

LinkOutlook PlacementDriver::outlook(Link link, bool up, std::string barred, bool away, Tick now)
{
  // Channels are compared for a second now and then (BestChannel): rules are not made anew for that.
  constexpr Duration comparison = std::chrono::seconds { 3 };
  if (away) away_at_[at(link)] = now;
  if (barred.empty() && trial_[at(link)].barred(now)) barred = "nothing that was begun by it lately was answered";
  return { .up = up,
           .capacity = capacity_[at(link)].bytes_per_second(),
           .rtt = rtt_[at(link)],
           .barred = std::move(barred),
           .away = away_at_[at(link)] && now - *away_at_[at(link)] < comparison };
}

std::optional<kernel::PlacementPlan> PlacementDriver::due(const PlacementInputs& inputs,
                                                          const kernel::PlacementState& state, Tick now)
{
  constexpr Duration pause = std::chrono::seconds { 60 }; // each try loads rules, and may say why not in the log
  looked_ = now;
  decision_ = place(inputs, decision_);
  const kernel::PlacementPlan& plan = decision_.plan;
  // Off, and nothing to end: the keeper need not hear of it.
  const bool idle = !plan.choose && !told_.choose && !(plan.let_go && state.kept);
  const bool failed = plan.choose && !state.why.empty() && now >= again_;
  if (!unsent_ && !failed && (idle || plan == told_)) return {};
  told_ = plan;
  unsent_ = false;
  again_ = now + pause;
  return told_;
}

bool PlacementDriver::look_due(bool enabled, Tick now) const
{
  return (enabled || unsent_) && now - looked_ >= std::chrono::seconds { 1 };
}

json PlacementDriver::json(const Config::Placement& settings, const kernel::PlacementState& state) const
{
  std::string why = decision_.why.empty() ? state.why : decision_.why;
  nlohmann::json links = nlohmann::json::object();
  for (const Link link : all_links)
  {
    if (link == Link::other) continue;
    const auto& part = decision_.parts[at(link)];
    const kernel::PlacedCount& count = count_of(state, link);
    if (!part && count.connections == 0 && count.alive == 0) continue;
    nlohmann::json one { { "share", part ? part->share : 0.0 },
                         { "why", part ? part->why : "" },
                         { "connections", count.connections },
                         { "alive", count.alive } };
    if (link != Link::wifi)
      one.update({ { "answered", count.answered }, { "bytes_in", count.bytes_in }, { "bytes_out", count.bytes_out } });
    if (const double capacity = capacity_[at(link)].bytes_per_second(); capacity > 0)
      one["seen_mbps"] = capacity * 8e-6;
    if (rtt_[at(link)]) one["rtt_ms"] = seconds(*rtt_[at(link)]) * 1e3;
    links[std::string { name(link) }] = std::move(one);
  }
  return { { "enabled", settings.enabled },
           { "in_force", state.in_force },
           { "why", why },
           { "kept", state.kept },
           { "sites", settings.by_site ? "keep" : "spread" },
           { "shares", settings.shares.empty() ? "auto" : "given" },
           { "links", std::move(links) },
           { "last_error", state.last_error } };
}

bool filters_reverse_path(const std::string& interface)
{
  // The kernel takes the greater of the two (Documentation/networking/ip-sysctl).
  return std::max(kernel::interface_setting("ipv4/conf/all/rp_filter"),
                  kernel::interface_setting("ipv4/conf/" + interface + "/rp_filter"))
         == "1";
}

} // namespace tandem::daemon
