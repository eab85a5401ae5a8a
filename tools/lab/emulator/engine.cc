#include "tools/lab/emulator/engine.h"

#include "tools/lab/emulator/timeline.h"

#include <nlohmann/json.hpp>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <set>
#include <system_error>

namespace tandem::lab
{

using nlohmann::json;

namespace
{

constexpr std::uint32_t signal_id = 1u << 20;
constexpr std::uint32_t control_id = 1u << 25;
constexpr std::uint32_t frames_id = 1u << 26;
constexpr Duration survey_every = std::chrono::milliseconds { 500 };
// Packets read from one device before the others and the clock get their turn.
constexpr int read_batch = 16;
// The same where several calls are made at once, each in the list whether a frame waits or not.
constexpr std::size_t reads_at_once = 4;
constexpr std::size_t writes_at_once = 64;
constexpr std::int64_t frame_flush_ns = 2'000'000;

constexpr Mac address(std::uint8_t kind, std::size_t number)
{
  return { 0x02, 0x54, 0x44, 0x4d, kind, static_cast<std::uint8_t>(number) };
}

// The value of `set` as the TOML node that the settings read.
void insert_json(toml::table& table, std::string_view key, const json& value)
{
  if (value.is_boolean())
    table.insert_or_assign(key, value.get<bool>());
  else if (value.is_number_integer())
    table.insert_or_assign(key, value.get<std::int64_t>());
  else if (value.is_number())
    table.insert_or_assign(key, value.get<double>());
  else if (value.is_string())
    table.insert_or_assign(key, value.get<std::string>());
  else if (value.is_object())
  {
    toml::table inner;
    for (const auto& [name, element] : value.items())
      insert_json(inner, name, element);
    table.insert_or_assign(key, std::move(inner));
  }
  else
    throw BadInput("control: value: a boolean, number, string or object is allowed");
}

} // namespace

Device device_of(const Scenario& scenario, const PortId& port, const std::string& prefix)
{
  using Kind = PortId::Kind;
  const std::size_t n = port.index + 1;
  switch (port.kind)
  {
  case Kind::client_wifi:
    return { prefix + "client", "wlan" + std::to_string(port.index), address(1, n) };
  case Kind::ap:
    return { prefix + scenario.aps[port.index].name, "air0", address(2, n) };
  case Kind::client_cell:
    return { prefix + "client", "cell0", address(3, 1) };
  case Kind::gateway_cell:
    return { prefix + "cgw", "air0", address(4, 1) };
  case Kind::wan:
    return { prefix + "wan", "wan-" + scenario.servers[port.index].name, address(5, n) };
  case Kind::server:
    return { prefix + scenario.servers[port.index].name, "eth0", address(6, n) };
  }
  return {};
}

Engine::Engine(const Scenario& scenario, const EngineOptions& options)
    : scenario_(scenario), options_(options), topology_(scenario, options.seed)
{
  frame_context_.standard = scenario.wifi.air.phy.standard;
  frame_context_.short_preamble = scenario.wifi.air.phy.short_preamble;
  frame_context_.short_guard = scenario.wifi.air.phy.short_guard;
  // In the order in which the topology adds its nodes: access points, the client, background stations.
  const auto add = [this](Mac mac, bool ap, medium::NodeId bssid, std::string ssid)
  {
    frame_context_.addresses.push_back(mac);
    frame_context_.is_ap.push_back(ap);
    frame_context_.bssid_of.push_back(bssid);
    frame_context_.ssids.push_back(std::move(ssid));
  };
  for (std::size_t i = 0; i < scenario.aps.size(); ++i)
    add(address(2, i + 1), true, topology_.ap_node(i), scenario.aps[i].name);
  for (std::size_t i = 0; i < scenario.interfaces.size(); ++i)
    add(address(1, i + 1), false, topology_.ap_node(scenario.interfaces[i]), "");
  wifi_carriers_.assign(scenario.interfaces.size(), 1);
  for (std::size_t i = 0; i < scenario.stations.size(); ++i)
    add(address(7, i + 1), false, topology_.ap_node(scenario.stations[i].ap), "");
}

Engine::~Engine() = default;

void Engine::open()
{
  // The signals are taken by a descriptor, so that they never interrupt a write.
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  check("block signals", ::sigprocmask(SIG_BLOCK, &set, nullptr));
  signals_ = Fd(check("open a signal descriptor", ::signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC)));
  poll_.add(signals_.get(), signal_id);
  control_ = std::make_unique<SocketServer>(poll_, (options_.state / "control.sock").string(), control_id, 1u << 20);
  frames_ = std::make_unique<SocketServer>(poll_, (options_.state / "frames.sock").string(), frames_id, 1u << 20);
  losses_ = std::make_unique<LossLog>(options_.state / "losses.bin");
  for (const PortId& id : topology_.ports())
  {
    Port port;
    port.device = device_of(scenario_, id, options_.prefix);
    port.tap = std::make_unique<Tap>(port.device.netns, port.device.name, port.device.mac);
    port.to_rewrite = id.kind == PortId::Kind::client_wifi || id.kind == PortId::Kind::ap;
    poll_.add(port.tap->fd(), static_cast<std::uint32_t>(ports_.size()));
    ports_.push_back(std::move(port));
  }
  at_once_ = SeveralCalls::supported() && reads_at_once * ports_.size() + writes_at_once < SeveralCalls::most;
  for (std::size_t i = 0; at_once_ && i < reads_at_once * ports_.size(); ++i)
    reads_.push_back({ i / reads_at_once, pool_.take() });
  epoch_ = monotonic_ns();
  frame_context_.realtime_offset = realtime_ns();
}

std::string Engine::describe() const
{
  json devices = json::array();
  for (const auto& port : ports_)
    devices.push_back(
        { { "netns", port.device.netns }, { "name", port.device.name }, { "mac", text(port.device.mac) } });
  return json {
    { "pid", ::getpid() },
    { "scenario", scenario_.name },
    { "seed", options_.seed },
    { "epoch_ns", epoch_ },
    { "devices", devices }
  }.dump();
}

void Engine::read_port(std::size_t index)
{
  for (int i = 0; i < read_batch; ++i)
  {
    const medium::Handle handle = pool_.take();
    const int n = ports_[index].tap->read(pool_.buffer(handle));
    if (n <= static_cast<int>(ethernet_header))
    {
      pool_.give_back(handle);
      return;
    }
    take_in(index, handle, static_cast<std::size_t>(n));
  }
}

// The client's Wi-Fi interface whose address a frame is for.
std::optional<std::size_t> Engine::interface_of(std::span<const std::byte> frame) const
{
  for (std::size_t i = 0; i < topology_.interfaces(); ++i)
    if (std::memcmp(frame.data(), address(1, i + 1).data(), sizeof(Mac)) == 0) return i;
  return {};
}

// Hands a frame that came in by a device to the model.
void Engine::take_in(std::size_t index, medium::Handle handle, std::size_t bytes)
{
  const PortId::Kind kind = topology_.ports()[index].kind;
  const bool from_client = kind == PortId::Kind::client_wifi || kind == PortId::Kind::client_cell;
  pool_.set_length(handle, bytes);
  ++ports_[index].received;
  const Tick at = now();
  if (topology_.next_event() <= at) topology_.run_until(at);
  if (from_client && !unrepaired_.empty())
    if (const auto packet = loss_record(pool_.frame(handle), at, epoch_, loss_log_repaired, {}))
      unrepaired_.acknowledged(*packet, [this](const LossRecord& loss) { losses_->add(loss); });
  std::optional<std::size_t> interface;
  if (kind == PortId::Kind::ap) interface = interface_of(pool_.frame(handle));
  topology_.submit(at, index, classify(handle, pool_.frame(handle)), interface);
}

void Engine::write(std::size_t index, medium::Handle handle)
{
  if (!at_once_) return written(index, handle, ports_[index].tap->write(pool_.frame(handle)));
  const auto frame = pool_.frame(handle);
  calls_.add(SYS_write,
             { ports_[index].tap->fd(), reinterpret_cast<long>(frame.data()), static_cast<long>(frame.size()) });
  writes_.push_back({ index, handle });
  if (writes_.size() == writes_at_once) make_writes();
}

void Engine::written(std::size_t index, medium::Handle handle, bool taken)
{
  ++(taken ? ports_[index].sent : ports_[index].refused);
  pool_.give_back(handle);
}

// Makes the calls that wait, the writes first among them.
void Engine::make_writes()
{
  if (calls_.size() == 0) return;
  calls_.run();
  for (std::size_t i = 0; i < writes_.size(); ++i)
    written(writes_[i].port, writes_[i].handle, calls_.result(i) >= 0);
  writes_.clear();
  calls_.clear();
}

// Writes out what the model has delivered and recycles what it has dropped.
void Engine::release()
{
  for (const auto& arrival : topology_.arrivals())
  {
    Port& port = ports_[arrival.port];
    const auto frame = pool_.frame(arrival.handle);
    if (arrival.mark)
    {
      mark_congestion(frame);
      log_loss(arrival.handle, arrival.at, loss_log_marked, arrival.place);
    }
    // One network behind all access points: a frame for the old one's address reaches the new one.
    if (port.to_rewrite && (frame[0] & std::byte { 1 }) == std::byte { 0 })
      std::memcpy(frame.data(), port.device.mac.data(), port.device.mac.size());
    release_error_.add(now() - arrival.at);
    write(arrival.port, arrival.handle);
  }
  for (const auto& loss : topology_.dropped())
  {
    log_loss(loss.handle, loss.at, static_cast<std::uint8_t>(loss.why), loss.place);
    pool_.give_back(loss.handle);
  }
  if (!topology_.frames().empty()) publish_frames();
  if (!topology_.announcements().empty())
  {
    make_writes(); // what was delivered before a carrier fell
    publish_announcements();
  }
  topology_.done();
}

void Engine::log_loss(medium::Handle handle, Tick at, std::uint8_t what, const Topology::Place& place)
{
  const auto record = loss_record(pool_.frame(handle), at, epoch_, what, place);
  if (!record) return;
  losses_->add(*record);
  if (what != loss_log_marked && place.down && record->payload > 0) unrepaired_.lost(*record);
}

// Waits until something is ready or `timeout` nanoseconds have passed, and takes in the frames that came.
std::size_t Engine::wait(std::vector<epoll_event>& events, std::int64_t timeout)
{
  if (at_once_) return exchange(events, timeout);
  const std::size_t count = poll_.wait(events, timeout);
  for (std::size_t i = 0; i < count; ++i)
    if (events[i].data.u32 < ports_.size()) read_port(events[i].data.u32);
  return count;
}

// The same with as few calls as can be: one writes what was delivered, waits, and reads from every device.
std::size_t Engine::exchange(std::vector<epoll_event>& events, std::int64_t timeout)
{
  timeout_ = { timeout / 1'000'000'000, timeout % 1'000'000'000 };
  const std::size_t waiting = calls_.add(
      SYS_epoll_pwait2, { poll_.fd(), reinterpret_cast<long>(events.data()), static_cast<long>(events.size()),
                          timeout < 0 ? 0 : reinterpret_cast<long>(&timeout_), 0, _NSIG / 8 });
  const std::size_t first = calls_.size();
  for (std::size_t i = 0; i < reads_.size(); ++i)
  {
    const auto buffer = pool_.buffer(reads_[i].handle);
    const bool follows = i > 0 && reads_[i - 1].port == reads_[i].port;
    calls_.add(
        SYS_read,
        { ports_[reads_[i].port].tap->fd(), reinterpret_cast<long>(buffer.data()), static_cast<long>(buffer.size()) },
        static_cast<long>(follows ? first + i - 1 : waiting));
  }
  calls_.run();
  for (std::size_t i = 0; i < writes_.size(); ++i)
    written(writes_[i].port, writes_[i].handle, calls_.result(i) >= 0);
  writes_.clear();
  for (std::size_t i = 0; i < reads_.size(); ++i)
    if (const long n = calls_.result(first + i); n > static_cast<long>(ethernet_header))
    {
      take_in(reads_[i].port, reads_[i].handle, static_cast<std::size_t>(n));
      reads_[i].handle = pool_.take();
    }
  const long ready = calls_.result(waiting);
  calls_.clear();
  if (ready < 0 && ready != -EINTR)
    throw std::system_error(static_cast<int>(-ready), std::generic_category(), "wait for packets");
  return static_cast<std::size_t>(std::max(ready, 0l));
}

void Engine::run()
{
  std::vector<epoll_event> events(64);
  while (!stop_)
  {
    ++loops_;
    const Tick at = now();
    topology_.run_until(at);
    release();

    const Tick next = topology_.next_event();
    std::int64_t wait = -1;
    if (next != Tick::max())
    {
      wait = (next - now()).count();
      // Waking up takes tens of microseconds; what is nearer than that is waited for without sleeping.
      if (wait > options_.spin_ns)
        wait -= options_.spin_ns;
      else
        wait = 0;
    }
    if (!frames_->peers().empty())
    {
      const std::int64_t clock = monotonic_ns();
      if (clock >= next_frame_flush_)
      {
        frames_->flush();
        next_frame_flush_ = clock + frame_flush_ns;
      }
      wait = wait < 0 ? frame_flush_ns : std::min(wait, frame_flush_ns);
    }
    const std::size_t count = this->wait(events, wait);
    for (std::size_t i = 0; i < count; ++i)
    {
      const std::uint32_t id = events[i].data.u32;
      if (id == signal_id)
        stop_ = true;
      else if (control_->owns(id))
        control_->ready(
            id, events[i].events, [this](SocketServer::Peer& peer, std::string_view line) { command(peer, line); },
            [](SocketServer::Peer&) {});
      else if (frames_->owns(id))
        frames_->ready(
            id, events[i].events, [](SocketServer::Peer&, std::string_view) {},
            [this](SocketServer::Peer& peer)
            {
              const auto header = pcap_header();
              frames_->send(peer, { reinterpret_cast<const char*>(header.data()), header.size() });
            });
    }
    topology_.want_frames(!frames_->peers().empty());
  }
}

void Engine::publish_frames()
{
  for (std::size_t i = 0; i < topology_.interfaces(); ++i)
    frame_context_.bssid_of[topology_.client(i)] = topology_.ap_node(topology_.associated_ap(i));
  for (const auto& frame : topology_.frames())
  {
    if (!frame.heard) continue;
    frame_bytes_.clear();
    append_record(frame_bytes_, frame, frame_context_);
    ++frames_sent_;
    send_frame_bytes();
  }
  if (const Tick at = now(); at >= next_survey_)
  {
    next_survey_ = at + survey_every;
    if (topology_.surveyed()) publish_surveys();
  }
}

void Engine::send_frame_bytes()
{
  for (auto& [id, peer] : frames_->peers())
    frames_->send(peer, { reinterpret_cast<const char*>(frame_bytes_.data()), frame_bytes_.size() });
}

// Of each channel that an interface of the client is on.
void Engine::publish_surveys()
{
  std::set<unsigned> told;
  for (std::size_t i = 0; i < topology_.interfaces(); ++i)
  {
    const std::size_t ap = topology_.associated_ap(i);
    const unsigned channel = scenario_.aps[ap].channel;
    if (!told.insert(channel).second) continue;
    frame_bytes_.clear();
    const Tick at = now();
    append_record(frame_bytes_,
                  ChannelUse { .frequency = channel_frequency(channel),
                               .active = at.time_since_epoch(),
                               .busy = topology_.air().busy(topology_.ap_node(ap)) },
                  at, frame_context_);
    send_frame_bytes();
  }
}

void Engine::update_carrier()
{
  for (std::size_t i = 0; i < ports_.size(); ++i)
  {
    const PortId& id = topology_.ports()[i];
    if (id.kind == PortId::Kind::client_wifi && topology_.wifi_carrier(id.index) != (wifi_carriers_[id.index] != 0))
      ports_[i].tap->set_carrier((wifi_carriers_[id.index] = topology_.wifi_carrier(id.index)) != 0);
    if (id.kind == PortId::Kind::client_cell && topology_.cell_carrier() != cell_carrier_)
      ports_[i].tap->set_carrier(cell_carrier_ = topology_.cell_carrier());
  }
}

void Engine::publish_announcements()
{
  update_carrier();
  for (const auto& a : topology_.announcements())
  {
    json line { { "event", a.what },
                { "phase", a.begin ? "begin" : "end" },
                { "at_ns", epoch_ + a.at.time_since_epoch().count() } };
    if (topology_.started()) line["since_start_s"] = seconds(a.at - topology_.started_at());
    if (!a.detail.empty()) line["mode"] = a.detail;
    if (!a.access_point.empty()) line["ap"] = a.access_point;
    if (!a.interface.empty()) line["interface"] = a.interface;
    if (a.what == "nat" || a.what == "source_filter") line["value"] = a.value;
    const std::string text_line = line.dump() + "\n";
    for (auto& [id, peer] : control_->peers())
      if (peer.subscribed) control_->send(peer, text_line);
  }
  control_->flush();
}

void Engine::command(SocketServer::Peer& peer, std::string_view line)
{
  json reply;
  try
  {
    reply = answer(peer, json::parse(line));
  }
  catch (const json::exception& e)
  {
    reply = { { "ok", false }, { "error", "control: one JSON object per line is allowed: " + std::string(e.what()) } };
  }
  catch (const BadInput& e)
  {
    reply = { { "ok", false }, { "error", e.what() } };
  }
  control_->send(peer, reply.dump() + "\n");
}

json Engine::answer(SocketServer::Peer& peer, const json& request)
{
  const std::string cmd = request.at("cmd").get<std::string>();
  const Tick at = now();
  topology_.run_until(at);
  losses_->flush();
  if (cmd == "start")
  {
    topology_.start(at);
    return { { "ok", true }, { "start_ns", epoch_ + topology_.started_at().time_since_epoch().count() } };
  }
  if (cmd == "stats")
  {
    json reply = stats();
    if (request.value("reset", false)) release_error_.reset();
    return reply;
  }
  if (cmd == "subscribe")
  {
    peer.subscribed = true;
    return { { "ok", true } };
  }
  if (cmd == "flush") return { { "ok", true } };
  if (cmd == "quit")
  {
    stop_ = true;
    return { { "ok", true } };
  }
  if (cmd == "set")
  {
    const std::string key = request.at("key").get<std::string>();
    toml::table holder;
    insert_json(holder, "value", request.at("value"));
    const toml::node& node = *holder.get("value");
    const Value value(node, key);
    const auto ap_named = [&](const std::string& ap)
    {
      const auto it =
          std::find_if(scenario_.aps.begin(), scenario_.aps.end(), [&](const auto& a) { return a.name == ap; });
      if (it == scenario_.aps.end()) throw BadInput("control: " + key + ": no access point " + ap);
      return static_cast<std::size_t>(it - scenario_.aps.begin());
    };
    const auto interface_named = [&](const std::string& name)
    {
      for (std::size_t i = 0; i < topology_.interfaces(); ++i)
        if (name == "wlan" + std::to_string(i)) return i;
      throw BadInput("control: " + key + ": no Wi-Fi interface " + name);
    };
    if (key == "wifi.blackout")
    {
      static constexpr medium::Blackout modes[] = { medium::Blackout::none, medium::Blackout::drop,
                                                    medium::Blackout::buffer, medium::Blackout::fade };
      std::optional<std::size_t> ap, interface;
      if (request.contains("ap")) ap = ap_named(request.at("ap").get<std::string>());
      if (request.contains("interface")) interface = interface_named(request.at("interface").get<std::string>());
      if (ap && interface) throw BadInput("control: " + key + ": either ap or interface is allowed");
      topology_.set_blackout(at, modes[value.choice({ "none", "drop", "buffer", "fade" })], ap, interface);
    }
    else if (key == "wifi.signal")
      topology_.set_signal(ap_named(request.value("ap", scenario_.aps[topology_.associated_ap()].name)),
                           value.number(-120, 0));
    else if (key == "cell.down")
      topology_.set_cell_down(at, value.boolean(), false);
    else
      topology_.change(at, parse_change(topology_.scenario(), key, node));
    return { { "ok", true } };
  }
  throw BadInput("control: cmd = \"" + cmd + "\": one of start, stats, set, subscribe, flush, quit is allowed");
}

} // namespace tandem::lab
