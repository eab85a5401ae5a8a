// What happens in the packet loop: packets, alarms, and notifications of links, keeper and fetch thread.
#include "src/chain/wanted.h"
#include "src/daemon/packet_loop.h"
#include "src/daemon/service.h"
#include "src/kernel/clock.h"

#include <tandem/pure_ack.h>

#include <algorithm>
#include <exception>
#include <string>
#include <utility>
#include <variant>

namespace tandem::daemon
{

// ---- the one way of a packet ----

kernel::Decision PacketLoop::queued(kernel::QueuedPacket& packet)
{
  const std::optional<Segment> segment = datapath_.queued(packet);
  if (!segment) return {};
  watch_->traffic_seen(!packet.egress(), packet.arrival);
  // Handshakes first: the copies of both SYNs were made before the ACK that now waits for its verdict.
  if (!chain_.knows(segment->key)) observers_->drain(Link::wifi);
  const chain::Outcome outcome = chain_.segment(*segment, true, packet.arrival);
  carry_out();
  const Datapath::Decided decided = datapath_.decided(packet, *segment, outcome);
  if (decided.unedited) chain_.unedited(*segment, outcome, packet.arrival);
  return decided;
}

void PacketLoop::observed(Link by, const kernel::ObservedPacket& packet)
{
  const std::optional<Segment> segment = datapath_.observed(by, packet);
  if (!segment) return;
  if (by == Link::wifi) watch_->traffic_seen(packet.direction == Direction::ingress, packet.arrival);
  if (config_.daemon.exempts(segment->key)) return; // no rule queues it: it is not to be watched either
  chain_.segment(*segment, false, packet.arrival);
  carry_out();
  if (by == Link::wifi && bypass_.on() && segment->has(tcp_flag::syn)) retune_queue();
}

// What the chain wants done, in its order: segments leave before the verdict of the packet at hand is given.
void PacketLoop::carry_out()
{
  chain::Output& output = chain_.output();
  if (output.empty()) return;
  for (const chain::Injection& one : output.segments)
    chain_.sent(one, inject(one));
  for (const chain::ModuleRequest& one : output.requests)
    steering_.take(one);
  if (!output.requests.empty()) steer_soon();
  for (const chain::FetchRequest& one : output.fetches)
    if (!broker_.ask(one)) chain_.fetch_refused(one);
  for (const chain::PathFound& one : output.paths)
    evidence_->path_found(one, kernel::now());
  output.clear();
}

std::size_t PacketLoop::inject(const chain::Injection& injection)
{
  const Tick now = kernel::now();
  return injection.segment.kind == InjectedKind::fill ? datapath_.filled(injection, broker_.fill(injection), now)
                                                      : datapath_.inject(injection, now);
}

void PacketLoop::drain_queue()
{
  queue_.receive([this](kernel::QueuedPacket& packet) { return queued(packet); });
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
  carry_out();
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
  try
  {
    if (const auto plan = steering_.due(monitor_.table(), kernel::now())) keeper_.post_steering(*plan);
  }
  catch (const std::exception& error)
  {
    log(Severity::warning, std::string { "steering is not possible: " } + error.what());
  }
  if (steering_.settled()) ev_timer_stop(loop_, &steer_timer_);
}

void PacketLoop::switch_slot(std::size_t i, bool on)
{
  chain_.enable(i, on, kernel::now());
  carry_out();
  if (on) return;
  steering_.lapse(static_cast<std::uint8_t>(i));
  steer_soon();
}

// ---- bytes fetched a second time (docs/decisions/0007) ----

void PacketLoop::retune_fetching()
{
  if (const std::string_view why = broker_.outdated(chain_.interest().content); !why.empty()) stop_fetching(why);
  broker_.start();
}

void PacketLoop::stop_fetching(std::string_view why)
{
  for (const FetchOutcome& outcome : broker_.stop(why))
    tell(outcome);
  chain_.table().each([](flow::Flow& flow) { flow.view.content = Content::unknown; });
}

void PacketLoop::fetch_message(const fetch::Message& message)
{
  if (const auto* notification = std::get_if<fetch::Notification>(&message))
    chain_.content(notification->key, notification->content, notification->why);
  else if (const auto* cost = std::get_if<fetch::Cost>(&message))
  {
    chain_.spent(cost->cell_bytes);
    if (chain_.budget_spent()) broker_.stop_keeping_up();
  }
  else if (const auto outcome = broker_.store().take(std::get<fetch::Answer>(message)))
    tell(*outcome);
}

void PacketLoop::tell(const FetchOutcome& outcome)
{
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
  // Whether the second way leads anywhere is known by the policy route rather than by the interface.
  LinkState& cell = states[static_cast<std::size_t>(Link::cell)];
  cell.route = keeper_.state().route.v4;
  cell.route_v6 = keeper_.state().route.v6;
  return states;
}

void PacketLoop::tell_links()
{
  chain_.links(present_links(), kernel::now(), [this](const Address& local) { return monitor_.owner(local); });
  carry_out();
}

// A blackout begins, ends or is foreseen: addresses, routes and rules are what they were.
void PacketLoop::verdict_changed()
{
  tell_links();
  schedule();
}

void PacketLoop::links_changed()
{
  watch_->link(monitor_[Link::wifi]);
  for (auto& [link, radio] : more_radio_)
    radio.link(monitor_[link].ifindex);
  steering_.links_changed(monitor_.table());
  steer_soon();
  tell_links();
  bind();
  retune_rules();
  schedule();
}

void PacketLoop::radio_changed(Link link, const std::optional<RadioState>& radio)
{
  chain_.radio(link, radio, kernel::now());
  carry_out();
  schedule();
}

void PacketLoop::monitor_notified()
{
  if (monitor_.receive(kernel::now())) links_changed();
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
  const kernel::KeeperState before = keeper_.state();
  if (keeper_.dispatch())
  {
    follow_rules();
    const KeeperChange change = compare(before, keeper_.state());
    // Steering changes ten times a second at most; links are looked at for anything else.
    if (!change.steering_only) links_changed();
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
  const Interest interest = chain_.interest();
  watch_->watch(config_.detector.watch == BlackoutWatch::always
                || (config_.detector.watch == BlackoutWatch::needed && interest.radio));
  for (auto& [link, radio] : more_radio_)
    radio.watch(interest.radio && interest.every_link);
  queue_.set_copy_range(copy_range(interest, config_.recorder.snap));
  const links::LinkInfo& wifi = monitor_[Link::wifi];
  wanted_ = wanted_now(chain::wanted(chain_), config_.recorder.everything, wifi, bypass_.on());
  const kernel::RulePlan plan = rule_plan(wanted_, config_, roles_, marks_, wifi);
  if (rules_.want(plan)) rules_.posted(keeper_.post_apply(plan));
  retune_fetching();
  retune_observers();
}

void PacketLoop::retune_observers()
{
  for (const Link link : all_links)
  {
    const links::LinkInfo& info = monitor_[link];
    if (link == Link::wifi || !info.interface.empty()) observers_->want(link, info.interface, info.ifindex, wanted_);
  }
}

void PacketLoop::retune_queue(bool at_once)
{
  if (!bypass_.look(config_.recorder.everything || chain_.needs_queue(kernel::now()), at_once)) return;
  if (bypass_.on())
    chain_.queue_bypassed();
  else
    chain_.queue_resumed();
  retune_rules();
}

// Five times a second.
void PacketLoop::look()
{
  const Tick now = kernel::now();
  observers_->retune(now);
  follow_rules();
  retune_queue();
  broker_.store().forget_acknowledged(chain_.table());
  for (const FetchOutcome& outcome : broker_.store().give_up(now))
    tell(outcome);
  for (std::size_t i = 0; i < chain_.module_count(); ++i)
    if (steering_.look(static_cast<std::uint8_t>(i), chain_.stats(i), now)) steer_soon();
  evidence_->place(monitor_[Link::wifi], watch_->ssid(), roles_.cell, now);
  evidence_->look(now);
  carry_out();
}

} // namespace tandem::daemon
