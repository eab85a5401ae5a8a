// A daemon in miniature for the kernel tests: keeper, rules, policy route, queue and observer, with one fixed decision
// for every packet. Reads its settings as KEY=VALUE words; prints "ready", and on SIGTERM its counters as JSON.
#include "src/daemon/doctor.h"
#include "src/daemon/lock.h"
#include "src/kernel/check.h"
#include "src/kernel/clock.h"
#include "src/kernel/keeper/keeper.h"
#include "src/kernel/packet/injector.h"
#include "src/kernel/packet/observer.h"
#include "src/kernel/packet/packet_queue.h"
#include "src/links/monitor.h"
#include "src/wire/edit.h"
#include "src/wire/parse.h"

#include <tandem/admission.h>

#include <nlohmann/json.hpp>
#include <poll.h>

#include <csignal>
#include <iostream>
#include <map>
#include <stdexcept>
#include <thread>

using namespace tandem;
using namespace tandem::kernel;
using nlohmann::json;

namespace
{

volatile std::sig_atomic_t stopped = 0;
volatile std::sig_atomic_t hung = 0;

std::map<std::string, std::string> settings;

std::string setting(const std::string& key, const std::string& otherwise)
{
  auto found = settings.find(key);
  return found == settings.end() ? otherwise : found->second;
}

std::uint32_t number(const std::string& key, std::uint32_t otherwise)
{
  auto found = settings.find(key);
  return found == settings.end() ? otherwise : static_cast<std::uint32_t>(std::stoul(found->second));
}

std::uint32_t traffic_bits(const std::string& key, const std::string& otherwise)
{
  const std::string wanted = "," + setting(key, otherwise) + ",";
  auto has = [&](const char* name) { return wanted.find(std::string { "," } + name + ",") != std::string::npos; };
  return (has("egress_pure_ack") ? traffic::egress_pure_ack : 0) | (has("egress_data") ? traffic::egress_data : 0)
         | (has("egress_closing") ? traffic::egress_closing : 0) | (has("ingress_data") ? traffic::ingress_data : 0)
         | (has("ingress_ack") ? traffic::ingress_ack : 0);
}

Wanted wanted()
{
  Wanted all {};
  all.add({ .decide = traffic_bits("traffic", "egress_pure_ack"), .observe = traffic_bits("observe", "none") });
  return all;
}

struct Kinds
{
  std::uint64_t egress_pure_ack = 0, egress_data = 0, egress_closing = 0, egress_syn = 0, ingress_data = 0,
                ingress_bare = 0, ingress_syn = 0, none = 0, gso = 0, checksum_not_ready = 0, v6 = 0, unparsed = 0;
  std::map<std::string, std::uint64_t> ports {}; // "egress 80", by the peer's port; with `ports=yes`

  void count(const Segment& s)
  {
    const bool leaves = s.direction == Direction::egress;
    switch (classify(s))
    {
    case traffic::handshake:
      ++(leaves ? egress_syn : ingress_syn);
      break;
    case traffic::egress_closing:
      ++egress_closing;
      break;
    case traffic::egress_data:
      ++egress_data;
      break;
    case traffic::egress_pure_ack:
      ++egress_pure_ack;
      break;
    case traffic::ingress_data:
      ++ingress_data;
      break;
    case traffic::ingress_ack:
      ++ingress_bare;
      break;
    default:
      ++none;
    }
    v6 += s.key.local.v6;
    if (setting("ports", "no") == "yes") ++ports[(leaves ? "egress " : "ingress ") + std::to_string(s.key.remote_port)];
  }
  json out() const
  {
    json all { { "egress_pure_ack", egress_pure_ack },
               { "egress_data", egress_data },
               { "egress_closing", egress_closing },
               { "egress_syn", egress_syn },
               { "ingress_data", ingress_data },
               { "ingress_bare", ingress_bare },
               { "ingress_syn", ingress_syn },
               { "none", none },
               { "gso", gso },
               { "checksum_not_ready", checksum_not_ready },
               { "v6", v6 },
               { "unparsed", unparsed } };
    if (!ports.empty()) all["ports"] = ports;
    return all;
  }
};

class Decider
{
public:
  explicit Decider(const Marks& marks, Injector& injector)
      : marks_ { marks }, injector_ { injector }, mode_ { setting("mode", "accept") }
  {
    if (mode_ == "slow") delay_ = std::chrono::microseconds { number("delay_us", 1000) };
  }

  Kinds kinds {};

  Decision operator()(QueuedPacket& packet)
  {
    const Direction direction = packet.egress() ? Direction::egress : Direction::ingress;
    auto result = wire::parse(packet.bytes, direction);
    kinds.gso += packet.gso;
    kinds.checksum_not_ready += packet.checksum_not_ready;
    if (!result.ok())
    {
      ++kinds.unparsed;
      return {};
    }
    const Segment& segment = result.segment;
    kinds.count(segment);
    if (mode_ == "edit") return edit(packet, segment);
    if (mode_ == "reroute" && segment.is_pure_ack() && direction == Direction::egress)
      return { .mark = marks_.by_cell.on(packet.mark) };
    if (mode_ == "release") return { .mark = marks_.release.on(packet.mark) };
    if (mode_ == "thin" && segment.is_pure_ack() && ++seen_ % 2 == 0) return { .drop = true };
    if (mode_ == "throw") throw std::runtime_error { "planted" };
    if (mode_ == "slow") std::this_thread::sleep_for(delay_);
    if (mode_ == "inject" && segment.is_pure_ack() && direction == Direction::egress)
    {
      // The very ACK by the cell interface as an injected packet, the original dropped.
      wire::seal(packet.bytes, segment);
      if (injector_.send(packet.bytes, Link::cell) == 0) return { .drop = true };
    }
    return {};
  }

private:
  // Takes one from the advertised window: bytes change, the checksum must follow, TCP does not mind.
  Decision edit(QueuedPacket& packet, const Segment& segment)
  {
    if (segment.window < 2) return {};
    const Edit less { .window = static_cast<std::uint16_t>(segment.window - 1) };
    const auto state = packet.checksum_not_ready ? wire::ChecksumState::partial : wire::ChecksumState::complete;
    if (wire::edit(packet.bytes, segment, less, state) != wire::EditFault::none) return {};
    if (number("break_checksum", 0)) packet.bytes[segment.ip_header_length + 17u] ^= std::byte { 0xff };
    return { .bytes = packet.bytes };
  }

  Marks marks_;
  Injector& injector_;
  std::string mode_;
  std::chrono::microseconds delay_ {};
  std::uint64_t seen_ = 0;
};

int run_doctor()
{
  json report = json::object();
  const std::string cell = setting("cell", "cell0"); // none: the configuration wants none
  for (const daemon::Check& check : daemon::examine(
           { .wifi = setting("wifi", "wlan0"), .cell = cell == "none" ? "" : cell, .no_cell = cell == "none" }))
    report[check.name] = { { "health", name(check.health) }, { "found", check.found }, { "remedy", check.remedy } };
  std::cout << report.dump() << std::endl;
  return 0;
}

// What becomes of a packet by tandem/admission.h: for every mix of direction, payload, flags and IP header, in this
// order, "queued", "observed" or "unseen".
int show_admission()
{
  json all = json::array();
  for (const Direction direction : { Direction::egress, Direction::ingress })
    for (const std::uint32_t payload : { 0u, 10u })
      for (std::uint16_t flags = 0; flags < 0x200; ++flags)
        for (const std::uint16_t ip_header : { 20, 24 })
          all.push_back(name(admit(wanted(), { .direction = direction,
                                               .link = Link::wifi,
                                               .flags = flags,
                                               .payload_length = payload,
                                               .ip_header_length = ip_header })));
  std::cout << all.dump() << std::endl;
  return 0;
}

RulePlan rule_plan()
{
  RulePlan plan;
  plan.traffic = wanted().queued;
  plan.wifi = setting("wifi", "wlan0");
  plan.cell = setting("cell", "cell0");
  plan.release_by_connmark = setting("connmark", "no") == "yes";
  if (auto port = number("exempt_port", 0)) plan.exempt_ports.push_back(static_cast<std::uint16_t>(port));
  if (auto remote = setting("exempt_remote", ""); !remote.empty()) plan.exempt_remote.push_back(remote);
  if (auto own = setting("address", ""); !own.empty()) plan.wifi_addresses.push_back(own);
  return plan;
}

int run()
{
  KeeperOptions keeper_options;
  const std::string backend = setting("backend", "automatic");
  keeper_options.backend = backend == "iptables"   ? BackendChoice::iptables
                           : backend == "nftables" ? BackendChoice::nftables
                                                   : BackendChoice::automatic;
  const daemon::InstanceLock alone { daemon::namespace_lock_file("/run/tandem") };
  keeper_options.inherited = { alone.descriptor() };
  Keeper keeper = Keeper::start(keeper_options);

  const RulePlan plan = rule_plan();
  links::Monitor monitor { plan.wifi, plan.cell, now() };
  keeper.set_route({ .cell = plan.cell });
  QueueOptions queue_options;
  queue_options.gso = setting("gso", "yes") == "yes";
  queue_options.max_length = number("max_length", 4096);
  queue_options.copy_range = number("copy_range", 0xffff);
  PacketQueue queue { queue_options };
  if (setting("guard", "yes") == "yes") keeper.guard_queue(queue.fd(), queue_options.number);
  Injector injector { plan.marks };
  injector.bind(Link::cell, plan.cell);
  injector.bind(Link::wifi, plan.wifi);
  Decider decide { plan.marks, injector };

  std::unique_ptr<Observer> observer;
  Kinds observed;
  std::uint64_t longest = 0;
  if (const Wanted all = wanted(); settings.contains("observe") && all.watches(Link::wifi))
    observer = std::make_unique<Observer>(plan.wifi, Sampling { .kinds = all.observed_of(Link::wifi),
                                                                .one_in = number("one_in", 1),
                                                                .queued = all.queued_of(Link::wifi) });

  keeper.apply(plan);
  std::cout << "ready" << std::endl;

  std::uint64_t link_changes = 0;
  Tick last_heartbeat = now();
  while (!stopped)
  {
    std::array<pollfd, 4> polled { pollfd { queue.fd(), POLLIN, 0 }, pollfd { keeper.fd(), POLLIN, 0 },
                                   pollfd { observer ? observer->fd() : -1, POLLIN, 0 },
                                   pollfd { monitor.fd(), POLLIN, 0 } };
    poll(polled.data(), polled.size(), 50);
    while (hung && !stopped)
      poll(nullptr, 0, 50); // the process lives, its packet loop does not
    if (now() - last_heartbeat > std::chrono::milliseconds { 40 })
    {
      keeper.heartbeat();
      last_heartbeat = now();
    }
    if (polled[0].revents) queue.receive(decide);
    if (polled[1].revents) keeper.dispatch();
    if (polled[2].revents)
      observer->receive(
          [&](const ObservedPacket& packet)
          {
            auto result = wire::parse(packet.bytes, packet.direction, true);
            longest = std::max<std::uint64_t>(longest, packet.original_length);
            if (result.ok())
              observed.count(result.segment);
            else
              ++observed.unparsed;
          });
    if (polled[3].revents) link_changes += monitor.receive(now());
  }

  const QueueStats& s = queue.stats();
  const KeeperState& k = keeper.state();
  auto kernel = queue.kernel_stats().value_or(KernelQueueStats {});
  json report {
    { "received", s.received },
    { "accepted", s.accepted },
    { "marked", s.marked },
    { "replaced", s.replaced },
    { "dropped", s.dropped },
    { "truncated", s.truncated },
    { "unparsable", s.unparsable },
    { "sink_faults", s.sink_faults },
    { "late_verdicts", s.late_verdicts },
    { "verdict_errors", s.verdict_errors },
    { "verdict_messages", s.verdict_messages },
    { "queue_drops", kernel.queue_drops },
    { "user_drops", kernel.user_drops },
    { "queued", decide.kinds.out() },
    { "observed", observed.out() },
    { "observer_drops", observer ? observer->stats().kernel_drops : 0 },
    { "longest", longest },
    { "injected", injector.stats(Link::cell).packets },
    { "inject_failures", injector.stats(Link::cell).failures },
    { "keeper",
      { { "phase", name(k.phase) },
        { "suspensions", k.suspensions },
        { "suspended_s", seconds(k.suspended_total) },
        { "applied", k.applied },
        { "backend", k.backend },
        { "why", k.why },
        { "gateway_v4", k.route.gateway_v4 },
        { "gateway_v6", k.route.gateway_v6 },
        { "error", k.last_error },
        { "pid", keeper.pid() } } },
    { "link_changes", link_changes },
    { "wifi_up", monitor[Link::wifi].up },
    { "wifi_addresses", monitor[Link::wifi].addresses.size() },
    { "cell_up", monitor[Link::cell].up },
  };
  std::cout << report.dump() << std::endl;
  return 0;
}

} // namespace

int main(int count, char** words)
{
  for (int i = 1; i < count; ++i)
  {
    std::string word = words[i];
    settings[word.substr(0, word.find('='))] = word.substr(word.find('=') + 1);
  }
  std::signal(SIGTERM, [](int) { stopped = 1; });
  std::signal(SIGUSR1, [](int) { hung = !hung; });
  try
  {
    const std::string mode = setting("mode", "accept");
    if (mode == "doctor") return run_doctor();
    if (mode == "admission") return show_admission();
    if (mode != "render") return run();
    std::cout << render::nftables(rule_plan(), false);
    return 0;
  }
  catch (const std::exception& e)
  {
    std::cout << "failed: " << e.what() << std::endl;
    return 1;
  }
}
