// Which Wi-Fi network this host is in, and what the configuration says for it.
#include "src/daemon/config_value.h"
#include "src/daemon/module_settings.h"
#include "src/daemon/packet_loop.h"
#include "src/daemon/service.h"
#include "src/feeder/sources/nl80211_network.h"
#include "src/kernel/clock.h"

#include <chrono>
#include <string>

namespace tandem::daemon
{

namespace
{

// The carrier is there before the driver tells the name.
constexpr Duration settling = std::chrono::seconds { 3 };

} // namespace

bool PacketLoop::asks_network() const
{
  return !settings_.profiles().empty() || exclusions_->known().asks_ssid();
}

void PacketLoop::ask_network(CurrentNetwork& network, bool driver) const
{
  const int ifindex = monitor_.lower(Link::wifi).ifindex;
  network.told(ifindex, driver && ifindex != 0 ? feeder::nl80211::network_name(ifindex) : std::nullopt, watch_->ssid());
}

// Asks where we are; another profile may hold from now on. Of links_changed(): what follows from the settings comes
// after this.
void PacketLoop::look_at_network()
{
  if (asks_network())
    ask_network(network_, true);
  else
    network_ = {};
  network_settles_ = kernel::now() + settling;
  const Profile* found = profile_of_network(settings_.profiles(), network_.name());
  const std::string before = profile();
  if ((found == nullptr ? "" : found->name) == before) return;
  settings_.hold(found == nullptr ? "" : found->name);
  log(Severity::notice,
      found == nullptr ? "the profile " + before + " holds no longer"
                       : "the profile " + found->name + " holds: the Wi-Fi network is " + in_quotes(network_.name()),
      { .reason = "profile" });
  take_settings(settings_.merged());
  static_cast<void>(look_at_costs());
}

// Five times a second for a while after something changed; of a source other than the driver nothing else tells.
void PacketLoop::look_at_network_again(Tick now)
{
  if (!asks_network()) return;
  CurrentNetwork fresh = network_;
  ask_network(fresh, now < network_settles_);
  if (fresh.name() != network_.name() || fresh.by_driver() != network_.by_driver()) links_changed();
}

void PacketLoop::see_access_point(bool up, Tick now)
{
  evidence_->link(up, monitor_.lower(Link::wifi).ifindex, watch_->ap(), now);
}

// What is known of the access point, or which one it is, may be another than flows were told.
void PacketLoop::look_at_access_point(Tick now)
{
  const LinkState& told = chain_.link_states()[static_cast<std::size_t>(Link::wifi)];
  see_access_point(told.up, now);
  evidence_->look(now);
  if (evidence_->keeps_frames(now) == told.keeps_frames) return;
  tell_links();
  schedule();
}

// Of a configuration that was checked. All else needs a restart.
void PacketLoop::take_settings(const Config& fresh)
{
  config_.cell.use = fresh.cell.use;
  config_.budget.cell_day = fresh.budget.cell_day;
  config_.budget.cell_month = fresh.budget.cell_month;
  take_knobs(chain_, fresh.knobs);
  inputs_.knobs(kernel::now());
  for (std::size_t i = 0; i < chain_.module_count(); ++i)
    switch_slot(i, fresh.module_enabled(chain_.module(i).name()));
}

void PacketLoop::follow(const SettingLayers& settings)
{
  settings_ = settings;
  const Profile* found = profile_of_network(settings_.profiles(), network_.name());
  if ((found == nullptr ? "" : found->name) == profile()) return;
  rouse();
  links_changed();
}

} // namespace tandem::daemon
