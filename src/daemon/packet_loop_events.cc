// What happens in the packet loop: packets, alarms, and notifications of links, keeper and fetch thread.
#include "src/chain/wanted.h"
#include "src/daemon/packet_loop.h"
#include "src/daemon/piece_options.h"
#include "src/daemon/service.h"
#include "src/kernel/clock.h"
#include "src/kernel/unanswered_sockets.h"

#include <tandem/pure_ack.h>

#include <algorithm>
#include <exception>
#include <string>
#include <utility>
#include <variant>

namespace tandem::daemon
{

namespace
{

// More than before, and what this host sends may arrive again: the link is up, and whoever manages it has put a route
// of an IP version back, which may be a while after the carrier.
int ways(const LinkState& link)
{
  return link.up ? 1 + (link.route ? 1 : 0) + (link.route_v6 ? 1 : 0) : 0;
}

} // namespace

// What follows from what the chain was called with, then its entry in the recording.
template <class Input>
void PacketLoop::entered(Tick now, const Input& input)
{
  carry_out();
  inputs_.called(now);
  inputs_.add(now, input);
}

// ---- the one way of a packet ----

kernel::Decision PacketLoop::queued(kernel::QueuedPacket& packet)
{
  if (!hands_off_.empty()) return {};
  rouse();
  const std::optional<Segment> segment = datapath_.queued(packet);
  if (!segment) return {};
  watch_->traffic_seen(!packet.egress(), packet.arrival);
  // Handshakes first: the copies of both SYNs were made before the ACK that now waits for its verdict.
  if (!chain_.knows(segment->key)) observers_->drain(Link::wifi);
  const chain::Outcome outcome = chain_.segment(*segment, true, packet.arrival);
  carry_out();
  inputs_.called(packet.arrival);
  const Datapath::Decided decided = datapath_.decided(packet, *segment, outcome);
  if (decided.unedited) chain_.unedited(*segment, outcome, packet.arrival);
  if (segment->has(tcp_flag::syn)) exclusions_->began(segment->key, packet.arrival);
  return decided;
}

void PacketLoop::observed(Link by, const kernel::ObservedPacket& packet)
{
  if (!hands_off_.empty()) return;
  rouse();
  const std::optional<Segment> segment = datapath_.observed(by, packet);
  if (!segment) return;
  if (by == Link::wifi) watch_->traffic_seen(packet.direction == Direction::ingress, packet.arrival);
  if (config_.daemon.exempts(segment->key)) return; // no rule queues it: it is not to be watched either
  chain_.segment(*segment, false, packet.arrival);
  carry_out();
  inputs_.called(packet.arrival);
  datapath_.asked(packet, *segment);
  // Behind its entry: a replay must know the flow by then.
  if (segment->has(tcp_flag::syn)) exclusions_->began(segment->key, packet.arrival);
  if (by == Link::wifi && bypass_.on() && segment->has(tcp_flag::syn)) retune_queue();
}

chain::Rest PacketLoop::rest_of(const FlowView& flow)
{
  const bool local_peer =
      config_.links.private_peers == PrivatePeers::never && monitor_.table().is_local_peer(flow.link, flow.key.remote);
  const CellDenied denied = local_peer ? CellDenied::private_peer : CellDenied::no;
  if (denied != CellDenied::no) inputs_.add(flow.last_seen, trace::input::CellDenial { denied });
  chain::Rest rest = evidence_->begin(flow);
  rest.cell_denied = denied;
  return rest;
}

// What the chain wants done, in its order: segments leave before the verdict of the packet at hand is given.
void PacketLoop::carry_out()
{
  chain::Output& output = chain_.output();
  if (output.empty()) return;
  for (const chain::Injection& one : output.segments)
  {
    const std::size_t sent = inject(one);
    if (sent == 0) inputs_.add(kernel::now(), trace::input::NotSent { one.key });
    chain_.sent(one, sent);
  }
  for (const chain::ModuleRequest& one : output.requests)
  {
    inputs_.add(kernel::now(), trace::input::Request { one.slot, one.request });
    steering_.take(one);
  }
  if (!output.requests.empty()) steer_soon();
  take_paces(output.paces);
  for (const chain::FetchRequest& one : output.fetches)
    if (!broker_.ask(one)) chain_.fetch_refused(one);
  for (const chain::PathFound& one : output.paths)
    path_found(one, kernel::now());
  for (const chain::FramesKept& one : output.kept)
    evidence_->frames_kept(one);
  output.clear();
}

// While others flush the rules a validation fails since ACKs pass by unchanged: that says nothing of the path.
void PacketLoop::path_found(const chain::PathFound& found, Tick now)
{
  constexpr Duration settles = std::chrono::seconds { 3 }; // a validation takes one at most
  if (found.path.is == CellPath::Is::failed && now < rules_back_ + settles) return;
  evidence_->path_found(found, now);
}

std::size_t PacketLoop::inject(const chain::Injection& injection)
{
  const Tick now = kernel::now();
  return injection.segment.kind == InjectedKind::fill
             ? datapath_.filled(injection, broker_.fill(injection), now)
             : datapath_.inject(injection, now, exclusions_->in_tunnel(injection.flow));
}

void PacketLoop::drain_queue()
{
  queue_.receive(
      [this](kernel::QueuedPacket& packet)
      {
        try
        {
          return queued(packet);
        }
        catch (const std::exception& error)
        {
          if (!std::exchange(told_fault_, true))
            log(Severity::warning,
                std::string { "a packet passes untouched: " } + error.what() + "; further ones are not told");
          throw; // to the queue, which counts it and lets it pass
        }
      });
  schedule();
  let_past();
}

// What is faster than any Wi-Fi waits for no round of looks: every packet in the queue costs it.
void PacketLoop::let_past()
{
  const LinkState& wifi = chain_.link_states()[static_cast<std::size_t>(Link::wifi)];
  if (!faster_than_wifi(wifi) || wifi.delivery_rate == rate_looked_at_) return;
  rate_looked_at_ = wifi.delivery_rate;
  if (!bypass_.on()) retune_queue(true);
}

void PacketLoop::schedule()
{
  const Tick now = kernel::now();
  const Tick next = chain_.advance(now);
  entered(now, trace::input::Advanced {});
  // The timer is set anew only for something earlier; firing too early costs one look.
  if (timer_due_ > now && next >= timer_due_) return;
  timer_due_ = next;
  chain_timer_.repeat = std::max(seconds(next - now), 1e-4);
  ev_timer_again(loop_, &chain_timer_);
}

// ---- what is requested of links ----

// By a timer: a plan takes memory, and is told to another process.
void PacketLoop::steer_soon()
{
  if (ev_is_active(&steer_timer_) != 0) return;
  ev_timer_set(&steer_timer_, 0., 0.1);
  ev_timer_start(loop_, &steer_timer_);
}

void PacketLoop::steer()
{
  look_at_roam();
  pace();
  try
  {
    // No link is steered beside a tunnel: endpoints of Tandem's making go.
    static const links::LinkTable none {};
    const links::LinkTable& table = hands_off_.empty() ? monitor_.table() : none;
    if (const auto plan = steering_.due(table, kernel::now()))
      if (!keeper_.post_steering(*plan)) steering_.not_sent();
  }
  catch (const std::exception& error)
  {
    log(Severity::warning, std::string { "steering is not possible: " } + error.what());
  }
  if (steering_.settled() && pacing_.settled()) ev_timer_stop(loop_, &steer_timer_);
}

void PacketLoop::switch_slot(std::size_t i, bool on)
{
  const Tick now = kernel::now();
  chain_.enable(i, on, now);
  entered(now, trace::input::Switched { static_cast<std::uint8_t>(i), on });
  if (on) return;
  steering_.lapse(static_cast<std::uint8_t>(i));
  pacing_.lapse(static_cast<std::uint8_t>(i));
  steer_soon();
}

// What they hold back leaves, and they know no flow any more.
void PacketLoop::modules_begin_anew()
{
  for (std::size_t i = 0; i < chain_.module_count(); ++i)
    if (chain_.enabled(i))
    {
      switch_slot(i, false);
      switch_slot(i, true);
    }
}

// ---- bytes fetched a second time (docs/decisions/0007) ----

void PacketLoop::retune_fetching()
{
  if (const std::string_view why = broker_.outdated(chain_.interest().content, cell_denied_); !why.empty())
    stop_fetching(why);
  broker_.start();
}

void PacketLoop::stop_fetching(std::string_view why)
{
  for (const FetchOutcome& outcome : broker_.stop(why))
    tell(outcome);
  chain_.table().each([](flow::Flow& flow) { flow.view.content = Content::unknown; });
}

// Of a service that has ended, `current` false, nothing counts but what it spent.
void PacketLoop::fetch_message(const fetch::Message& message, bool current)
{
  const auto* cost = std::get_if<fetch::Cost>(&message);
  if (cost == nullptr && !current) return;
  if (current) rouse();
  if (const auto* notification = std::get_if<fetch::Notification>(&message))
  {
    if (notification->content == Content::http) inputs_.add(kernel::now(), trace::input::Fetches { notification->key });
    chain_.content(notification->key, notification->content, notification->why);
  }
  else if (cost != nullptr)
  {
    spent(cost->cell_bytes, kernel::now());
    if (chain_.budget_spent()) broker_.keep_up(false);
  }
  else if (const auto outcome = broker_.store().take(std::get<fetch::Answer>(message)))
    tell(*outcome);
}

void PacketLoop::tell(const FetchOutcome& outcome)
{
  inputs_.add(kernel::now(), trace::input::Spent { outcome.cell_bytes });
  chain_.fetched(outcome.flow, outcome.slot, outcome.result, outcome.cell_bytes, kernel::now());
  carry_out();
}

// ---- what changes slowly ----

LinkStates PacketLoop::present_links() const
{
  LinkStates states = chain_.link_states();
  monitor_.table().fill(states);
  LinkState& wifi = states[static_cast<std::size_t>(Link::wifi)];
  wifi.up = wifi.up && watch_->up();
  wifi.changed = std::max(wifi.changed, watch_->since());
  wifi.at_risk = watch_->at_risk();
  wifi.radio = watch_->radio();
  // Endpoints of Tandem's own are on the links that it sees.
  states[static_cast<std::size_t>(Link::other)].present = !roles_.unused.empty() && config_.mptcp.foreign;
  // Whether the second way leads anywhere is known by the policy route rather than by the interface.
  LinkState& cell = states[static_cast<std::size_t>(Link::cell)];
  // To the modules a link that must not be used has no route.
  cell.route = keeper_.state().route.v4 && cell_denied_.empty();
  cell.route_v6 = keeper_.state().route.v6 && cell_denied_.empty();
  return states;
}

void PacketLoop::tell_links()
{
  const Tick now = kernel::now();
  const int before = ways(chain_.link_states()[static_cast<std::size_t>(Link::wifi)]);
  trace::input::Links entry { .states = present_links() };
  LinkState& wifi = entry.states[static_cast<std::size_t>(Link::wifi)];
  see_access_point(wifi.up, now);
  wifi.keeps_frames = evidence_->keeps_frames(now);
  chain_.links(entry.states, now,
               [&](const Address& local)
               {
                 // Into a tunnel the flows' packets leave by no link, and nobody may speak in their name.
                 const Link home = hands_off_.empty() ? monitor_.owner(local) : Link::other;
                 const std::pair owner { local, home };
                 if (std::find(entry.owners.begin(), entry.owners.end(), owner) == entry.owners.end())
                   entry.owners.push_back(owner);
                 return owner.second;
               });
  entered(now, entry);
  if (ways(wifi) > before && hands_off_.empty() && chain_.own_unanswered()) send_own_again(now);
}

// The link is back: what this host sent meanwhile is lost, and its own timers have doubled.
void PacketLoop::send_own_again(Tick now)
{
  std::vector<chain::Unanswered> all;
  try
  {
    kernel::each_unanswered_socket(
        [&](const kernel::UnansweredSocket& one)
        {
          if (monitor_.owner(one.key.local) == Link::wifi)
            all.push_back({ one.key, one.opening, one.doubled, static_cast<std::uint32_t>(one.acked), one.unacked });
        });
  }
  catch (const std::exception& error)
  {
    log(Severity::warning,
        std::string { "what this host sent into the blackout waits for its own timers: " } + error.what());
    return;
  }
  for (const chain::Unanswered& one : all)
  {
    chain_.unanswered(one, now);
    entered(now, one);
  }
}

// A blackout begins, ends or is foreseen: addresses, routes and rules are what they were.
void PacketLoop::verdict_changed()
{
  tell_links();
  place_connections(kernel::now());
  schedule();
}

void PacketLoop::tell_route()
{
  route_unsent_ = !keeper_.post_route(route_plan(config_, marks_, roles_));
}

bool PacketLoop::follow_roles()
{
  std::vector<links::PresentInterface> present = monitor_.table().present();
  if (present == present_) return false;
  present_ = std::move(present);
  return find_roles_anew();
}

bool PacketLoop::find_roles_anew()
{
  const Tick now = kernel::now();
  FoundRoles found = find_roles(config_.links, roles_, present_, now);
  ev_timer_stop(loop_, &roles_timer_);
  if (found.again != Tick::max())
  {
    ev_timer_set(&roles_timer_, std::max(seconds(found.again - now), 1e-3), 0.);
    ev_timer_start(loop_, &roles_timer_);
  }
  if (found.roles.same_interfaces(roles_))
  {
    roles_ = std::move(found.roles);
    return false;
  }
  const Roles& next = found.roles;
  const bool other_wifi = next.wifi != roles_.wifi, other_card = next.wifi_card() != roles_.wifi_card(),
             other_modem = next.modem() != roles_.modem(), other_cell = next.cell != roles_.cell || other_modem;
  // Whatever modules hold back leaves while the links are still what the flows know them by.
  if (other_wifi) modules_begin_anew();
  roles_ = std::move(found.roles);
  monitor_.assign(roles_.wifi, roles_.cell, roles_.more_wifi, now, roles_.lower);
  watch_->assign(roles_.wifi_card(), roles_.modem());
  make_more_radios();
  if (other_modem && cost_watch_)
  {
    // What the one before cost allows nothing on this one, from now on.
    cost_watch_->follow(roles_.modem());
    static_cast<void>(look_at_costs());
  }
  if (other_card && validation_) validation_->follow(roles_.wifi_card());
  make_validation();
  if (other_cell) tell_route();
  log(Severity::notice, "Wi-Fi: " + (roles_.wifi.empty() ? "none" : roles_.wifi) + " (" + roles_.wifi_why
                            + "); cellular: " + (roles_.cell.empty() ? "none" : roles_.cell) + " (" + roles_.cell_why
                            + ")");
  return true;
}

void PacketLoop::links_changed()
{
  rouse();
  look_apart();
  look_at_tunnels();
  exclusions_->links_changed(monitor_.lower(Link::wifi)); // whose name servers and routes are meant
  watch_->link(monitor_.lower(Link::wifi));
  for (auto& [link, radio] : more_radio_)
    radio.link(monitor_[link].ifindex);
  steering_.links_changed(monitor_.table());
  steer_soon();
  tell_links();
  bind_again();
  retune_rules();
  place_connections(kernel::now());
  schedule();
}

void PacketLoop::exclusions_changed()
{
  rouse();
  // What a module held back of a flow leaves now.
  entered(kernel::now(), trace::input::CarriedOut {});
  // The service goes by the exclusions that there were when it was made.
  broker_.exclude(exclusions_->known().networks());
  stop_fetching("what is excluded has changed");
  links_changed();
}

// Flows that a new route leads into a tunnel are let go one by one, as all of them are beside a default route.
void PacketLoop::look_at_tunnels()
{
  if (!hands_off_.empty()) return;
  const ExclusionDriver::Rerouted changed = exclusions_->routes_changed(kernel::now());
  if (!changed.into_tunnels && !changed.back) return;
  if (changed.into_tunnels)
  {
    log(Severity::notice, "flows are left alone since their routes lead into a tunnel, "
                              + std::to_string(exclusions_->in_tunnels_now()) + " now");
    stop_fetching("a flow's route leads into a tunnel");
  }
  // What a module held back leaves now, see inject().
  entered(kernel::now(), trace::input::CarriedOut {});
  if (changed.back) see_anew();
}

void PacketLoop::radio_changed(Link link, const std::optional<RadioState>& radio)
{
  const Tick now = kernel::now();
  chain_.radio(link, radio, now);
  entered(now, trace::input::Radio { link, radio });
  if (link == Link::wifi && resting_) look_at_network_again(now); // else look() does
  schedule();
}

void PacketLoop::monitor_notified()
{
  const bool changed = monitor_.receive(kernel::now());
  const bool others = follow_roles();
  if (changed || others) links_changed();
}

// A plan of rules that failed is posted again, ever more seldom.
void PacketLoop::follow_rules()
{
  const Tick now = kernel::now();
  if (const auto ended = keeper_.take_outcome())
  {
    rules_.answered(ended->ticket, ended->failure, now);
    if (!ended->failure.empty() && rules_.next() != Tick::max())
      log(Severity::warning, "the rules are not in force: " + ended->failure + "; tried again in "
                                 + std::to_string(static_cast<int>(seconds(rules_.next() - now))) + " s");
  }
  if (rules_.due(now)) rules_.posted(keeper_.post_apply(rules_.wanted()));
}

void PacketLoop::keeper_notified()
{
  rouse();
  const kernel::KeeperState before = keeper_.state();
  if (keeper_.dispatch())
  {
    follow_rules();
    if (before.restored != keeper_.state().restored) rules_back_ = kernel::now();
    const KeeperChange change = compare(before, keeper_.state());
    // Steering changes ten times a second at most; links are looked at for anything else.
    if (!change.steering_only) links_changed();
    if (before.placement != keeper_.state().placement) place_connections(kernel::now());
    if (before.placement.kept != keeper_.state().placement.kept) retune_rules();
    for (const std::string& warning : change.warnings)
      log(Severity::warning, warning);
  }
  if (keeper_.state().phase != kernel::KeeperState::Phase::lost) return;
  // Without the keeper nothing would lift the rules in an accident.
  log(Severity::error, "the keeper process is gone; stopping, so that no rule stays behind");
  ev_io_stop(loop_, &keeper_io_);
  ev_async_send(loop_, &halt_);
}

void PacketLoop::retune_rules()
{
  watch_radio();
  const Interest interest = chain_.interest();
  queue_.set_copy_range(copy_range(interest, config_.recorder.snap));
  const links::LinkInfo& wifi = monitor_[Link::wifi];
  wanted_ = hands_off_.empty() ? wanted_now(chain::wanted(chain_), config_.recorder.everything, wifi, bypass_.on())
                               : Wanted {};
  kernel::RulePlan plan = rule_plan(wanted_, config_, roles_, marks_, wifi, exclusions_->known());
  if (placement_.decision().plan.choose || keeper_.state().placement.kept)
    plan.placed_mask = config_.placement.mark_mask;
  if (rules_.want(plan)) rules_.posted(keeper_.post_apply(plan));
  say_what_is_beyond_rules();
  retune_fetching();
  retune_observers();
}

void PacketLoop::say_what_is_beyond_rules()
{
  const std::size_t beyond = beyond_rules(config_, exclusions_->known());
  if (std::exchange(rules_full_, beyond > 0) || !rules_full_) return;
  log(Severity::notice, std::to_string(beyond)
                            + " of the networks and addresses that are excluded have no room in the rules: their "
                              "packets go through the queue, and pass untouched all the same");
}

void PacketLoop::retune_observers()
{
  for (const Link link : all_links)
  {
    const links::LinkInfo& info = monitor_[link];
    observers_->want(link, info.interface, info.ifindex, wanted_);
  }
}

void PacketLoop::retune_queue(bool at_once)
{
  if (!bypass_.look(config_.recorder.everything || chain_.needs_queue(kernel::now()), at_once)) return;
  if (bypass_.on())
    chain_.queue_bypassed();
  else
    chain_.queue_resumed();
  inputs_.add(kernel::now(), trace::input::QueueBypassed { bypass_.on() });
  retune_rules();
}

void PacketLoop::watch_radio()
{
  const Interest interest = chain_.interest();
  const bool wanted = interest.radio && !resting_;
  const bool always = config_.detector.watch == BlackoutWatch::always;
  watch_->watch(hands_off_.empty() && (always || (config_.detector.watch == BlackoutWatch::needed && wanted)));
  for (auto& [link, radio] : more_radio_)
    radio.watch(hands_off_.empty() && wanted && interest.every_link);
}

// ---- nothing to do, no wake-up ----

// Whatever ends the rest is a packet, a command or a notification, and calls rouse().
bool PacketLoop::may_rest() const
{
  constexpr int looks = 25; // 5 s
  return quiet_looks_ >= looks && (bypass_.on() || !wanted_.any) && rules_.in_force() && !keeper_.state().watching
         && !monitor_.outdated() && !(validation_ && validation_->holds()) && !route_unsent_ && steering_.settled()
         && pacing_.settled() && !roam_told_ && broker_.store().under_way() == 0 && traps_.all().empty();
}

void PacketLoop::rest()
{
  resting_ = true;
  budget_->rest();
  if (tell_news_ && evidence_->unwritten()) tell_news_(true);
  ev_timer_stop(loop_, &heartbeat_timer_);
  ev_timer_stop(loop_, &look_timer_);
  watch_radio();
}

void PacketLoop::wake_up()
{
  resting_ = false;
  look_at_cell(); // another day may have begun
  keeper_.heartbeat();
  ev_now_update(loop_);
  ev_timer_again(loop_, &heartbeat_timer_);
  ev_timer_again(loop_, &look_timer_);
  watch_radio();
  // Flows that begin now are judged by where this host is now.
  place_evidence(kernel::now());
}

// Five times a second, but while nothing happens.
void PacketLoop::look()
{
  const Tick now = kernel::now();
  observers_->retune(now);
  if (!bound_) bind_again();
  look_at_cell();
  if (monitor_.outdated()) monitor_notified();
  // Where its message found no room.
  if (validation_ && validation_->why() != not_validated_) links_changed();
  look_at_network_again(now);
  follow_rules();
  if (route_unsent_) tell_route();
  if (placement_.look_due(config_.placement.enabled, now)) place_connections(now);
  retune_queue();
  broker_.store().forget_acknowledged(chain_.table());
  for (const FetchOutcome& outcome : broker_.store().give_up(now))
    tell(outcome);
  for (std::size_t i = 0; i < chain_.module_count(); ++i)
    if (steering_.look(static_cast<std::uint8_t>(i), chain_.stats(i), now)) steer_soon();
  if (steering_.again(keeper_.state().steering, now)) steer_soon();
  place_evidence(now);
  look_at_access_point(now);
  if (evidence_->changed() && tell_news_) tell_news_(false);
  exclusions_->look(now);
  entered(now, trace::input::CarriedOut {});
  look_at_traps(now);
  tell_state(now);
  ++quiet_looks_;
  if (may_rest()) rest();
}

// At most once a second.
void PacketLoop::tell_state(Tick now)
{
  if (now - state_told_ < std::chrono::seconds { 1 }) return;
  state_told_ = now;
  inputs_.state(now);
}

} // namespace tandem::daemon
