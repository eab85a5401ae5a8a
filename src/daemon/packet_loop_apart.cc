// What is left alone: every flow beside a tunnel that has the default route, behind a captive portal or in a network
// that is excluded, and single flows that are.
#include "src/daemon/packet_loop.h"
#include "src/daemon/service.h"
#include "src/daemon/status_json.h"
#include "src/kernel/clock.h"
#include "src/links/routing.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <string>
#include <utility>
#include <vector>

namespace tandem::daemon
{

namespace
{

// After less a server still sends again, and a resume is worth its packet.
constexpr Duration shortest_sleep = std::chrono::seconds { 2 };

// Interfaces that are no tunnels, because the user says so, or because they look like Wi-Fi or a modem. "ppp" alone may
// be a modem as well as a VPN; without a word of the user's it is one if it has the default route.
std::vector<std::string> no_tunnels(const Config::Links& config, const Roles& roles)
{
  std::vector<std::string> all = roles.more_wifi;
  all.push_back(roles.wifi);
  if (config.cell != "auto" || roles.cell.rfind("ppp", 0) != 0) all.push_back(roles.cell);
  return all;
}

} // namespace

// Why the tunnels there are keep hands off; empty: they do not.
std::string PacketLoop::tunnel() const
{
  return links::hands_off(monitor_.routing(), monitor_[Link::wifi].addresses, no_tunnels(config_.links, roles_));
}

// Why this one is let go: its packets go into a tunnel that does not have the default route.
std::string PacketLoop::tunnel(const FlowKey& flow) const
{
  return links::hands_off(monitor_.routing(), flow.local, flow.remote, no_tunnels(config_.links, roles_));
}

std::vector<links::Routing::Aside> PacketLoop::aside() const
{
  return monitor_.routing().aside(monitor_[Link::wifi].addresses, no_tunnels(config_.links, roles_));
}

// Why every flow is left alone; empty: it is not.
std::string PacketLoop::apart() const
{
  if (std::string why = tunnel(); !why.empty()) return why;
  // Neither the air nor what costs is that of the named interfaces then: a cable, most often.
  if (const std::string& by = monitor_.table().other_default(); !by.empty())
    return "the tunnel to the relay leaves by " + by + ", which has the best default route, not by "
           + roles_.lower.wifi;
  // What a portal answers in the name of others must not be held back, and nothing shall go around it.
  if (!not_validated_.empty()) return not_validated_;
  // By the driver's word, not by that of radio sources: they are closed while hands are off.
  if (network_.by_driver())
    if (const Exclusion* one = exclusions_->known().of_ssid(network_.name()))
      return "the Wi-Fi network is excluded (" + one->text() + ")";
  return {};
}

// Before what else follows from changed links.
void PacketLoop::look_apart()
{
  look_at_network();
  if (validation_) not_validated_ = validation_->why();
  std::string why = apart();
  if (why == hands_off_) return;
  const bool began = hands_off_.empty(), ended = why.empty();
  log(Severity::notice, ended ? "hands on again; they were off: " + hands_off_ : "hands off all flows: " + why,
      { .reason = why });
  if (began) let_go(why);
  hands_off_ = std::move(why);
  cell_denied_ = denial();
  if (!began && !ended) return;
  times_off_ += began ? 1 : 0;
  // Packets pass unseen in between: what is known of the flows' numbers gets old.
  began ? chain_.queue_bypassed() : chain_.queue_resumed();
  inputs_.add(kernel::now(), trace::input::QueueBypassed { began });
}

// Packets have passed unseen: what is known of the flows' numbers is old.
void PacketLoop::see_anew()
{
  for (const bool bypassed : { true, false })
  {
    bypassed ? chain_.queue_bypassed() : chain_.queue_resumed();
    inputs_.add(kernel::now(), trace::input::QueueBypassed { bypassed });
  }
}

// What is withheld leaves now, by the way that this host's own packets take from now on. Nobody speaks for the flows
// after that (tell_links).
void PacketLoop::let_go(const std::string& why)
{
  cell_denied_ = why;
  injector_.bind(Link::cell, {});
  injector_.bind(Link::wifi, {});
  try
  {
    injector_.follow_routes(Link::wifi);
  }
  catch (const std::exception& error)
  {
    log(Severity::warning, std::string { "what modules withheld is not sent: " } + error.what());
  }
  stop_fetching("hands off all flows");
  tell_links();
  modules_begin_anew();
}

// The server may have given up meanwhile, and whoever translates addresses on the way may have forgotten the flow: none
// is spoken for before it shows by itself that it lives. What modules kept from the server is not told either; of what
// the server has not heard it asks again.
void PacketLoop::machine_woke()
{
  const Duration slept = sleep_.slept();
  if (slept < shortest_sleep) return;
  rouse();
  ++sleeps_;
  log(Severity::notice,
      "the machine has slept for " + std::to_string(std::lround(seconds(slept))) + " s: every flow is looked at anew");
  stop_fetching("the machine has slept");
  injector_.bind(Link::wifi, {});
  injector_.bind(Link::cell, {});
  modules_begin_anew();
  see_anew();
  look_at_cell(); // another day may have begun
  exclusions_->outdated();
  links_changed();
}

void PacketLoop::make_validation()
{
  if (!config_.links.validation) return;
  const auto told = [this]
  {
    static_cast<void>(mailbox_.post(
        [this]
        {
          rouse();
          links_changed();
        }));
  };
  if (!validation_) validation_.emplace(roles_.wifi_card(), told);
  // Of the others nobody else asks. One that is not needed now follows nothing: ending it may mean to wait for a call
  // of its thread, and packets would wait, too.
  for (std::size_t i = 0; i < roles_.more_wifi.size(); ++i)
  {
    const std::string interface = config_.placement.enabled ? roles_.more_wifi[i] : std::string {};
    if (const auto watch = more_validation_.find(wifi_link(i + 1)); watch != more_validation_.end())
      watch->second.follow(interface);
    else if (!interface.empty())
      more_validation_.try_emplace(wifi_link(i + 1), interface, told);
  }
}

// Not the keeper's business: wpa_supplicant may be asked by whoever is in its group. Where hands are off the card is
// left where it is, too.
void PacketLoop::look_at_roam()
{
  const auto request = steering_.requests().of(Link::wifi, RequestKind::roam);
  const bool wanted = hands_off_.empty() && request && request->value != 0;
  if (wanted != std::exchange(roam_told_, wanted) && tell_roam_) tell_roam_(wanted);
}

// ---- single flows ----

void PacketLoop::make_exclusions()
{
  exclusions_.emplace(
      chain_, inputs_, [this](std::function<void()> work) { static_cast<void>(mailbox_.post(std::move(work))); },
      [this] { exclusions_changed(); },
      ExclusionDriver::Host { .owner_of = [this](const FlowKey& flow) { return owner_of(flow); },
                              .tunnel = [this](const FlowKey& flow) { return tunnel(flow); },
                              .network_unknown = [this] { return network_unknown(); } });
}

// As apart() asks: by the driver's word alone.
std::string PacketLoop::network_unknown() const
{
  const links::LinkInfo& wifi = monitor_.lower(Link::wifi);
  if (!wifi.up || network_.by_driver() || kernel::now() < network_settles_) return {};
  return "the driver of " + wifi.interface + " does not tell which Wi-Fi network it is in (nl80211)";
}

void PacketLoop::exclude(const std::vector<ExclusionSetting>& all)
{
  rouse();
  std::vector<Exclusion> list {};
  for (const ExclusionSetting& one : all)
    list.push_back(one.what);
  exclusions_->assign(list, kernel::now());
}

nlohmann::json PacketLoop::flows_json()
{
  nlohmann::json all = daemon::flows_json(chain_, kernel::now());
  for (nlohmann::json& one : all)
    if (const std::string why = exclusions_->reason(one["id"]); !why.empty()) one["excluded"] = why;
  return all;
}

} // namespace tandem::daemon
