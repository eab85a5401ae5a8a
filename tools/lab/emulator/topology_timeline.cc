// What the scenario's timeline and `set` do to the model.
#include "tools/lab/emulator/topology.h"

#include <algorithm>

namespace tandem::lab
{

namespace
{

std::string_view name(medium::Blackout mode)
{
  constexpr std::string_view names[] = { "none", "drop", "buffer", "fade" };
  return names[static_cast<std::size_t>(mode)];
}

} // namespace

void Topology::schedule(Tick at, std::size_t event, bool begin)
{
  pending_.push_back({ at, order_++, event, begin });
  std::push_heap(pending_.begin(), pending_.end(), std::greater<> {});
}

void Topology::start(Tick now)
{
  if (started_) return;
  started_ = true;
  start_ = now;
  for (std::size_t i = 0; i < scenario_.timeline.size(); ++i)
    schedule(now + scenario_.timeline[i].at, i, true);
}

void Topology::fire(const Pending& pending)
{
  const Event& event = scenario_.timeline[pending.event];
  if (!pending.begin) return end(event, pending.at);
  begin(event, pending.at);
  if (event.lasts) schedule(pending.at + *event.lasts, pending.event, false);
  if (event.every) schedule(pending.at + *event.every, pending.event, true);
}

void Topology::hand_off(Tick at, const HandoffEvent& handoff)
{
  const medium::NodeId client = clients_[handoff.interface], ap = ap_nodes_[handoff.ap];
  const ApSettings& there = scenario_.aps[handoff.ap];
  air_->handoff(at, client, ap, handoff.gap, handoff.forward);
  air_->set_link(client, ap, handoff.rate ? handoff.rate : there.rate, handoff.frame_error.value_or(there.frame_error));
  associated_[handoff.interface] = handoff.ap;
  if (in_force_[handoff.interface] != silence_of(handoff.interface)) apply_silence(at, handoff.interface);
}

// Of this access point at all interfaces: they are in one laptop.
void Topology::set_signals(std::size_t ap, const std::vector<std::pair<Tick, double>>& points)
{
  for (const medium::NodeId client : clients_)
    air_->set_signal(client, ap_nodes_[ap], points);
}

void Topology::place_in(Announcement& announcement, const BlackoutEvent& blackout) const
{
  if (blackout.ap) announcement.access_point = scenario_.aps[*blackout.ap].name;
  if (blackout.interface) announcement.interface = "wlan" + std::to_string(*blackout.interface);
}

void Topology::begin(const Event& event, Tick at)
{
  Announcement announcement { .what = event.what, .at = at };
  if (const auto* change = std::get_if<ChangeEvent>(&event.action))
    apply(*change, change->wifi, &change->pipes, at);
  else if (const auto* blackout = std::get_if<BlackoutEvent>(&event.action))
  {
    set_silence(at, { blackout->mode, !blackout->carrier_down }, blackout->ap, blackout->interface);
    place_in(announcement, *blackout);
    announcement.detail = name(blackout->mode);
  }
  else if (const auto* signal = std::get_if<SignalEvent>(&event.action))
  {
    std::vector<std::pair<Tick, double>> points;
    for (const auto& [offset, dbm] : signal->points)
      points.emplace_back(at + offset, dbm);
    set_signals(signal->ap, points);
    announcement.access_point = scenario_.aps[signal->ap].name;
  }
  else if (const auto* handoff = std::get_if<HandoffEvent>(&event.action))
  {
    hand_off(at, *handoff);
    announcement.access_point = scenario_.aps[handoff->ap].name;
    announcement.interface = "wlan" + std::to_string(handoff->interface);
  }
  else if (const auto* down = std::get_if<CellDownEvent>(&event.action))
  {
    set_cell_down(at, true, down->hold);
    cell_carrier_ = !down->carrier_down;
    announcement.detail = down->hold ? "buffer" : "drop";
  }
  else if (const auto* announced = std::get_if<AnnouncedEvent>(&event.action))
    announcement.value = announced->value;
  announcements_.push_back(std::move(announcement));
}

void Topology::end(const Event& event, Tick at)
{
  Announcement announcement { .what = event.what, .begin = false, .at = at };
  if (const auto* change = std::get_if<ChangeEvent>(&event.action))
    apply(*change, scenario_.wifi, nullptr, at);
  else if (const auto* blackout = std::get_if<BlackoutEvent>(&event.action))
  {
    set_silence(at, {}, blackout->ap, blackout->interface);
    place_in(announcement, *blackout);
  }
  else if (const auto* signal = std::get_if<SignalEvent>(&event.action))
  {
    set_signals(signal->ap, { { Tick {}, scenario_.aps[signal->ap].signal_dbm } });
    announcement.access_point = scenario_.aps[signal->ap].name;
  }
  else if (std::holds_alternative<CellDownEvent>(event.action))
  {
    set_cell_down(at, false, false);
    cell_carrier_ = true;
  }
  else if (const auto* announced = std::get_if<AnnouncedEvent>(&event.action))
    announcement.value = !announced->value;
  announcements_.push_back(std::move(announcement));
}

// Takes the key's value from `wifi` or `pipes`; without `pipes`, from the scenario's own.
void Topology::apply(const ChangeEvent& change, const WifiSettings& wifi, const PipePair* pipes, Tick at)
{
  if (change.section == Section::wifi)
  {
    find_key(wifi_keys(), change.key)->copy(wifi_, wifi);
    return apply_wifi(change.key, at);
  }
  const auto* key = find_key(pipe_keys(), change.key);
  const auto update = [&](PipePair& pair, std::size_t first, const PipePair& own)
  {
    key->copy(pair, pipes != nullptr ? *pipes : own);
    pipes_[first]->run_until(at);
    pipes_[first]->configure(at, pair.down);
    pipes_[first + 1]->run_until(at);
    pipes_[first + 1]->configure(at, pair.up);
  };
  if (change.section == Section::cell) return update(cell_, 0, scenario_.cell.pipes);
  for (std::size_t i = 0; i < wan_.size(); ++i)
    if (!change.server || *change.server == i) update(wan_[i], 2 + 2 * i, scenario_.servers[i].pipes);
}

void Topology::apply_wifi(std::string_view key, Tick at)
{
  const medium::AirConfig& wanted = wifi_.air;
  air_->set_loss(medium::Traffic::down, wanted.loss_down);
  air_->set_loss(medium::Traffic::up, wanted.loss_up);
  air_->set_frame_error(wanted.frame_error);
  air_->set_ap_queue(wanted.ap_queue);
  air_->set_codel(wanted.codel);
  air_->set_delay(wanted.delay, wanted.jitter);
  air_->set_power_save(at, wanted.power_save);
  if (wifi_.pipe)
  {
    for (const bool down : { true, false })
    {
      medium::Pipe& pipe = *pipes_[wifi_first_ + (down ? 0 : 1)];
      pipe.run_until(at);
      pipe.configure(at, shown_wifi_pipe(down));
    }
    return;
  }
  for (const medium::NodeId client : clients_)
    air_->set_hidden(at, client, wifi_.hidden);
  if (key == "rate") air_->set_rate(wanted.rate);
}

void Topology::change(Tick now, const ChangeEvent& change)
{
  if (change.section == Section::wifi)
    find_key(wifi_keys(), change.key)->copy(scenario_.wifi, change.wifi);
  else if (const auto* key = find_key(pipe_keys(), change.key); change.section == Section::cell)
    key->copy(scenario_.cell.pipes, change.pipes);
  else
    for (std::size_t i = 0; i < scenario_.servers.size(); ++i)
      if (!change.server || *change.server == i) key->copy(scenario_.servers[i].pipes, change.pipes);
  apply(change, change.wifi, &change.pipes, now);
}

void Topology::set_blackout(Tick now, medium::Blackout mode, std::optional<std::size_t> ap,
                            std::optional<std::size_t> interface)
{
  set_silence(now, { mode }, ap, interface);
  Announcement announcement {
    .what = "blackout", .begin = mode != medium::Blackout::none, .at = now, .detail = std::string(name(mode))
  };
  place_in(announcement, { .ap = ap, .interface = interface });
  announcements_.push_back(std::move(announcement));
}

void Topology::set_silence(Tick at, Silence silence, std::optional<std::size_t> ap,
                           std::optional<std::size_t> interface)
{
  if (interface)
    interface_silences_[*interface] = silence;
  else if (ap)
    ap_silences_[*ap] = silence;
  else
  {
    std::fill(ap_silences_.begin(), ap_silences_.end(), silence);
    std::fill(interface_silences_.begin(), interface_silences_.end(), Silence {});
  }
  for (std::size_t i = 0; i < clients_.size(); ++i)
    if (interface ? *interface == i : !ap || associated_[i] == *ap) apply_silence(at, i);
}

Topology::Silence Topology::silence_of(std::size_t interface) const
{
  const Silence& own = interface_silences_[interface];
  return own == Silence {} ? ap_silences_[associated_[interface]] : own;
}

void Topology::apply_silence(Tick at, std::size_t interface)
{
  const Silence silence = silence_of(interface);
  in_force_[interface] = silence;
  air_->set_blackout(at, clients_[interface], silence.mode);
  wifi_carriers_[interface] = silence.carrier;
  if (interface == 0)
    set_wifi_down(at, silence.mode != medium::Blackout::none, silence.mode == medium::Blackout::buffer);
}

void Topology::set_signal(std::size_t ap, double dbm)
{
  set_signals(ap, { { Tick {}, dbm } });
}

void Topology::set_cell_down(Tick now, bool down, bool hold)
{
  for (std::size_t i = 0; i < 2; ++i)
  {
    pipes_[i]->run_until(now);
    pipes_[i]->set_down(now, down, hold);
  }
}

} // namespace tandem::lab
