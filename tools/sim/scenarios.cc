#include "tools/sim/scenarios.h"

#include "modules/ecn/ecn.h"
#include "modules/freeze/freeze.h"
#include "modules/mirror/mirror.h"
#include "modules/offload/offload.h"
#include "tools/sim/client_host.h"
#include "tools/sim/exchanges.h"
#include "tools/sim/marking.h"
#include "tools/sim/stages.h"
#include "tools/sim/transfer.h"
#include "tools/sim/variation.h"

#include <algorithm>
#include <chrono>
#include <initializer_list>
#include <map>
#include <set>
#include <utility>

namespace tandem::sim
{

namespace
{

using nlohmann::json;

// A JSON object that knows where it is, and refuses keys that nobody reads.
class Reader
{
public:
  Reader(const json& value, std::string place) : value_(value), place_(std::move(place))
  {
    if (!value.is_object()) fail("", "an object is needed");
  }
  [[noreturn]] void fail(const std::string& key, const std::string& why) const
  {
    const std::string where = place_ + (place_.empty() || key.empty() ? "" : ".") + key;
    throw BadScenario((where.empty() ? "description" : where) + ": " + why);
  }
  double number(const std::string& key, double fallback, double least, double most)
  {
    const json* found = find(key);
    if (found == nullptr) return fallback;
    if (!found->is_number()) fail(key, "a number is needed");
    const double value = found->get<double>();
    if (!(value >= least && value <= most))
      fail(key, found->dump() + " is outside " + json(least).dump() + " .. " + json(most).dump());
    return value;
  }
  Duration ms(const std::string& key, double fallback) { return from_seconds(number(key, fallback, 0, 1e7) / 1e3); }
  bool flag(const std::string& key, bool fallback)
  {
    const json* found = find(key);
    if (found == nullptr) return fallback;
    if (!found->is_boolean()) fail(key, "true or false is needed");
    return found->get<bool>();
  }
  std::string word(const std::string& key, const std::string& fallback)
  {
    const json* found = find(key);
    if (found == nullptr) return fallback;
    if (!found->is_string()) fail(key, "a string is needed");
    return found->get<std::string>();
  }
  std::size_t choice(const std::string& key, std::size_t fallback, std::initializer_list<const char*> names)
  {
    const std::string given = word(key, *(names.begin() + fallback));
    std::string all;
    for (std::size_t i = 0; i < names.size(); ++i)
    {
      if (given == *(names.begin() + i)) return i;
      all += (i > 0 ? ", " : "") + std::string(*(names.begin() + i));
    }
    fail(key, "\"" + given + "\" is not one of: " + all);
  }
  const json& list(const std::string& key)
  {
    static const json empty = json::array();
    const json* found = find(key);
    if (found == nullptr) return empty;
    if (!found->is_array()) fail(key, "a list is needed");
    return *found;
  }
  const json* object(const std::string& key) { return find(key); }
  std::string at(const std::string& key, std::size_t i) const
  {
    return place_ + (place_.empty() ? "" : ".") + key + "[" + std::to_string(i) + "]";
  }
  void done() const
  {
    for (const auto& [key, ignored] : value_.items())
      if (known_.count(key) == 0) fail(key, "not known");
  }

private:
  const json* find(const std::string& key)
  {
    known_.insert(key);
    const auto found = value_.find(key);
    return found == value_.end() ? nullptr : &*found;
  }
  const json& value_;
  std::string place_;
  std::set<std::string> known_;
};

struct NamedLink
{
  std::string name;
  Wire* wire = nullptr;
  std::size_t client = 0;          // of the weighted air
  std::vector<Variation*> vary {}; // its packet time: the least of these
  bool weighted = false;
  medium::NodeId node = medium::nobody, station = medium::nobody; // wifi
  Stage* stage = nullptr;
  Stage* back = nullptr; // wifi: from the station
  std::vector<std::pair<Tick, double>> signal {};
  bool away = false;           // wifi: not associated now
  medium::NodeStats before {}; // wifi: when the time that counts begins
};

struct Snapshot
{
  std::uint64_t delivered = 0;
  std::vector<std::uint64_t> bytes;
  std::vector<Sender::Stats> sent;
  std::vector<double> cwnd_sum, rtt_sum; // of the samples since
  unsigned samples = 0;
};

struct Flow
{
  std::string name;
  std::unique_ptr<Transfer> transfer;
  Tick start {};
  std::uint32_t mss = 0;
  Snapshot before {};
  std::vector<std::uint64_t> delivered;            // after each interval
  std::vector<std::vector<std::uint64_t>> by_path; // likewise, what each subflow brought
};

std::unique_ptr<Module> make_module(const std::string& name)
{
  if (name == "offload") return std::make_unique<offload::Offload>();
  if (name == "freeze") return std::make_unique<freeze::Freeze>();
  if (name == "mirror") return std::make_unique<mirror::Mirror>();
  if (name == "ecn") return std::make_unique<ecn::Ecn>();
  return nullptr;
}

class Simulation
{
public:
  explicit Simulation(const json& description) : top_(description, ""), world_(seed_of(top_)), weighted_(world_)
  {
    seconds_ = top_.number("seconds", 30, 0.001, 1e6);
    warmup_ = top_.number("warmup", 0, 0, seconds_);
    top_.word("name", "");
    make_client();
    interval_ = top_.ms("interval_ms", 0);
    until_first_ = top_.choice("until", 0, { "all", "first" }) == 1;
    make_variations();
    make_wifi();
    make_links();
    make_flows();
    make_marking();
    make_radio();
    top_.done();
  }

  json run()
  {
    const auto began = std::chrono::steady_clock::now();
    world_.loop.run_until(Tick {} + from_seconds(warmup_));
    for (Flow& flow : flows_)
      flow.before = take(*flow.transfer);
    for (NamedLink& link : links_)
      if (link.back != nullptr) link.before = wifi_->air().stats(link.node);
    const WeightedStats air_before = air();
    // Windows and round-trip times are sampled, 50 times a second.
    const Tick end = Tick {} + from_seconds(seconds_);
    for (Tick now = world_.now(); now < end;)
    {
      now = std::min(end, now + std::chrono::milliseconds { 20 });
      world_.loop.run_until(now);
      for (Flow& flow : flows_)
      {
        sample(flow);
        const auto intervals = static_cast<std::int64_t>(flow.delivered.size()) + 1;
        if (interval_ > Duration {} && now >= Tick {} + from_seconds(warmup_) + intervals * interval_)
        {
          flow.delivered.push_back(flow.transfer->delivered());
          flow.by_path.push_back(take(*flow.transfer).bytes);
          if (&flow == &flows_.front()) note_backups();
        }
      }
      for (std::size_t i = 0; i < marked_.size(); ++i)
      {
        marked_[i].backup += client_->backup(marked_[i].entry.interface) ? 1 : 0;
        marked_[i].ce_rate += client_->ce_rate(marked_[i].entry.interface);
      }
      if (all_finished()) break;
    }
    json out = report(air_before);
    out["events"] = world_.loop.events();
    out["virtual_seconds"] = seconds(world_.now().time_since_epoch());
    out["wall_seconds"] = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    return out;
  }

private:
  using WeightedStats = std::vector<WeightedAir::Stats>;

  static std::uint64_t seed_of(Reader& top) { return static_cast<std::uint64_t>(top.number("seed", 1, 0, 1e15)); }

  void make_client()
  {
    std::map<std::string, Module*> by_name;
    std::vector<Module*> chosen;
    for (const json& name : top_.list("modules"))
    {
      auto module = name.is_string() ? make_module(name.get<std::string>()) : nullptr;
      if (!module) top_.fail("modules", name.dump() + " is not one of: ecn, freeze, mirror, offload");
      by_name[name.get<std::string>()] = module.get();
      chosen.push_back(module.get());
      modules_.push_back(std::move(module));
    }
    if (const json* knobs = top_.object("knobs"))
      for (const auto& [key, value] : knobs->items())
      {
        const std::size_t dot = key.find('.');
        const auto module = by_name.find(key.substr(0, dot));
        if (dot == std::string::npos || module == by_name.end() || !value.is_number())
          top_.fail("knobs." + key, "MODULE.KNOB of a chosen module and a number are needed");
        const auto all = module->second->knobs();
        const auto knob = std::find_if(all.begin(), all.end(),
                                       [name = key.substr(dot + 1)](const Knob& k) { return k.name == name; });
        if (knob == all.end() || value.get<double>() < knob->minimum || value.get<double>() > knob->maximum)
          top_.fail("knobs." + key, "no such knob, or out of its range");
        module->second->set(knob->name, value.get<double>());
      }
    client_ = std::make_unique<ClientHost>(world_, chosen);
  }

  void make_wifi()
  {
    const json* given = top_.object("wifi");
    if (given == nullptr) return;
    Reader in(*given, "wifi");
    medium::AirConfig config;
    config.phy = medium::Phy::of(static_cast<medium::Standard>(in.choice("standard", 1, { "b", "g", "a", "n" })));
    if (const double mbps = in.number("mbps", 0, 0, 1000); mbps > 0)
    {
      config.rate = config.phy.find_rate(mbps);
      if (!config.rate) in.fail("mbps", "the standard has no such rate");
    }
    config.ap_queue = static_cast<unsigned>(in.number("queue", 200, 1, 1e6));
    config.frame_error = in.number("frame_error", 0, 0, 1);
    config.retry_limit = static_cast<unsigned>(in.number("attempts", config.retry_limit, 1, 255));
    config.aggregation.frames = static_cast<unsigned>(in.number("aggregate", 1, 1, 64));
    if (in.flag("beacons", true)) config.beacon_interval = beacon_interval;
    in.done();
    wifi_ = std::make_unique<Wifi>(world_, config);
  }

  void make_variations()
  {
    const json& list = top_.list("variations");
    for (std::size_t i = 0; i < list.size(); ++i)
    {
      Reader in(list[i], top_.at("variations", i));
      Variation::Config config;
      config.how = static_cast<Variation::Config::How>(in.choice("how", 0, { "two-state", "log-normal" }));
      if (config.how == Variation::Config::How::two_state)
      {
        config.good_ms = in.number("good_ms", config.good_ms, 1e-3, 1e4);
        config.bad_ms = in.number("bad_ms", config.bad_ms, 1e-3, 1e4);
        config.good_s = in.number("good_s", config.good_s, 1e-3, 1e6);
        config.bad_s = in.number("bad_s", config.bad_s, 1e-3, 1e6);
      }
      else
      {
        config.median_ms = in.number("median_ms", config.median_ms, 1e-3, 1e4);
        config.sigma = in.number("sigma", config.sigma, 0, 5);
        config.hold_s = in.number("hold_s", config.hold_s, 1e-3, 1e6);
      }
      const std::string name = in.word("name", std::to_string(i));
      in.done();
      if (!variations_.emplace(name, std::make_unique<Variation>(world_.loop, config, world_.seed, i)).second)
        in.fail("name", "\"" + name + "\" is there twice");
    }
  }

  // Its packet time is from now on the least of the variations that it names.
  void follow(Reader& in, NamedLink& link)
  {
    for (const json& name : in.list("vary"))
    {
      const auto found = name.is_string() ? variations_.find(name.get<std::string>()) : variations_.end();
      if (found == variations_.end()) in.fail("vary", "no variation is called " + name.dump());
      link.vary.push_back(found->second.get());
    }
    if (link.vary.empty()) return;
    const auto update = [this, client = link.client, vary = link.vary]
    {
      Duration least = Duration::max();
      for (const Variation* one : vary)
        least = std::min(least, one->now());
      weighted_.set_packet_time(client, least);
    };
    update();
    for (Variation* one : link.vary)
      one->follow(update);
  }

  void make_weighted(Reader& in, NamedLink& link)
  {
    link.weighted = true;
    link.client = weighted_.size();
    const Duration packet_time = in.ms("packet_ms", 1);
    const double cost = in.number("cost", 1, 1e-6, 1e6);
    if (const std::string ap = in.word("ap", ""); !ap.empty())
    {
      const auto found =
          std::find_if(links_.begin(), links_.end(), [&](const NamedLink& l) { return l.weighted && l.name == ap; });
      if (found == links_.end()) in.fail("ap", "no weighted link before this one is called \"" + ap + "\"");
      link.stage = &weighted_.add(WeightedAir::Client { .packet_time = packet_time, .cost = cost }, found->client);
    }
    else
      link.stage = &weighted_.add(
          WeightedAir::AccessPoint { .packet_time = packet_time,
                                     .weight = in.number("weight", 1, 1e-3, 1e3),
                                     .buffer = static_cast<std::uint32_t>(in.number("queue", 200, 1, 1e7)),
                                     .mark_above = in.ms("mark_ms", 0),
                                     .cost = cost });
    follow(in, link);
  }

  void make_links()
  {
    const json& list = top_.list("links");
    for (std::size_t i = 0; i < list.size(); ++i)
    {
      Reader in(list[i], top_.at("links", i));
      NamedLink link;
      link.name = in.word("name", std::to_string(i));
      const auto type = in.choice("type", 0, { "wire", "weighted", "wifi" });
      if (type == 0)
      {
        medium::PipeConfig config;
        config.rate = { in.number("mbps", 0, 0, 1e6) * 1e6 };
        config.delay = in.ms("delay_ms", 0);
        config.jitter = in.ms("jitter_ms", 0);
        config.queue_packets = static_cast<std::uint32_t>(in.number("queue", 1000, 1, 1e7));
        config.loss.random = in.number("loss", 0, 0, 1);
        if (const Duration mark = in.ms("mark_ms", 0); mark > Duration {})
          config.aqm = { medium::Aqm::Kind::mark, mark, mark };
        wires_.push_back(std::make_unique<Wire>(world_, config));
        link.wire = wires_.back().get();
        link.stage = link.wire;
      }
      else if (type == 1)
        make_weighted(in, link);
      else
      {
        if (!wifi_) in.fail("type", "there is no \"wifi\" in the description");
        make_wifi_link(in, link);
      }
      in.done();
      links_.push_back(link);
    }
    if (!wifi_) return;
    // The stations are interfaces of one card: each hears every access point alike.
    for (const NamedLink& from : links_)
      for (const NamedLink& to : links_)
        if (from.back != nullptr && to.back != nullptr) wifi_->air().set_signal(to.station, from.node, from.signal);
    wifi_->sync();
  }

  void make_wifi_link(Reader& in, NamedLink& link)
  {
    medium::Air& air = wifi_->air();
    const double signal = in.number("signal_dbm", -50, -120, 0);
    link.node = air.add_access_point(world_.now(), static_cast<unsigned>(in.number("channel", 1, 1, 200)), signal,
                                     static_cast<unsigned>(in.number("group", 0, 0, 15)));
    link.station = air.add_station(link.node);
    link.stage = &wifi_->lane(link.node, link.station);
    link.back = &wifi_->lane(link.station, medium::nobody);
    if (const double mbps = in.number("mbps", 0, 0, 1000); mbps > 0)
    {
      const auto rate = air.config().phy.find_rate(mbps);
      if (!rate) in.fail("mbps", "the standard has no such rate");
      air.set_link(link.station, link.node, rate, 0);
    }
    make_signal(in, link, signal);
    make_stay(in, link);
    const double load = in.number("load_mbps", 0, 0, 1000);
    if (in.flag("saturated", false))
      air.add_background(world_.now(), link.station, medium::Traffic::down, datagram, {});
    else if (load > 0)
      air.add_background(world_.now(), link.station, medium::Traffic::down, datagram, Rate { load * 1e6 });
  }

  // Points: a time that increases, and another number.
  std::vector<std::pair<Tick, double>> points(Reader& in, const std::string& key)
  {
    std::vector<std::pair<Tick, double>> all;
    for (const json& point : in.list(key))
    {
      const bool numbers = point.is_array() && point.size() == 2 && point[0].is_number() && point[1].is_number();
      if (!numbers || point[0].get<double>() < 0 || point[0].get<double>() > 1e6)
        in.fail(key, point.dump() + " is no pair of seconds and a number");
      all.emplace_back(Tick {} + from_seconds(point[0].get<double>()), point[1].get<double>());
      if (all.size() > 1 && all.back().first <= all[all.size() - 2].first)
        in.fail(key, point.dump() + " is not later than the one before");
    }
    return all;
  }

  // A constant signal, or one that changes linearly between points; with fading it is drawn anew around that after each
  // coherence time.
  void make_signal(Reader& in, NamedLink& link, double signal)
  {
    link.signal = points(in, "signal");
    if (link.signal.empty()) link.signal = { { Tick {}, signal } };
    const double fading = in.number("fading_db", 0, 0, 30);
    const Duration coherence = in.ms("coherence_ms", 50);
    if (fading <= 0) return;
    if (coherence < std::chrono::milliseconds { 1 }) in.fail("coherence_ms", "at least 1 is needed");
    medium::Random draw(world_.seed, 0xfade0 + link.node);
    wifi_->air().set_signal(link.station, link.node, link.signal);
    std::vector<std::pair<Tick, double>> faded;
    for (Tick at {}; at < Tick {} + from_seconds(seconds_); at += coherence)
      faded.emplace_back(at, wifi_->air().signal(link.station, link.node, at) + fading * draw.normal());
    link.signal = std::move(faded);
  }

  // When the client is associated; between, both ends drop what they have and what comes, and the interface is down.
  // With the last end of it the address is taken away, too.
  void make_stay(Reader& in, NamedLink& link)
  {
    const auto set = [this, station = link.station, node = link.node](bool there, bool for_good = false)
    {
      wifi_->sync();
      wifi_->air().set_blackout(world_.now(), station, there ? medium::Blackout::none : medium::Blackout::drop);
      wifi_->sync();
      for (const auto& one : marked_)
        if (one.node == node)
        {
          client_->set_up(client_->role(one.entry.interface), there);
          if (for_good) one.transfer->leave(one.subflow);
        }
    };
    const auto stays = points(in, "there"); // each from its time, for so many seconds
    if (stays.empty()) return;
    set(false);
    link.away = true; // its interface is not there yet
    for (const auto& [from, length] : stays)
      for (const bool there : { true, false })
      {
        const bool for_good = !there && from == stays.back().first;
        changes_.push_back(std::make_unique<Timer>(world_.loop, [=] { set(there, for_good); }));
        changes_.back()->set(there ? from : from + from_seconds(length));
      }
  }

  std::vector<Stage*> way(Reader& in, const std::string& key, std::vector<std::size_t>* which = nullptr)
  {
    std::vector<Stage*> stages;
    for (const json& entry : in.list(key))
    {
      const auto found =
          std::find_if(links_.begin(), links_.end(),
                       [&](const NamedLink& l) { return entry.is_string() && l.name == entry.get<std::string>(); });
      if (found == links_.end()) in.fail(key, "no link is called " + entry.dump());
      if (which != nullptr) which->push_back(static_cast<std::size_t>(found - links_.begin()));
      stages.push_back(key == "down" || found->back == nullptr ? found->stage : found->back);
    }
    return stages;
  }

  Stage* delay(Duration one_way, Duration jitter)
  {
    medium::PipeConfig config;
    config.delay = one_way;
    config.jitter = jitter;
    wires_.push_back(std::make_unique<Wire>(world_, config));
    return wires_.back().get();
  }

  void make_flows()
  {
    const json& list = top_.list("flows");
    if (list.empty()) top_.fail("flows", "at least one is needed");
    medium::Random starts(world_.seed, 0x57a7);
    for (std::size_t i = 0; i < list.size(); ++i)
    {
      Reader in(list[i], top_.at("flows", i));
      TransferConfig config;
      SenderConfig& sender = config.sender;
      sender.algorithm = static_cast<Algorithm>(in.choice("cc", 1, { "reno", "cubic", "lia", "olia" }));
      sender.repair = static_cast<Repair>(in.choice("repair", 0, { "rack", "sack", "reno" }));
      sender.ecn = in.flag("ecn", false);
      sender.mss = static_cast<std::uint32_t>(in.number("mss", 1448, 100, 9000));
      sender.initial_window = in.number("initial_window", 10, 1, 1000);
      sender.rto_min = in.ms("rto_min_ms", 200);
      sender.undo = in.flag("undo", true);
      config.receiver.delayed = static_cast<unsigned>(in.number("delayed_acks", 2, 1, 100));
      config.receiver.delay = in.ms("ack_delay_ms", 40);
      config.mptcp = in.flag("mptcp", false);
      config.reinject = in.flag("reinject", false);
      config.scheduler = static_cast<Scheduler>(in.choice("scheduler", 0, { "lowest-rtt", "linux-like" }));
      config.receive_buffer = static_cast<std::uint64_t>(in.number("receive_buffer", 3e6, 1e3, 1e12));
      if (const double size = in.number("size", 0, 0, 1e15); size > 0) config.size = static_cast<std::uint64_t>(size);
      const auto count = static_cast<unsigned>(in.number("count", 1, 0, 1000));
      const bool at_client = in.flag("client", false);
      const double start = in.number("start", 0, 0, seconds_);
      const double spread = in.number("spread", 0, 0, seconds_);
      const std::string name = in.word("name", "flow" + std::to_string(i));
      const json& paths = in.list("subflows");
      if (paths.empty() || (paths.size() > 1 && !config.mptcp))
        in.fail("subflows", "one is needed, or several with \"mptcp\": true");
      if (paths.size() > 16) in.fail("subflows", "at most 16");
      for (unsigned k = 0; k < count; ++k)
      {
        Flow& flow = flows_.emplace_back();
        flow.name = count > 1 ? name + "." + std::to_string(k) : name;
        flow.transfer = std::make_unique<Transfer>(world_, config, at_client ? client_.get() : nullptr);
        flow.start = Tick {} + from_seconds(start + spread * starts.uniform());
        flow.mss = sender.mss;
        for (std::size_t s = 0; s < paths.size(); ++s)
          add_subflow(in, paths[s], in.at("subflows", s), s, flow, at_client && k == 0);
      }
      in.done();
    }
    if (flows_.empty()) top_.fail("flows", "there is none, every count is 0");
  }

  // Access points are Wi-Fi by their number, up to most_wifi; of other links the second is cellular.
  Link role_of(std::size_t index, bool radio)
  {
    if (index == 0) return Link::wifi;
    if (radio && client_wifi_ < most_wifi) return wifi_link(client_wifi_++);
    if (radio) client_->more_than_seen();
    return index == 1 ? Link::cell : Link::other;
  }

  void add_subflow(Reader&, const json& given, const std::string& place, std::size_t index, Flow& flow, bool at_client)
  {
    Reader in(given, place);
    Path path;
    const Duration rtt = in.ms("rtt_ms", 0);
    const Duration jitter = in.ms("jitter_ms", 0);
    std::vector<std::size_t> passed;
    path.down = way(in, "down", &passed);
    path.up = way(in, "up");
    path.up_by_cell = way(in, "up_by_cell");
    if (!path.up_by_cell.empty()) path.up_by_cell.push_back(delay(rtt - rtt / 2, {}));
    // The delay lies between the server and the first link, as a WAN does.
    path.down.insert(path.down.begin(), delay(rtt / 2, jitter));
    path.up.push_back(delay(rtt - rtt / 2, {}));
    const auto radio = std::find_if(passed.begin(), passed.end(),
                                    [&](std::size_t l) { return links_[l].weighted || links_[l].back != nullptr; });
    if (at_client) path.interface = client_->add_interface(role_of(index, radio != passed.end()));
    path.signal_delay = rtt - rtt / 2;
    const double start = in.number("start", 0, 0, 1e6);
    flow.transfer->add(path, flow.start + from_seconds(start));
    in.done();
    if (!at_client) return;
    if (radio == passed.end()) return;
    const NamedLink& link = links_[*radio];
    const auto packet_time = [this, client = link.client, weighted = link.weighted, mine = marked_.size()]
    { return weighted ? weighted_.packet_time(client) : marked_[mine].measured; };
    marked_.push_back({ .entry = { path.interface, packet_time,
                                   [this, &transfer = *flow.transfer, index]
                                   {
                                     const Receiver& receiver = *transfer.subflow(index).receiver;
                                     return least_rtt_ ? receiver.rtt_min() : receiver.rtt();
                                   } },
                        .client = link.client,
                        .node = link.node,
                        .station = link.station,
                        .transfer = flow.transfer.get(),
                        .subflow = index,
                        .vary = link.vary.size() == 1 ? link.vary.front() : nullptr });
    if (link.away) client_->set_up(client_->role(path.interface), false);
  }

  void make_marking()
  {
    const json* given = top_.object("marking");
    if (given == nullptr) return;
    Reader in(*given, "marking");
    const auto how = in.choice("how", 0, { "none", "fixed", "published" });
    const json& rates = in.list("rates");
    least_rtt_ = in.choice("rtt", 0, { "smoothed", "least" }) == 1;
    MarkingConfig config;
    config.cap = in.number("cap", 0.05, 0, 1);
    config.threshold = in.number("threshold", 1.2, 1, 1e3);
    config.period = in.ms("period_ms", 100);
    if (config.period < std::chrono::milliseconds { 1 }) in.fail("period_ms", "at least 1 is needed");
    in.done();
    if (how == 1)
      for (std::size_t i = 0; i < rates.size(); ++i)
      {
        if (!rates[i].is_number() || i >= marked_.size()) in.fail("rates", "a number for each interface is needed");
        client_->set_ce_rate(static_cast<std::uint16_t>(i), rates[i].get<double>());
      }
    if (how != 2) return;
    std::vector<PublishedMarking::Entry> entries;
    for (const auto& one : marked_)
      entries.push_back(one.entry);
    marking_ = std::make_unique<PublishedMarking>(world_, config, *client_, std::move(entries));
  }

  // The daemon's estimate of packet times, without its errors: twice a second, of the frames in the half second before,
  // as its window is.
  void make_radio()
  {
    survey_ = top_.flag("survey", true);
    if (top_.flag("estimator", false))
      for (auto& one : marked_)
      {
        if (one.node != medium::nobody) top_.fail("estimator", "the client is at a link that is not weighted");
        one.exchanges = std::make_shared<Exchanges>(world_.seed, 0xe57 + one.client);
        weighted_.draw(one.client,
                       [exchanges = one.exchanges](Duration mean, Tick now) { return exchanges->next(mean, now); });
      }
    if (!top_.flag("radio", true) || client_->chain() == nullptr || marked_.empty()) return;
    radio_ = std::make_unique<Timer>(world_.loop, [this] { tell_radio(); });
    radio_->set(world_.now());
  }

  void tell_radio()
  {
    const Tick now = world_.now();
    // As a driver's survey has it, whoever uses the air.
    Duration air_used {};
    for (std::size_t i = 0; i < weighted_.size(); ++i)
      air_used += weighted_.stats(i).air;
    if (wifi_ && marked_.front().node != medium::nobody) air_used = wifi_->air().busy(marked_.front().node);
    std::optional<float> busy;
    if (now > surveyed_)
      busy = static_cast<float>(std::min(1.0, seconds(air_used - air_before_) / seconds(now - surveyed_)));
    air_before_ = air_used;
    surveyed_ = now;
    for (auto& one : marked_)
    {
      Duration packet_time = one.entry.packet_time();
      if (one.vary != nullptr)
      {
        const double integral = one.vary->integral(now);
        if (now > one.told) packet_time = from_seconds((integral - one.integral) / seconds(now - one.told));
        one.integral = integral;
        one.told = now;
      }
      // Estimates come from frames: without any there is none, with few it is not sure (EstimatorSettings::enough).
      const bool weighted = one.node == medium::nobody;
      const std::uint64_t sent = weighted ? weighted_.stats(one.client).sent : wifi_->air().stats(one.node).delivered;
      const std::uint64_t frames = sent - std::exchange(one.sent, sent);
      if (!weighted)
      {
        const Duration used = wifi_->air().stats(one.node).air, spent = used - std::exchange(one.used, used);
        if (frames > 0) packet_time = one.measured = spent / static_cast<std::int64_t>(frames);
      }
      RadioState state { .confidence = std::min(1.F, static_cast<float>(frames) / 100),
                         .frequency = channel_mhz,
                         .busy = survey_ ? busy : std::nullopt };
      if (one.exchanges)
      {
        const RadioState estimate = one.exchanges->radio(now);
        state.packet_time = estimate.packet_time;
        state.delivery = estimate.delivery;
        state.confidence = estimate.confidence;
      }
      else if (frames > 0)
        state.packet_time = packet_time;
      if (!weighted) state.signal = hear_beacons(one, now);
      client_->radio(client_->role(one.entry.interface), state);
    }
    radio_->set(now + radio_window);
  }

  void note_backups()
  {
    std::vector<bool>& now = backups_.emplace_back();
    for (const auto& one : marked_)
      now.push_back(client_->backup(one.entry.interface));
  }

  // Smoothed as the daemon's estimator does; of beacons alone, so it is as old where there is data, too.
  template <class Interface>
  std::optional<float> hear_beacons(Interface& one, Tick now)
  {
    constexpr float smoothing = 1.F / 16;
    const bool there = client_->up(client_->role(one.entry.interface));
    if (!there) one.signal.reset();
    for (; one.beacon <= now; one.beacon += beacon_interval)
    {
      const auto heard = static_cast<float>(wifi_->air().signal(one.station, one.node, one.beacon));
      if (there) one.signal = one.signal ? *one.signal + smoothing * (heard - *one.signal) : heard;
    }
    return one.signal;
  }

  static Snapshot take(const Transfer& transfer)
  {
    Snapshot now;
    now.delivered = transfer.delivered();
    for (std::size_t i = 0; i < transfer.subflows(); ++i)
    {
      now.bytes.push_back(transfer.subflow(i).receiver->stats().bytes);
      now.sent.push_back(transfer.subflow(i).sender->stats());
    }
    now.cwnd_sum.resize(transfer.subflows());
    now.rtt_sum.resize(transfer.subflows());
    return now;
  }

  static void sample(Flow& flow)
  {
    ++flow.before.samples;
    for (std::size_t i = 0; i < flow.transfer->subflows(); ++i)
    {
      const Window& window = flow.transfer->subflow(i).sender->window();
      flow.before.cwnd_sum[i] += window.cwnd;
      flow.before.rtt_sum[i] += milliseconds(window.rtt);
    }
  }

  bool all_finished() const
  {
    const auto end = until_first_ ? flows_.begin() + 1 : flows_.end();
    return std::all_of(flows_.begin(), end, [](const Flow& f) { return f.transfer->finished().has_value(); });
  }

  WeightedStats air() const
  {
    WeightedStats all;
    for (std::size_t i = 0; i < weighted_.size(); ++i)
      all.push_back(weighted_.stats(i));
    return all;
  }

  json report(const WeightedStats& air_before) const
  {
    const double length = seconds(world_.now().time_since_epoch()) - warmup_;
    json flows = json::array();
    for (const Flow& flow : flows_)
    {
      json subflows = json::array();
      for (std::size_t i = 0; i < flow.transfer->subflows(); ++i)
      {
        const Transfer::Subflow& one = flow.transfer->subflow(i);
        const Sender::Stats &now = one.sender->stats(), &then = flow.before.sent[i];
        const auto sent = now.segments - then.segments;
        subflows.push_back(
            { { "mbps", static_cast<double>(one.receiver->stats().bytes - flow.before.bytes[i]) * 8e-6 / length },
              { "cwnd", flow.before.cwnd_sum[i] / std::max(1u, flow.before.samples) },
              { "rtt_ms", flow.before.rtt_sum[i] / std::max(1u, flow.before.samples) },
              { "sent", sent },
              { "retransmissions", now.retransmissions - then.retransmissions },
              { "recoveries", now.recoveries - then.recoveries },
              { "timeouts", now.timeouts - then.timeouts },
              { "ecn_reductions", now.ecn_reductions - then.ecn_reductions },
              { "undone", now.undone - then.undone } });
        std::uint64_t until = flow.before.bytes[i];
        for (const auto& bytes : flow.by_path)
          subflows.back()["rates_mbps"].push_back(static_cast<double>(bytes[i] - std::exchange(until, bytes[i])) * 8e-6
                                                  / seconds(interval_));
      }
      json entry { { "name", flow.name },
                   { "mbps", static_cast<double>(flow.transfer->delivered() - flow.before.delivered) * 8e-6 / length },
                   { "subflows", subflows },
                   { "blocked", flow.transfer->blocked() } };
      std::uint64_t before = flow.before.delivered;
      for (const std::uint64_t delivered : flow.delivered)
        entry["rates_mbps"].push_back(static_cast<double>(delivered - std::exchange(before, delivered)) * 8e-6
                                      / seconds(interval_));
      entry["finished"] = flow.transfer->finished() ? json(seconds(*flow.transfer->finished() - flow.start)) : json();
      flows.push_back(entry);
    }
    json links = json::array();
    for (const NamedLink& link : links_)
    {
      json entry { { "name", link.name } };
      if (link.weighted)
      {
        const auto &now = weighted_.stats(link.client), &then = air_before[link.client];
        entry["sent"] = now.sent - then.sent;
        entry["dropped"] = now.dropped - then.dropped;
        entry["air_share"] = seconds(now.air - then.air) / length;
      }
      else if (link.wire != nullptr)
      {
        const medium::PipeStats& stats = link.wire->pipe().stats();
        std::uint64_t dropped = 0;
        for (const std::uint64_t one : stats.drops)
          dropped += one;
        entry["delivered"] = stats.delivered;
        entry["dropped"] = dropped;
        entry["marked"] = stats.marked;
      }
      else
      {
        const medium::NodeStats& stats = wifi_->air().stats(link.node);
        entry["mbps"] = static_cast<double>(stats.delivered_bytes - link.before.delivered_bytes) * 8e-6 / length;
        entry["lost"] = stats.drops[static_cast<std::size_t>(medium::DropReason::retry_limit)]
                        - link.before.drops[static_cast<std::size_t>(medium::DropReason::retry_limit)];
        entry["delivered"] = stats.delivered;
        entry["collisions"] = stats.collisions;
        entry["back"] = wifi_->air().stats(link.station).delivered;
        entry["air_s"] = seconds(stats.air);
      }
      links.push_back(entry);
    }
    json out { { "flows", flows }, { "links", links } };
    const ClientHost::Stats& stats = client_->stats();
    json client { { "dropped", stats.dropped },
                  { "edited", stats.edited },
                  { "rerouted", stats.rerouted },
                  { "injected", stats.injected },
                  { "not_injected", stats.not_injected },
                  { "requests", stats.requests },
                  { "other_requests", stats.other_requests } };
    json marked = json::array(), rates = json::array(), backup = json::array(), time = json::array();
    for (const auto& one : marked_)
    {
      marked.push_back(client_->marked(one.entry.interface));
      rates.push_back(client_->ce_rate(one.entry.interface));
      backup.push_back(client_->backup(one.entry.interface));
      time.push_back({ { "backup", one.backup / std::max(1u, flows_.front().before.samples) },
                       { "ce_rate", one.ce_rate / std::max(1u, flows_.front().before.samples) } });
    }
    client["marked"] = marked;
    client["ce_rate"] = rates; // at the end
    client["backup"] = backup; // likewise
    if (!backups_.empty()) client["backups"] = backups_;
    client["mean"] = time; // over the time that counts
    if (chain::Chain* chain = client_->chain())
      for (std::size_t i = 0; i < chain->module_count(); ++i)
        for (const auto& reason : chain->stats(i).reasons)
          if (reason.count > 0) client["reasons"][std::string(reason.why)] = reason.count;
    out["client"] = client;
    return out;
  }

  Reader top_;
  World world_;
  double seconds_ = 0, warmup_ = 0;
  Duration interval_ {}; // of each flow's rates; 0 = none are told
  std::vector<std::unique_ptr<Module>> modules_;
  std::unique_ptr<ClientHost> client_;
  std::size_t client_wifi_ = 1; // access points of the client so far
  WeightedAir weighted_;
  std::unique_ptr<Wifi> wifi_;
  std::vector<std::unique_ptr<Wire>> wires_;
  std::vector<NamedLink> links_;
  std::vector<Flow> flows_;
  // An interface of the client on the weighted air.
  struct Marked
  {
    PublishedMarking::Entry entry;
    std::size_t client = 0;               // of the weighted air
    medium::NodeId node = medium::nobody; // of the lab's air
    medium::NodeId station = medium::nobody;
    Transfer* transfer = nullptr;
    std::size_t subflow = 0;
    std::uint64_t sent = 0;                  // packets to it, when the radio told last
    Duration used {};                        // lab's air: of its time, likewise
    Duration measured {};                    // lab's air: its packet time over the last window
    std::optional<float> signal {};          // lab's air: of its beacons
    Tick beacon {};                          // when the next one is due
    std::shared_ptr<Exchanges> exchanges {}; // weighted air: what the daemon's estimator sees
    const Variation* vary = nullptr;
    double integral = 0; // of the variation, when the radio told last
    Tick told {};
    double backup = 0, ce_rate = 0; // summed up over the samples
  };
  static constexpr Duration radio_window = std::chrono::milliseconds { 500 };
  static constexpr Duration beacon_interval = std::chrono::microseconds { 102400 };
  static constexpr std::uint32_t channel_mhz = 2412; // whatever it is, it is one
  static constexpr std::uint32_t datagram = 1500;    // bytes of UDP's packets

  std::map<std::string, std::unique_ptr<Variation>> variations_;
  std::vector<std::unique_ptr<Timer>> changes_; // of associations
  std::vector<Marked> marked_;
  std::vector<std::vector<bool>> backups_; // of marked_, after each interval
  bool until_first_ = false;               // the run ends with the first flow
  std::unique_ptr<PublishedMarking> marking_;
  std::unique_ptr<Timer> radio_;
  bool survey_ = true; // whether the driver tells how busy the channel is
  Duration air_before_ {};
  Tick surveyed_ {};
  bool least_rtt_ = false; // published marking: the least round-trip time instead of the smoothed one
};

json access_point(const Paper& paper, const std::string& name, double packet_ms, double weight)
{
  return { { "name", name },     { "type", "weighted" },    { "packet_ms", packet_ms },
           { "weight", weight }, { "queue", paper.buffer }, { "cost", paper.fair == "air" ? packet_ms : 1.0 } };
}

json base(const Paper& paper, json links, json subflows)
{
  json flow { { "name", "client" },
              { "client", true },
              { "ecn", paper.ecn },
              { "repair", paper.repair },
              { "receive_buffer", paper.receive_buffer } };
  if (paper.arm == "mptcp")
  {
    flow["mptcp"] = true;
    flow["cc"] = paper.cc;
    flow["scheduler"] = paper.scheduler;
    flow["subflows"] = std::move(subflows);
  }
  else
  {
    // The same payload in every packet, so that arms can be compared.
    flow["mss"] = 1428;
    flow["cc"] = "reno";
    flow["subflows"] = json::array({ paper.arm == "ap1" ? subflows.front() : subflows.back() });
  }
  json marking { { "how", paper.marking }, { "rtt", paper.marking_rtt } };
  if (paper.marking == "fixed") marking["rates"] = { paper.mark1 };
  json knobs = json::object();
  for (const auto& [knob, value] : paper.knobs)
    knobs[knob] = value;
  return { { "estimator", paper.estimator },   { "radio", paper.radio },   { "survey", paper.survey },
           { "modules", paper.modules },       { "knobs", knobs },         { "seed", paper.seed },
           { "seconds", paper.seconds },       { "warmup", paper.warmup }, { "links", std::move(links) },
           { "flows", json::array({ flow }) }, { "marking", marking } };
}

// The small jitter of a real path keeps drop-tail queues from locking in step (Floyd and Jacobson, "On traffic phase
// effects in packet-switched gateways", 1992).
json by(const Paper& paper, std::vector<std::string> links, double start)
{
  return { { "rtt_ms", paper.rtt_ms }, { "jitter_ms", 0.5 }, { "down", std::move(links) }, { "start", start } };
}

json with_share(json result, double optimum)
{
  result["optimum_mbps"] = optimum;
  result["share"] = result["flows"][0]["mbps"].get<double>() / optimum;
  return result;
}

// AP alone on the medium, always busy.
double capacity(double packet_ms)
{
  return 1428 * 8e-3 / packet_ms;
}

} // namespace

double mean(const std::vector<double>& values)
{
  double sum = 0;
  for (const double value : values)
    sum += value;
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

json simulate(const json& description)
{
  return Simulation(description).run();
}

json grid(const Paper& paper)
{
  const json links { access_point(paper, "ap1", paper.t1_ms, paper.weight),
                     access_point(paper, "ap2", paper.t2_ms, 1) };
  const json subflows { by(paper, { "ap1" }, 0), by(paper, { "ap2" }, 0.1) };
  return with_share(simulate(base(paper, links, subflows)), capacity(paper.t2_ms));
}

json uplink(const Paper& paper)
{
  const json links { access_point(paper, "ap1", paper.t1_ms, paper.weight),
                     access_point(paper, "ap2", paper.t2_ms, 1),
                     { { "name", "uplink" }, { "mbps", paper.uplink_mbps }, { "queue", paper.uplink_queue } } };
  const json subflows { by(paper, { "ap1" }, 0), by(paper, { "uplink", "ap2" }, 0.1) };
  json description = base(paper, links, subflows);
  if (paper.uplink_flows > 0)
    description["flows"].push_back({ { "name", "competitor" },
                                     { "cc", "reno" },
                                     { "repair", paper.repair },
                                     { "count", paper.uplink_flows },
                                     { "spread", std::min(5.0, paper.seconds / 4) },
                                     { "subflows", json::array({ by(paper, { "uplink" }, 0) }) } });
  json result = simulate(description);
  // The best single way: AP1 alone, or a fair share of the uplink.
  const double fair = std::min(paper.uplink_mbps * 1428 / 1500 / (paper.uplink_flows + 1), capacity(paper.t2_ms));
  return with_share(std::move(result), std::max(capacity(paper.t1_ms), fair));
}

json many(const Paper& paper)
{
  json links = json::array(), subflows = json::array();
  for (unsigned i = 0; i < paper.aps; ++i)
  {
    // Counted from the worst one.
    const unsigned place = paper.best == "first" ? paper.aps - 1 - i : i;
    const bool best = place + 1 == paper.aps;
    const double spread = paper.aps > 1 ? static_cast<double>(place) / (paper.aps - 1) : 1;
    const double packet = best ? paper.t2_ms : paper.others == "poor" ? 6 : 6 - (6 - paper.t2_ms) * spread;
    const std::string name = "ap" + std::to_string(i + 1);
    links.push_back(access_point(paper, name, packet, 1));
    subflows.push_back(by(paper, { name }, 0.1 * i));
  }
  return with_share(simulate(base(paper, links, subflows)), capacity(paper.t2_ms));
}

} // namespace tandem::sim
