// What may be put on the cellular link: its budget, what NetworkManager and ModemManager say that it costs, and what
// the user's own routes and packet filter say.
#include "src/daemon/packet_loop.h"
#include "src/daemon/service.h"
#include "src/kernel/clock.h"
#include "src/links/routing.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

namespace tandem::daemon
{

namespace
{

using namespace std::chrono_literals;

std::string_view cost_denial(const Config::Cell& config, const links::CellCost& cost)
{
  if (config.roaming == Roaming::never && cost.roaming.value_or(false)) return "roaming";
  if (config.metered == Metered::never && cost.metered.value_or(false)) return "metered";
  return config.gates() && !cost.known ? "not known yet whether it is metered or roams" : "";
}

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

// One gate for the second way, whatever closes it.
std::string PacketLoop::denial() const
{
  if (!hands_off_.empty()) return hands_off_;
  if (kernel::now() < filtered_until_) return "a packet filter of this host refuses it";
  return cost_watch_ ? std::string { cost_denial(config_.cell, cell_cost_) } : std::string {};
}

// What the kernel's own MPTCP may do there. A filter that refuses Tandem's packets need not refuse the kernel's.
CellUse PacketLoop::cell_use() const
{
  const bool costs = cost_watch_ && !cost_denial(config_.cell, cell_cost_).empty();
  if (costs || !hands_off_.empty()) return CellUse::denied;
  return chain_.budget_spent() ? CellUse::spent : CellUse::allowed;
}

void PacketLoop::make_cost_watch()
{
  const links::CellCostWatch::Asks asks { .metered = config_.cell.metered != Metered::ignore,
                                          .roaming = config_.cell.roaming == Roaming::never && config_.links.modem };
  cell_cost_.known = !asks.metered && !asks.roaming;
  if (cell_cost_.known) return;
  // Should the mailbox be full, the next look sees it.
  cost_watch_.emplace(asks, roles_.cell,
                      [this](const links::CellCost&)
                      {
                        static_cast<void>(mailbox_.post(
                            [this]
                            {
                              rouse();
                              look_at_cell();
                            }));
                      });
  cell_denied_ = denial();
}

// What was refused left by Wi-Fi, or not at all; so does everything until the filter is tried again.
void PacketLoop::look_at_filter(Tick now)
{
  constexpr Duration first = 30s, longest = 480s;
  const Datapath::Counters& counters = datapath_.counters();
  if (const std::uint64_t refused = counters.cell_filtered; refused != std::exchange(filtered_told_, refused))
  {
    filtered_for_ = std::clamp(2 * filtered_for_, first, longest);
    filtered_until_ = now + filtered_for_;
  }
  else if (const std::uint64_t sent = counters.rerouted; sent != std::exchange(rerouted_told_, sent))
    filtered_for_ = {};
}

void PacketLoop::look_at_cell()
{
  const Tick now = kernel::now();
  if (budget_->look(now)) inputs_.add(now, trace::input::CellLimit { chain_.options().cell_budget });
  look_at_filter(now);
  if (cost_watch_) cell_cost_ = cost_watch_->cost();
  if (steering_.gate(cell_use())) steer_soon();
  std::string denied = denial();
  if (denied == cell_denied_) return;
  cell_denied_ = std::move(denied);
  log(Severity::notice,
      cell_denied_.empty() ? "the cellular link may be used"
                           : "nothing of Tandem's goes by the cellular link: " + cell_denied_,
      { .reason = cell_denied_ });
  links_changed();
}

// Before what else follows from changed links.
void PacketLoop::look_at_routing()
{
  const links::LinkInfo& wifi = monitor_[Link::wifi];
  std::string why = links::hands_off(monitor_.routing(), wifi.addresses, no_tunnels(config_.links, roles_));
  if (why == hands_off_) return;
  const bool began = hands_off_.empty(), ended = why.empty();
  log(Severity::notice, ended ? "hands on again: no tunnel has the default route" : "hands off all flows: " + why,
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

// What is withheld leaves now, by the way that this host's own packets take from now on. Nobody speaks for the flows
// after that (tell_links).
void PacketLoop::let_go(const std::string& why)
{
  cell_denied_ = why;
  injector_.bind(Link::cell, {});
  injector_.follow_routes(Link::wifi);
  stop_fetching("a tunnel has the default route");
  tell_links();
  for (std::size_t i = 0; i < chain_.module_count(); ++i)
    if (chain_.enabled(i))
    {
      switch_slot(i, false);
      switch_slot(i, true);
    }
}

} // namespace tandem::daemon
