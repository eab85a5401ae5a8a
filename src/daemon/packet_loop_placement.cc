// New connections on several links: which links may have some, and what the keeper is told.
#include "src/daemon/packet_loop.h"
#include "src/daemon/service.h"
#include "src/feeder/sources/nl80211_network.h"
#include "src/kernel/clock.h"
#include "src/kernel/interface_bytes.h"

#include <array>
#include <chrono>
#include <string>

namespace tandem::daemon
{

// Why no connection may begin by the link, as far as nobody else says; empty: it may.
std::string PacketLoop::barred(Link link) const
{
  const links::LinkInfo& info = monitor_[link];
  if (link == Link::cell && !cell_denied_.empty()) return cell_denied_;
  if (link == Link::cell && chain_.budget_spent()) return "the budget of the cellular link is spent";
  if (link == Link::wifi || info.ifindex == 0) return {};
  if (filters_reverse_path(info.interface))
    return "what arrives for another address is dropped there (rp_filter 1); 2 is needed: sysctl net.ipv4.conf."
           + info.interface + ".rp_filter=2";
  if (link == Link::cell) return {};
  if (const auto watch = more_validation_.find(link); watch != more_validation_.end())
    if (std::string why = watch->second.why(); !why.empty()) return why;
  if (exclusions_->known().asks_ssid())
    if (const auto name = feeder::nl80211::network_name(info.ifindex))
      if (const Exclusion* one = exclusions_->known().of_ssid(*name))
        return "the Wi-Fi network is excluded (" + one->text() + ")";
  return {};
}

// What the keeper has counted, by now: that nothing was answered shows by what does not change.
void PacketLoop::placed(Tick now)
{
  std::array<std::uint64_t, link_count> arrived {};
  for (const Link link : all_links)
    arrived[at(link)] = kernel::arrived_by(monitor_[link].interface);
  const std::uint64_t spent = placement_.counted(keeper_.state().placement, arrived, now);
  if (spent == 0) return;
  inputs_.add(now, trace::input::Spent { spent });
  chain_.spent(spent);
}

void PacketLoop::place_connections(Tick now)
{
  const bool wanted = config_.placement.enabled;
  // What is counted last, and charged, arrives with the word that nothing is kept any more.
  if (wanted || !keeper_.state().placement.count.empty()) placed(now);
  std::array<LinkOutlook, link_count> outlook {};
  for (const Link link : all_links)
  {
    if (!wanted || link == Link::other) continue;
    const LinkState& state = chain_.link_states()[at(link)];
    outlook[at(link)] =
        placement_.outlook(link, state.up, barred(link), steering_.is_away(monitor_[link].interface), now);
  }
  const std::string why_before = placement_.decision().why;
  const auto plan = placement_.due({ .config = config_,
                                     .links = monitor_.table(),
                                     .exclusions = exclusions_->known(),
                                     .outlook = outlook,
                                     .hands_off = hands_off_,
                                     .tunnel = !tunnel().empty() },
                                   keeper_.state().placement, now);
  if (const std::string& why = placement_.decision().why; wanted && why != why_before)
    log(Severity::notice,
        why.empty() ? "new connections are given to the links in turns" : "new connections are not placed: " + why);
  if (!plan) return;
  // First the queue leaves them alone, then they are there.
  retune_rules();
  try
  {
    if (!keeper_.post_placement(*plan)) placement_.not_sent();
  }
  catch (const std::exception& error)
  {
    log(Severity::warning, std::string { "placing connections is not possible: " } + error.what());
  }
}

} // namespace tandem::daemon
