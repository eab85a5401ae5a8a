// What may be put on the cellular link: its budget, what NetworkManager and ModemManager say that it costs, and what
// the user's own packet filter says; and whose network it is.
#include "src/daemon/packet_loop.h"
#include "src/daemon/service.h"
#include "src/kernel/clock.h"
#include "src/kernel/interface_bytes.h"

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

} // namespace

// One gate for the second way, whatever closes it.
std::string PacketLoop::denial() const
{
  if (!hands_off_.empty()) return hands_off_;
  if (!config_.cell.use) return "the profile " + profile() + " says never";
  if (kernel::now() < filtered_until_) return "a packet filter of this host refuses it";
  return cost_watch_ ? std::string { cost_denial(config_.cell, cell_cost_) } : std::string {};
}

// What the kernel's own MPTCP may do there. A filter that refuses Tandem's packets need not refuse the kernel's.
CellUse PacketLoop::cell_use() const
{
  const bool costs = cost_watch_ && !cost_denial(config_.cell, cell_cost_).empty();
  if (costs || !config_.cell.use || !hands_off_.empty()) return CellUse::denied;
  return chain_.budget_spent() ? CellUse::spent : CellUse::allowed;
}

void PacketLoop::make_cost_watch()
{
  const links::CellCostWatch::Asks asks { .metered = config_.cell.metered != Metered::ignore,
                                          .roaming = config_.cell.roaming == Roaming::never && config_.links.modem,
                                          .operator_code = config_.evidence.remembers() && config_.links.modem };
  cell_cost_.known = !asks.metered && !asks.roaming;
  if (cell_cost_.known && !asks.operator_code) return;
  // Should the mailbox be full, the next look sees it.
  cost_watch_.emplace(asks, roles_.modem(),
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

void PacketLoop::place_evidence(Tick now)
{
  const bool of_this = cell_cost_.interface == roles_.modem();
  evidence_->place(monitor_.lower(Link::wifi), watch_->ssid(),
                   { .interface = roles_.cell, .operator_code = of_this ? cell_cost_.operator_code : std::string {} },
                   now);
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

// What leaves by the relay's tunnel is counted as it goes into it. Around each packet come at most 15 bytes of padding
// and 32 of WireGuard's, 8 of UDP and 40 of IPv6; nobody but Tandem uses that tunnel, and it has keep-alives of its
// own.
void PacketLoop::charge_tunnel(Tick now)
{
  constexpr std::uint64_t around = 15 + 32 + 8 + 40;
  if (roles_.lower.cell.empty() || roles_.cell.empty()) return tunnel_packets_.reset();
  const std::uint64_t packets = kernel::packets_by(roles_.cell);
  const std::optional<std::uint64_t> before = std::exchange(tunnel_packets_, packets);
  if (before && packets > *before) spent((packets - *before) * around, now); // else it has begun, or begins anew
}

// By the cellular link, beside what the chain itself has put there.
void PacketLoop::spent(std::uint64_t bytes, Tick now)
{
  inputs_.add(now, trace::input::Spent { bytes });
  chain_.spent(bytes);
}

void PacketLoop::look_at_cell()
{
  if (look_at_costs()) links_changed();
}

// True: whether the link may be used has changed.
bool PacketLoop::look_at_costs()
{
  const Tick now = kernel::now();
  charge_tunnel(now);
  if (budget_->look(now)) inputs_.add(now, trace::input::CellLimit { chain_.options().cell_budget });
  broker_.keep_up(!chain_.budget_spent());
  look_at_filter(now);
  if (cost_watch_) cell_cost_ = cost_that_counts_.take(cost_watch_->cost(), roles_.modem(), now);
  if (steering_.gate(cell_use())) steer_soon();
  std::string denied = denial();
  if (denied == cell_denied_) return false;
  cell_denied_ = std::move(denied);
  if (config_.links.cell == "none") return true; // there is nothing to tell of
  log(Severity::notice,
      cell_denied_.empty() ? "the cellular link may be used"
                           : "nothing of Tandem's goes by the cellular link: " + cell_denied_,
      { .reason = cell_denied_ });
  return true;
}

} // namespace tandem::daemon
