#include "tools/lab/emulator/topology.h"

#include <algorithm>

namespace tandem::lab
{

namespace
{

constexpr std::uint32_t udp_headers = 28; // IPv4 and UDP around a background station's payload

} // namespace

Topology::Topology(const Scenario& scenario, std::uint64_t seed)
    : scenario_(scenario), frame_random_(seed, 0xf4), wifi_(scenario.wifi), cell_(scenario.cell.pipes)
{
  air_ = std::make_unique<medium::Air>(scenario.wifi.air, seed, air_box_);
  for (const auto& ap : scenario.aps)
    ap_nodes_.push_back(air_->add_access_point(Tick {}, ap.channel, ap.signal_dbm));
  for (const std::size_t ap : scenario.interfaces)
  {
    const medium::NodeId client = air_->add_station(ap_nodes_[ap]);
    clients_.push_back(client);
    wifi_carriers_.push_back(1);
    air_->observe(client);
    air_->set_hidden(Tick {}, client, scenario.wifi.hidden);
    air_->set_link(client, ap_nodes_[ap], scenario.aps[ap].rate, scenario.aps[ap].frame_error);
  }
  associated_ = scenario.interfaces;
  ap_silences_.resize(scenario.aps.size());
  interface_silences_.resize(clients_.size());
  in_force_.resize(clients_.size());
  for (std::size_t i = 0; i < scenario.stations.size(); ++i)
  {
    const BackgroundSettings& station = scenario.stations[i];
    const medium::NodeId ap = ap_nodes_[station.ap];
    const medium::NodeId node = air_->add_station(ap);
    station_nodes_.push_back(node);
    air_->set_signal(node, ap, station.signal_dbm);
    // `load` counts payload; the air carries the headers too.
    std::optional<Rate> rate;
    if (station.load) rate = Rate { station.load->bits_per_second * (station.size + udp_headers) / station.size };
    air_->add_background(Tick {}, node, station.direction, station.size + udp_headers, rate);
  }

  for (std::size_t i = 0; i < clients_.size(); ++i)
    ports_.push_back({ PortId::Kind::client_wifi, i });
  for (std::size_t i = 0; i < scenario.aps.size(); ++i)
    ports_.push_back({ PortId::Kind::ap, i });
  if (scenario.cell.enabled)
  {
    ports_.push_back({ PortId::Kind::client_cell, 0 });
    ports_.push_back({ PortId::Kind::gateway_cell, 0 });
  }
  for (std::size_t i = 0; i < scenario.servers.size(); ++i)
  {
    ports_.push_back({ PortId::Kind::wan, i });
    ports_.push_back({ PortId::Kind::server, i });
    wan_.push_back(scenario.servers[i].pipes);
  }
  const auto add_pipe = [&](const medium::PipeConfig& config, PortId from, PortId to)
  {
    pipes_.push_back(std::make_unique<medium::Pipe>(config, seed, pipes_.size(),
                                                    static_cast<medium::NodeId>(port_of(from)),
                                                    static_cast<medium::NodeId>(port_of(to)), pipe_box_));
  };
  add_pipe(cell_.down, { PortId::Kind::gateway_cell, 0 }, { PortId::Kind::client_cell, 0 });
  add_pipe(cell_.up, { PortId::Kind::client_cell, 0 }, { PortId::Kind::gateway_cell, 0 });
  for (std::size_t i = 0; i < wan_.size(); ++i)
  {
    add_pipe(wan_[i].down, { PortId::Kind::server, i }, { PortId::Kind::wan, i });
    add_pipe(wan_[i].up, { PortId::Kind::wan, i }, { PortId::Kind::server, i });
  }
  wifi_first_ = pipes_.size();
  if (!scenario.wifi.pipe) return;
  // A stream of its own, whatever else the scenario has: equal seeds lose the same packets of the Wi-Fi.
  constexpr std::uint64_t wifi_stream = 0x8000;
  const auto client = static_cast<medium::NodeId>(port_of({ PortId::Kind::client_wifi, 0 }));
  const auto ap = static_cast<medium::NodeId>(port_of({ PortId::Kind::ap, 0 }));
  pipes_.push_back(std::make_unique<medium::Pipe>(shown_wifi_pipe(true), seed, wifi_stream, ap, client, pipe_box_));
  pipes_.push_back(
      std::make_unique<medium::Pipe>(shown_wifi_pipe(false), seed, wifi_stream + 1, client, ap, pipe_box_));
}

medium::PipeConfig Topology::shown_wifi_pipe(bool down) const
{
  medium::PipeConfig config = lab::wifi_pipe(wifi_, down);
  config.shown = true;
  return config;
}

std::size_t Topology::interface_at(std::size_t ap) const
{
  const auto there = std::find(associated_.begin(), associated_.end(), ap);
  return there == associated_.end() ? 0 : static_cast<std::size_t>(there - associated_.begin());
}

std::size_t Topology::port_of(PortId id) const
{
  return static_cast<std::size_t>(std::find(ports_.begin(), ports_.end(), id) - ports_.begin());
}

void Topology::submit(Tick now, std::size_t port, medium::Packet packet, std::optional<std::size_t> interface)
{
  const PortId& id = ports_[port];
  const bool pure_ack = packet.airless;
  packet.airless = false;
  switch (id.kind)
  {
  case PortId::Kind::client_wifi:
    if (wifi_.pipe) return pipes_[wifi_first_ + 1]->submit(now, packet);
    packet.airless = pure_ack && wifi_.ack_free;
    air_->submit(now, packet, clients_[id.index], medium::nobody);
    break;
  case PortId::Kind::ap:
    if (wifi_.pipe && id.index == 0) return pipes_[wifi_first_]->submit(now, packet);
    air_->submit(now, packet, ap_nodes_[id.index],
                 packet.group ? medium::nobody : clients_[interface.value_or(interface_at(id.index))]);
    break;
  case PortId::Kind::client_cell:
    pipes_[1]->submit(now, packet);
    break;
  case PortId::Kind::gateway_cell:
    pipes_[0]->submit(now, packet);
    break;
  case PortId::Kind::wan:
    pipes_[3 + 2 * id.index]->submit(now, packet);
    break;
  case PortId::Kind::server:
    pipes_[2 + 2 * id.index]->submit(now, packet);
    break;
  }
}

Tick Topology::next_event() const
{
  Tick next = air_->next_event();
  for (const auto& pipe : pipes_)
    next = std::min(next, pipe->next_event());
  if (!pending_.empty()) next = std::min(next, pending_.front().at);
  return next;
}

void Topology::run_links(Tick now)
{
  air_->run_until(now);
  for (auto& pipe : pipes_)
    if (pipe->next_event() <= now) pipe->run_until(now);
}

void Topology::run_until(Tick now)
{
  while (!pending_.empty() && pending_.front().at <= now)
  {
    const Pending pending = pending_.front();
    std::pop_heap(pending_.begin(), pending_.end(), std::greater<> {});
    pending_.pop_back();
    run_links(pending.at);
    fire(pending);
  }
  run_links(now);
  for (const auto& delivery : air_box_.deliveries)
  {
    const auto client = std::find(clients_.begin(), clients_.end(), delivery.to);
    auto port = static_cast<std::size_t>(client - clients_.begin());
    if (client == clients_.end())
      port += static_cast<std::size_t>(std::find(ap_nodes_.begin(), ap_nodes_.end(), delivery.to) - ap_nodes_.begin());
    arrivals_.push_back({ delivery.handle, port, delivery.at, delivery.mark });
  }
  for (const auto& delivery : pipe_box_.deliveries)
  {
    Arrival& arrival = arrivals_.emplace_back();
    arrival = { delivery.handle, delivery.to, delivery.at, delivery.mark };
    if (delivery.mark)
    {
      arrival.place = place_of(ports_[delivery.from]);
      arrival.place.queued = delivery.queued;
      arrival.place.queued_bytes = delivery.queued_bytes;
    }
  }
  for (const auto& drop : air_box_.drops)
    dropped_.push_back(
        { drop.handle, drop.at, drop.why, { 0, !is_client(drop.from), drop.queued, drop.queued_bytes } });
  for (const auto& drop : pipe_box_.drops)
  {
    Place place = place_of(ports_[drop.from]);
    place.queued = drop.queued;
    place.queued_bytes = drop.queued_bytes;
    dropped_.push_back({ drop.handle, drop.at, drop.why, place });
  }
  if (!pipe_box_.frames.empty()) show_frames();
  air_box_.deliveries.clear();
  air_box_.drops.clear();
  pipe_box_.clear();
}

Topology::Place Topology::place_of(const PortId& from) const
{
  switch (from.kind)
  {
  case PortId::Kind::client_wifi:
  case PortId::Kind::ap:
    return { 0, from.kind == PortId::Kind::ap };
  case PortId::Kind::client_cell:
  case PortId::Kind::gateway_cell:
    return { 1, from.kind == PortId::Kind::gateway_cell };
  case PortId::Kind::wan:
  case PortId::Kind::server:
    return { static_cast<std::uint8_t>(2 + from.index), from.kind == PortId::Kind::server };
  }
  return {};
}

// What a monitor at the client sees of a Wi-Fi that is a pipe: each packet as a frame of its own, the ones that the
// residual loss takes with a bad FCS, and before some that came well an attempt that did not (frame_error).
void Topology::show_frames()
{
  const std::size_t client = port_of({ PortId::Kind::client_wifi, 0 });
  for (medium::FrameReport frame : pipe_box_.frames)
  {
    const bool down = frame.receiver == client;
    const medium::NodeId ap = ap_nodes_[associated_[0]];
    frame.transmitter = down ? ap : clients_[0];
    frame.receiver = down ? clients_[0] : ap;
    frame.channel = static_cast<std::uint8_t>(scenario_.aps[associated_[0]].channel);
    frame.ht = true;
    frame.mcs = static_cast<std::uint8_t>(wifi_.air.phy.rates.back().mcs);
    frame.bytes = wifi_.air.phy.mpdu(frame.bytes);
    frame.sequence = frame_sequences_[down ? 0 : 1];
    frame_sequences_[down ? 0 : 1] = (frame.sequence + 1) & 0x0fff;
    frame.signal_valid = down ? 1 : 0;
    frame.signal_dbm = static_cast<float>(air_->signal(clients_[0], ap, frame.start));
    const bool lost = frame.failed;
    if (frame_random_.chance(wifi_.air.frame_error))
    {
      frame.failed = true;
      frame.bad_fcs = down;
      air_box_.frames.push_back(frame);
      frame.retry = true;
    }
    frame.failed = lost;
    frame.bad_fcs = lost && down;
    air_box_.frames.push_back(frame);
  }
  std::stable_sort(air_box_.frames.begin(), air_box_.frames.end(),
                   [](const medium::FrameReport& a, const medium::FrameReport& b)
                   { return a.start + a.duration < b.start + b.duration; });
}

void Topology::set_wifi_down(Tick at, bool down, bool hold)
{
  if (!wifi_.pipe) return;
  for (const std::size_t pipe : { wifi_first_, wifi_first_ + 1 })
  {
    pipes_[pipe]->run_until(at);
    pipes_[pipe]->set_down(at, down, hold);
  }
}

void Topology::done()
{
  arrivals_.clear();
  dropped_.clear();
  announcements_.clear();
  air_box_.frames.clear();
}

} // namespace tandem::lab
