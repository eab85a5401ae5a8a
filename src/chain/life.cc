// What comes from outside a flow: links, radio, modules switched on and off, and flows that end.
#include "src/chain/chain.h"
#include "src/chain/holds.h"

#include <tandem/pure_ack.h>

#include <algorithm>
#include <cmath>

namespace tandem::chain
{

namespace
{

// A change that a decision may hang on: estimates of half a second are noisy.
bool tells_more(const std::optional<RadioState>& told, const std::optional<RadioState>& now)
{
  if (told.has_value() != now.has_value()) return true;
  if (!now) return false;
  constexpr double some = 0.05;                           // of the packet time
  constexpr float some_delivery = 0.02F, some_signal = 2; // dB
  const auto moved = [](const auto& a, const auto& b, auto by)
  { return a.has_value() != b.has_value() || (a && std::abs(*a - *b) > by); };
  if (told->packet_time.has_value() != now->packet_time.has_value()) return true;
  if (now->packet_time
      && std::abs(seconds(*now->packet_time - *told->packet_time)) > some * seconds(*told->packet_time))
    return true;
  return moved(told->delivery, now->delivery, some_delivery) || moved(told->signal, now->signal, some_signal)
         || moved(told->candidate, now->candidate, some_signal);
}

// Made after `flow`, from and to the same addresses. The kernel has one subflow for each pair of them: the older one
// went without a word, as when its link was taken away.
bool succeeds(const flow::Flow& other, const flow::Flow& flow)
{
  return other.view.first_seen > flow.view.first_seen && other.view.key.local == flow.view.key.local
         && other.view.key.remote == flow.view.key.remote && other.view.key.remote_port == flow.view.key.remote_port;
}

} // namespace

bool Chain::needs_queue(Tick now)
{
  // A flow that has not been heard of for this long says so with its next observed packet.
  constexpr Duration recent = std::chrono::milliseconds { 400 };
  // Unless it is its link that is silent: what comes first after a blackout is what the modules wait for.
  constexpr Duration returning = std::chrono::seconds { 2 };
  const auto silent = [&](Link link)
  {
    const LinkState& state = links_[static_cast<std::size_t>(link)];
    return state.present && (!state.up || now - state.changed < returning);
  };
  // And the ACKs of what is let go when a module opens the window again are to be no more than that module lets go.
  const auto closed = [&](const flow::Flow& flow)
  {
    return now - flow.view.last_seen < returning
           && std::any_of(flow.holds.begin(), flow.holds.end(),
                          [&](const flow::Hold& hold) { return flow.view.scaled(hold.window) < flow.view.mss; });
  };
  constexpr Duration handshake = std::chrono::milliseconds { 1500 };
  // Beside what is faster than Wi-Fi a short flow is not worth the queue.
  constexpr auto wifi = static_cast<std::size_t>(Link::wifi);
  links_[wifi].delivery_rate = rates_[wifi].rate(now);
  const bool begun_only = faster_than_wifi(links_[wifi]);
  bool needed = false;
  table_.each(
      [&](flow::Flow& flow)
      {
        needed = needed
                 || (!flow.closed && !left_alone(flow) && flow.view.link == Link::wifi && flow.quiet_until <= now
                     && (flow.begun != 0 || !begun_only)
                     && (now - flow.view.last_seen < recent || silent(flow.view.link) || closed(flow))
                     && (flow.view.bypass == Bypass::none
                         || (flow.view.bypass == Bypass::mid_flow && now - flow.view.first_seen < handshake)));
      });
  return needed;
}

Chain::Memory Chain::memory() const
{
  Memory memory { .links = links_, .radio_told = radio_told_, .cell_bytes = stats_.cell_bytes };
  for (std::size_t at = 0; at < link_count; ++at)
    memory.rates[at] = rates_[at].memory();
  return memory;
}

void Chain::recall(const Memory& memory)
{
  links_ = memory.links;
  radio_told_ = memory.radio_told;
  stats_.cell_bytes = memory.cell_bytes;
  for (std::size_t at = 0; at < link_count; ++at)
    rates_[at].recall(memory.rates[at]);
}

void Chain::links(const LinkStates& states, Tick now, const Owner& owner)
{
  links_ = states;
  for (std::size_t at = 0; at < link_count; ++at)
    links_[at].delivery_rate = rates_[at].rate(now);
  links_[static_cast<std::size_t>(Link::cell)].bytes_out = stats_.cell_bytes;
  table_.each(
      [&](flow::Flow& flow)
      {
        bool returns = false;
        if (owner)
        {
          // Without its address a flow is over, unless the address comes back; nobody else may speak in its name.
          const bool home = owner(flow.view.key.local) == flow.view.link;
          returns = flow.view.bypass == Bypass::not_home && home;
          if (flow.view.bypass == Bypass::none && !home)
          {
            tell_of_loss(flow, now);
            flow.view.bypass = Bypass::not_home;
          }
          if (returns) flow.view.bypass = Bypass::none;
        }
        for (std::size_t i = 0; i < slots_.size(); ++i)
          if (slots_[i].enabled) tell(i, EventKind::link, flow, now);
        // An alarm that came meanwhile: the server may still be owed an ACK.
        for (std::size_t i = 0; returns && i < slots_.size(); ++i)
          if (flow.wake[i] <= now) ring(i, flow, now);
        // And what a module held back that was switched off meanwhile.
        for (std::size_t i = 0; returns && i < slots_.size(); ++i)
          if ((flow.begun >> i & 1) == 0 && holds_back(flow.holds[i])) flush_withheld(i, flow, now);
      });
}

// Its address is gone, which is to the flow as if its link was down, whether or not that is: modules must know what may
// be missing when it comes back. Nobody speaks in its name now, so that of what they want the time alone counts.
void Chain::tell_of_loss(flow::Flow& flow, Tick now)
{
  LinkState& link = links_[static_cast<std::size_t>(flow.view.link)];
  const bool up = std::exchange(link.up, false);
  for (std::size_t i = 0; i < slots_.size(); ++i)
    if (slots_[i].enabled) tell(i, EventKind::link, flow, now, nullptr, false);
  link.up = up;
}

void Chain::radio(Link link, const std::optional<RadioState>& state, Tick now)
{
  const auto at = static_cast<std::size_t>(link);
  links_[at].radio = state;
  if (!tells_more(radio_told_[at], state)) return;
  radio_told_[at] = state;
  for (std::size_t i = 0; i < slots_.size(); ++i)
    if (slots_[i].enabled && slots_[i].module->interest().radio)
      table_.each([&](flow::Flow& flow) { tell(i, EventKind::radio, flow, now); });
}

// What the module holds back of the flow is released, and it has no state there any more.
void Chain::switch_off(std::size_t i, flow::Flow& flow, Tick now)
{
  tell(i, EventKind::switched_off, flow, now);
  reserve(i, {}, flow);
  if ((flow.begun >> i & 1) != 0)
  {
    flush_withheld(i, flow, now);
    slots_[i].module->flow_end(state(flow, i));
    flow.begun = static_cast<std::uint8_t>(flow.begun & ~(1u << i));
    --slots_[i].stats.flows;
  }
  flow.wake[i] = Tick::max();
}

void Chain::rest(flow::Flow& flow, const Rest& rest, Tick now)
{
  for (std::size_t i = 0; i < slots_.size(); ++i)
    if ((rest.modules >> i & 1) != 0 && (flow.resting >> i & 1) == 0) switch_off(i, flow, now);
  // Not asked about what is excluded; when that ends, anew.
  const bool alone = rest.modules == every_module;
  if (alone || left_alone(flow)) flow.rest_asked = alone;
  flow.resting = rest.modules;
  flow.watched = rest.watched;
  flow.view.cell_path_failed = rest.cell_path_failed;
  flow.quiet_until = {}; // whoever begins now has not been asked yet
}

// Once for each flow, before the first module begins on it.
void Chain::ask_rest(flow::Flow& flow, Tick now)
{
  const Rest answer = options_.rest(flow.view);
  flow.view.cell_denied = answer.cell_denied;
  flow.view.cell_path_known = answer.cell_path_known;
  if (answer.cell_path_known) begin_elsewhere(flow.view).added = *answer.cell_path_known;
  if (answer.cell_denied == CellDenied::private_peer) ++stats_.private_peers;
  rest(flow, answer, now);
}

void Chain::enable(std::size_t i, bool on, Tick now)
{
  if (slots_[i].enabled == on) return;
  // While nothing was switched on nothing was queued: what is known of the flows' numbers is old.
  if (on && interest().decide == 0) queue_resumed();
  if (!on)
    table_.each(
        [&](flow::Flow& flow)
        {
          switch_off(i, flow, now);
          flow.excluded = static_cast<std::uint8_t>(flow.excluded & ~(1u << i));
        });
  if (on) table_.each([](flow::Flow& flow) { flow.quiet_until = {}; }); // others had no need of its packets
  if (!on && cell_subflows_ == i) cell_subflows_ = no_slot;             // what it requested lapses with it
  slots_[i].enabled = on;
  // With the last module off, the time of what waits may never come: the daemon ends.
  const bool any = std::any_of(slots_.begin(), slots_.end(), [](const Slot& slot) { return slot.enabled; });
  if (!any)
    table_.each(
        [this](flow::Flow& flow)
        {
          if (flow.view.bypass == Bypass::none) end_wait(flow);
        });
}

// A subflow that was made a backup is silent while its connection lives: whoever compares links must know it still.
bool Chain::has_living_sibling(const flow::Flow& flow, Tick now)
{
  if (flow.closed || !flow.view.mptcp || flow.view.mptcp_token == 0) return false;
  bool living = false;
  const std::uint32_t token = flow.view.mptcp_token;
  for (auto at = subflows_.lower_bound({ token, 0 }); at != subflows_.end() && at->first == token; ++at)
  {
    const flow::Flow* const other = table_.by_id(at->second);
    if (other == nullptr || other == &flow || other->closed) continue;
    if (succeeds(*other, flow)) return false;
    living = living || now - other->view.last_seen < options_.table.idle;
  }
  return living;
}

// The flow had this token, if any, and has another one.
void Chain::note_token(std::uint32_t token, const flow::Flow& flow)
{
  subflows_.erase({ token, flow.view.id });
  if (flow.view.mptcp_token != 0) subflows_.emplace(flow.view.mptcp_token, flow.view.id);
}

flow::Flow* Chain::overdue(Tick now)
{
  flow::Flow* old = table_.expired(now);
  while (old != nullptr && has_living_sibling(*old, now))
  {
    table_.spare(*old, now);
    old = table_.expired(now);
  }
  return old;
}

void Chain::forget(flow::Flow& flow, Tick now)
{
  for (std::size_t i = 0; i < slots_.size(); ++i)
    if ((flow.begun >> i & 1) != 0)
    {
      // An idle flow may still hold something back: it is released like at a switch-off.
      if (!flow.closed) tell(i, EventKind::switched_off, flow, now);
      if (!flow.closed && holds_back(flow.holds[i])) flush_withheld(i, flow, now);
      slots_[i].module->flow_end(state(flow, i));
      --slots_[i].stats.flows;
    }
  elsewhere_.erase(flow.view.id);
  subflows_.erase({ flow.view.mptcp_token, flow.view.id });
  table_.erase(flow);
}

} // namespace tandem::chain
