#include "src/daemon/engine.h"

#include "src/chain/chain.h"
#include "src/chain/wanted.h"
#include "src/control/literal.h"
#include "src/control/mailbox.h"
#include "src/daemon/config.h"
#include "src/daemon/layout.h"
#include "src/daemon/link_radio.h"
#include "src/daemon/module_loader.h"
#include "src/daemon/observers.h"
#include "src/daemon/roles.h"
#include "src/daemon/service.h"
#include "src/daemon/version.h"
#include "src/daemon/wifi_watch.h"
#include "src/daemon/wishes.h"
#include "src/fetch/range.h"
#include "src/fetch/replay.h"
#include "src/fetch/service.h"
#include "src/kernel/clock.h"
#include "src/kernel/keeper/keeper.h"
#include "src/kernel/packet/injector.h"
#include "src/kernel/packet/local_input.h"
#include "src/kernel/packet/packet_queue.h"
#include "src/links/monitor.h"
#include "src/trace/pcapng_writer.h"
#include "src/trace/recorder.h"
#include "src/wire/craft.h"
#include "src/wire/edit.h"
#include "src/wire/parse.h"
#include "src/wire/text.h"

#include <ev.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <sstream>
#include <utility>

namespace tandem::daemon
{

namespace
{

using namespace std::chrono_literals;
using nlohmann::json;

// What a server may send before it has heard anything (ten segments, RFC 6928): a flow that is over by then has nothing
// to gain from any module.
constexpr std::uint64_t worth_bytes = 14'000;

// One bit of the configured mask for each kind of packet, from the lowest.
kernel::Marks marks_of(const Config::Daemon& daemon)
{
  std::uint32_t left = daemon.mark_mask;
  const auto next = [&left]
  {
    const std::uint32_t bit = left & (~left + 1);
    left &= ~bit;
    return kernel::MarkBits { bit, bit };
  };
  const kernel::MarkBits by_cell = next();
  const kernel::MarkBits crafted = next();
  return { .by_cell = by_cell, .crafted = crafted, .release = next() };
}

kernel::BackendChoice choice_of(RuleBackend backend)
{
  switch (backend)
  {
  case RuleBackend::automatic:
    return kernel::BackendChoice::automatic;
  case RuleBackend::nft:
    return kernel::BackendChoice::nftables;
  case RuleBackend::iptables:
    return kernel::BackendChoice::iptables;
  }
  return kernel::BackendChoice::automatic;
}

// Kept apart, so that plain strings can be told from numbers by whoever reads the JSON.
class JsonFacts final : public Facts
{
public:
  void add(std::string_view key, std::string_view value) override { all[std::string { key }] = value; }
  void add(std::string_view key, double value, std::string_view unit) override
  {
    all[std::string { key } + (unit.empty() ? "" : " (" + std::string { unit } + ")")] = value;
  }
  json all = json::object();
};

// As `ss` writes it; empty when not known.
std::string token_text(std::uint32_t token)
{
  if (token == 0) return {};
  std::array<char, 16> buffer {};
  std::snprintf(buffer.data(), buffer.size(), "%08x", token);
  return buffer.data();
}

std::string kernel_name()
{
  utsname names {};
  return ::uname(&names) == 0 ? std::string { names.sysname } + " " + names.release : "unknown";
}

std::uint64_t random_seed()
{
  std::random_device device {};
  return (std::uint64_t { device() } << 32) | device();
}

std::string type_name(KnobType type)
{
  switch (type)
  {
  case KnobType::integer:
    return "integer";
  case KnobType::real:
    return "real";
  case KnobType::boolean:
    return "boolean";
  case KnobType::duration:
    return "duration";
  case KnobType::choice:
    return "choice";
  }
  return "?";
}

} // namespace

struct Engine::Parts final
{
  explicit Parts(const Config& given);
  ~Parts();

  void carry_out();
  std::size_t inject(const chain::Injection& injection);
  void wish(const chain::LinkRequest& request);
  bool fetch(const chain::FetchRequest& request);

  std::size_t fill(const chain::Injection& injection);
  void retune_fetching();
  void stop_fetching(std::string_view why);
  void fetch_message(const fetch::Message& message);
  void forget_fetched();
  json fetch_json();
  kernel::Decision queued(kernel::QueuedPacket& packet);
  void observed(Link by, const kernel::ObservedPacket& packet);
  void record(trace::Entry entry);
  void drain_queue();
  void links_changed();
  void verdict_changed();
  LinkStates present_links() const;
  void retune_rules();
  void retune_observers();
  void keeper_news();
  void steer();
  void steer_soon();
  void rest_wishes();
  void switch_module(std::size_t i, bool on);
  json steering_json(Link link);
  void retune_queue();
  void schedule();
  void guard_health();
  std::size_t slot_of(const std::string& module);
  json module_json(std::size_t i);
  std::string knobs_text();
  json link_json(Link link);
  json all_links_json(const std::function<json(Link)>& of);
  json endpoints_json();
  json all_steering_json();
  template <class Work>
  auto on_packet_thread(Work work)
  {
    return mailbox.ask(std::move(work), 1s);
  }

  Config config;
  kernel::Marks marks;
  Roles roles;
  kernel::Keeper keeper;
  LoadedModules loaded;
  links::Monitor monitor;
  std::uint64_t seed = random_seed(); // of every decision that needs chance; written into recordings
  kernel::PacketQueue queue;
  kernel::Injector injector;
  bool bypass = false; // no module needs a packet now: no rule, whatever is switched on
  int unneeded = 0;    // looks in a row at which none did
  chain::Chain chain;
  Wanted wanted_packets {}; // what rules and observers were made of
  kernel::RulePlan rules {};
  Tick started {};
  Tick timer_due {}; // when chain_timer fires
  std::optional<trace::Recorder> recorder;

  struct Counters
  {
    std::uint64_t queued = 0, passed = 0, edited = 0, rerouted = 0, dropped = 0, crafted = 0, observed = 0, wishes = 0;
    std::uint64_t not_wifi = 0, edit_failed = 0, craft_failed = 0;
    std::array<std::uint64_t, wire::parse_fault_count> faults {};
    std::array<std::uint64_t, wire::edit_fault_count> edit_faults {};
  } counters {};

  struct ev_loop* loop;
  ev_io queue_io {}, monitor_io {}, keeper_io {};
  ev_timer chain_timer {}, beat_timer {}, second_timer {}, steer_timer {};
  ev_async mail {}, halt {};
  control::Mailbox mailbox;
  control::Mailbox fetch_mail; // from the fetch thread; of its own, so that neither crowds the other out

  // What was asked of the fetch thread and what it has brought.
  struct Fetching
  {
    std::vector<fetch::Job> asked {};
    std::vector<fetch::Answer> held {}; // until it is acknowledged
    std::uint64_t held_bytes = 0;
    std::uint64_t generation = 0; // of the service: an old one's messages are void
    std::string why = "no module wants it";
    bool complained = false;
  } fetching {};
  std::optional<kernel::LocalInput> local_input;
  std::vector<std::byte> fill_buffer;
  std::unique_ptr<fetch::Service> service; // its thread posts to the mailbox: ends before it
  std::optional<WifiWatch> watch;          // on the loop, as those below: gone before it
  std::optional<Observers> observers;
  std::map<Link, LinkRadio> more_radio; // of the further Wi-Fi links

  // What modules wish of the links, and what the keeper was told of it.
  Wishes wishes;
  kernel::SteeringPlan steering {};
  Tick steered_at {};
  struct WishOf
  {
    std::uint64_t excluded = 0; // as last seen
    Tick flowless {};           // since when the module has no flow
  };
  std::array<WishOf, flow::max_modules> wish_of {};
};

Engine::Parts::Parts(const Config& given)
    : config { given }, marks { marks_of(given.daemon) }, roles { find_roles(given.links) },
      keeper { kernel::Keeper::start(
          { .backend = choice_of(given.daemon.backend),
            .steering_file = (given.daemon.socket.parent_path() / "steering.json").string() },
          { .cell = {},
            .mark = marks.by_cell,
            .table = given.daemon.route_table,
            .priority = given.daemon.rule_priority }) },
      loaded { load_modules(given.daemon.module_dir.empty() ? default_module_dir() : given.daemon.module_dir) },
      monitor { roles.wifi, roles.cell, kernel::now(), roles.more_wifi },
      queue { { .number = given.daemon.queue, .max_length = given.daemon.queue_length } }, injector { marks },
      chain { { .table = { .capacity = given.daemon.max_flows, .seed = random_seed(), .idle = given.daemon.flow_idle },
                .seed = seed,
                .cell_budget = given.budget.cell_bytes.value_or(std::numeric_limits<std::uint64_t>::max()),
                .worth = worth_bytes,
                .stopwatch = [] { return kernel::now(); } },
              [this]
              {
                std::vector<Module*> all {};
                for (const LoadedModule& one : loaded.modules)
                  all.push_back(one.module.get());
                return all;
              }() },
      started { kernel::now() }, loop { ev_loop_new(EVFLAG_AUTO) }, mailbox { [this] { ev_async_send(loop, &mail); } },
      fetch_mail { [this] { ev_async_send(loop, &mail); }, 1024 }, wishes { { .setup = given.mptcp.setup,
                                                                              .foreign = given.mptcp.foreign } }
{
  if (loop == nullptr) throw std::runtime_error { "libev: no event loop could be made" };
  watch.emplace(
      loop,
      WatchSettings { .interface = roles.wifi,
                      .cell = roles.cell,
                      .radio = config.links.radio,
                      .modem = config.links.modem,
                      .record = config.links.record,
                      .detector = config.detector.blackout,
                      .risk = config.detector.risk },
      [this] { verdict_changed(); },
      [this]
      {
        chain.radio(Link::wifi, watch->radio(), kernel::now());
        carry_out();
        schedule();
      });
  chain.damage(&watch->damage());
  for (std::size_t i = 0; i < roles.more_wifi.size(); ++i)
  {
    const Link link = wifi_link(i + 1);
    more_radio.try_emplace(link, loop, roles.more_wifi[i], config.links.radio,
                           [this, link]
                           {
                             chain.radio(link, more_radio.at(link).radio(), kernel::now());
                             carry_out();
                             schedule();
                           });
  }
  observers.emplace(
      loop, given.daemon.observe_sample,
      [this](Link by, const kernel::ObservedPacket& packet) { observed(by, packet); },
      [this](Link by, bool down)
      {
        if (down && !monitor[by].up) links_changed();
        schedule();
      });
  if (!roles.unused.empty())
  {
    std::string names {};
    for (const std::string& name : roles.unused)
      names += (names.empty() ? "" : ", ") + name;
    log(Severity::warning, "at most " + std::to_string(most_wifi) + " Wi-Fi interfaces are used; left alone: " + names
                               + " (links.more_wifi chooses)");
  }
  for (const std::string& problem : loaded.problems)
    log(Severity::warning, "module not loaded: " + problem);
  const KnobCheck check = knob_check(loaded);
  std::vector<Complaint> complaints = check_modules(config, check);
  if (!complaints.empty()) throw ConfigError { std::move(complaints) };

  if (config.recorder.seconds > 0)
    recorder.emplace(trace::Recorder::Limits { .keep = std::chrono::seconds { config.recorder.seconds },
                                               .bytes = config.recorder.bytes,
                                               .snap = config.recorder.snap });
  keeper.guard_queue(queue.fd(), config.daemon.queue);
  injector.bind(Link::wifi, roles.wifi);
  injector.bind(Link::cell, roles.cell);
  if (!roles.cell.empty())
    keeper.set_route({ .cell = roles.cell,
                       .mark = marks.by_cell,
                       .table = config.daemon.route_table,
                       .priority = config.daemon.rule_priority });
  for (const KnobSetting& setting : config.knobs)
  {
    Module& module = chain.module(slot_of(setting.module));
    for (const Knob& knob : module.knobs())
      if (knob.name == setting.knob) module.set(knob.name, std::get<double>(parse_knob(knob, setting.text)));
  }
  for (const ModuleSetting& setting : config.modules)
    if (setting.enabled) chain.enable(slot_of(setting.name), true, started);
}

Engine::Parts::~Parts()
{
  service.reset();
  more_radio.clear();
  observers.reset();
  watch.reset();
  ev_loop_destroy(loop);
}

// ---- the one way of a packet
// -------------------------------------------------------------------------------------------------------

void Engine::Parts::record(trace::Entry entry)
{
  if (!recorder) return;
  recorder->add(entry);
}

kernel::Decision Engine::Parts::queued(kernel::QueuedPacket& packet)
{
  ++counters.queued;
  const Direction direction = packet.egress() ? Direction::egress : Direction::ingress;
  wire::Parsed parsed = wire::parse(packet.bytes, direction, packet.cut, 0, packet.original_length);
  trace::Entry entry {
    .at = packet.arrival, .direction = direction, .before = packet.bytes, .before_length = packet.original_length
  };
  if (!parsed.ok())
  {
    ++counters.faults[static_cast<std::size_t>(parsed.fault)];
    ++counters.passed;
    entry.fate = trace::Fate::fault;
    entry.why = wire::name(parsed.fault);
    record(entry);
    return {};
  }
  Segment& segment = parsed.segment;
  segment.link = monitor.owner(segment.key.local);
  if (segment.link != Link::wifi)
  {
    ++counters.not_wifi;
    ++counters.passed;
    return {};
  }
  watch->traffic_seen(!packet.egress(), packet.arrival);
  // Handshakes first: the copies of both SYNs were made before the ACK that now waits for its verdict.
  if (!chain.knows(segment.key)) observers->drain(Link::wifi);
  const chain::Outcome outcome = chain.segment(segment, true, packet.arrival);
  carry_out();
  entry.why = outcome.why;
  if (outcome.verdict == Verdict::drop)
  {
    ++counters.dropped;
    entry.fate = trace::Fate::dropped;
    record(entry);
    return { .drop = true };
  }
  kernel::Decision decision {};
  std::array<std::byte, 512> original; // what the recorder keeps of the packet before it is edited in place
  if (outcome.edit.changes_bytes())
  {
    if (recorder)
    {
      const std::size_t kept = std::min<std::size_t>({ original.size(), packet.bytes.size(), config.recorder.snap });
      std::memcpy(original.data(), packet.bytes.data(), kept);
      entry.before = { original.data(), kept };
    }
    const wire::EditFault fault =
        wire::edit(packet.bytes, segment, outcome.edit,
                   packet.checksum_not_ready ? wire::ChecksumState::partial : wire::ChecksumState::complete);
    if (fault != wire::EditFault::none)
    {
      ++counters.edit_faults[static_cast<std::size_t>(fault)];
      ++counters.passed;
      return {};
    }
    decision.bytes = entry.after = packet.bytes;
    ++counters.edited;
  }
  if (outcome.edit.route == Link::cell)
  {
    decision.mark = marks.by_cell.on(packet.mark);
    entry.after_link = Link::cell;
    ++counters.rerouted;
  }
  if (outcome.edit.empty()) ++counters.passed;
  if (recorder)
  {
    entry.fate = outcome.edit.empty() ? trace::Fate::passed : trace::Fate::edited;
    entry.after_length = packet.original_length;
    recorder->add(entry);
  }
  return decision;
}

void Engine::Parts::observed(Link by, const kernel::ObservedPacket& packet)
{
  ++counters.observed;
  wire::Parsed parsed =
      wire::parse(packet.bytes, packet.direction, true, 0, static_cast<std::uint32_t>(packet.original_length));
  if (!parsed.ok()) return; // counted when it is queued; a copy that cannot be read concerns nobody
  // What Tandem itself sent this way for another link's flow is no news of that flow.
  parsed.segment.link = monitor.owner(parsed.segment.key.local);
  if (parsed.segment.link != by) return;
  parsed.segment.received = packet.received;
  if (by == Link::wifi) watch->traffic_seen(packet.direction == Direction::ingress, packet.arrival);
  if (config.daemon.exempts(parsed.segment.key)) return; // no rule queues it: it is not to be watched either
  chain.segment(parsed.segment, false, packet.arrival);
  carry_out();
  if (by == Link::wifi && bypass && parsed.segment.has(tcp_flag::syn)) retune_queue();
}

// What the chain wants done, in its order: segments leave before the verdict of the packet at hand is given.
void Engine::Parts::carry_out()
{
  chain::Output& output = chain.output();
  if (output.empty()) return;
  for (const chain::Injection& one : output.segments)
    chain.sent(one, inject(one));
  for (const chain::LinkRequest& one : output.requests)
    wish(one);
  for (const chain::FetchRequest& one : output.fetches)
    if (!fetch(one)) chain.fetch_refused(one);
  output.clear();
}

std::size_t Engine::Parts::inject(const chain::Injection& injection)
{
  const Craft& request = injection.segment;
  if (request.kind == CraftKind::fill) return fill(injection);
  std::array<std::byte, 256> buffer {};
  const std::size_t length = wire::craft(buffer, injection.key, request);
  if (length == 0)
  {
    ++counters.craft_failed;
    return 0;
  }
  const std::span<const std::byte> packet { buffer.data(), length };
  if (injector.send(packet, request.by) != 0)
  {
    ++counters.craft_failed;
    return 0;
  }
  ++counters.crafted;
  if (recorder)
    recorder->add(
        { .at = kernel::now(),
          .link = request.by,
          .fate = trace::Fate::crafted,
          .after = packet,
          .why = injection.why });
  return length;
}

void Engine::Parts::wish(const chain::LinkRequest& request)
{
  ++counters.wishes;
  wishes.take(request.wish, request.slot, request.why);
  steer_soon();
}

// ---- what is wished of links
// ------------------------------------------------------------------------------------------------------------------

// Never from within the chain: a plan takes memory, and is told to another process.
void Engine::Parts::steer_soon()
{
  if (ev_is_active(&steer_timer) != 0) return;
  ev_timer_set(&steer_timer, 0., 0.1);
  ev_timer_start(loop, &steer_timer);
}

// At most ten plans a second leave for the keeper; the newest is always among them.
void Engine::Parts::steer()
{
  constexpr Duration apart = 95ms;
  const Tick now = kernel::now();
  wishes.advance(now);
  const kernel::SteeringPlan wanted = wishes.plan(monitor.table());
  if (wanted != steering && now - steered_at >= apart)
  {
    steered_at = now;
    steering = wanted;
    try
    {
      keeper.post_steering(wanted);
    }
    catch (const std::exception& error)
    {
      log(Severity::warning, std::string { "steering is not possible: " } + error.what());
    }
  }
  if (wanted == steering && wishes.settled()) ev_timer_stop(loop, &steer_timer);
}

void Engine::Parts::switch_module(std::size_t i, bool on)
{
  chain.enable(i, on, kernel::now());
  carry_out();
  if (on) return;
  wishes.lapse(static_cast<std::uint8_t>(i));
  steer_soon();
}

// A module that failed, or has no flow for a while, cannot take back what it wished.
void Engine::Parts::rest_wishes()
{
  constexpr Duration patience = 5s;
  const Tick now = kernel::now();
  for (std::size_t i = 0; i < chain.module_count(); ++i)
  {
    const auto slot = static_cast<std::uint8_t>(i);
    WishOf& its = wish_of[i];
    const auto& stats = chain.stats(i);
    if (stats.flows > 0) its.flowless = now;
    if (!wishes.any(slot))
    {
      its.excluded = stats.excluded;
      continue;
    }
    if (std::exchange(its.excluded, stats.excluded) != stats.excluded) wishes.lapse(slot);
    wishes.rest(slot, now - its.flowless >= patience);
    steer_soon();
  }
}

void Engine::Parts::keeper_news()
{
  const kernel::KeeperState before = keeper.state();
  if (!keeper.dispatch()) return;
  const kernel::KeeperState& after = keeper.state();
  // Steering has news ten times a second at most; links are looked at for anything else.
  const bool steering_only = before.steering != after.steering && before.phase == after.phase
                             && before.route.v4 == after.route.v4 && before.route.v6 == after.route.v6
                             && before.last_error == after.last_error;
  if (!steering_only) links_changed();
  const auto tell = [](const std::string& was, const std::string& is)
  {
    if (was != is && !is.empty()) log(Severity::warning, "steering: " + is);
  };
  tell(before.steering.mptcp_why, after.steering.mptcp_why);
  tell(before.steering.last_error, after.steering.last_error);
  tell(before.steering.recovered, after.steering.recovered);
  if (after.steering.ce_backend.empty()) tell(before.steering.ce_why, after.steering.ce_why);
}

// ---- bytes fetched a second time (docs/decisions/0007)
// ----------------------------------------------------------------------------------------------

bool Engine::Parts::fetch(const chain::FetchRequest& request)
{
  constexpr std::size_t most_asked = 256;
  if (!service || fetching.asked.size() >= most_asked) return false;
  const fetch::Job job { .flow = request.flow, .slot = request.slot, .key = request.key, .fetch = request.fetch };
  fetching.asked.push_back(job);
  service->ask(job);
  return true;
}

void Engine::Parts::fetch_message(const fetch::Message& message)
{
  if (const auto* news = std::get_if<fetch::News>(&message))
  {
    chain.content(news->key, news->content, news->why);
    return;
  }
  if (const auto* cost = std::get_if<fetch::Cost>(&message))
  {
    chain.spent(cost->cell_bytes);
    if (chain.budget_spent() && service) service->stop_keeping_up();
    return;
  }
  const auto& answer = std::get<fetch::Answer>(message);
  const auto same = [&](const fetch::Job& job)
  {
    return job.flow == answer.job.flow && job.slot == answer.job.slot && job.fetch.from == answer.job.fetch.from
           && job.fetch.to == answer.job.fetch.to;
  };
  const auto asked = std::find_if(fetching.asked.begin(), fetching.asked.end(), same);
  if (asked == fetching.asked.end()) return; // given up
  fetching.asked.erase(asked);
  FetchResult result = answer.result;
  if (result.ok && fetching.held_bytes + answer.bytes.size() > config.fetch.total_bytes)
  {
    result.ok = false;
    result.why = "too much is held";
  }
  if (result.ok)
  {
    fetching.held_bytes += answer.bytes.size();
    fetching.held.push_back(answer);
  }
  chain.fetched(answer.job.flow, answer.job.slot, result, answer.cell_bytes, kernel::now());
  carry_out();
}

// Bytes are kept until the local TCP has acknowledged them, or the flow is gone.
void Engine::Parts::forget_fetched()
{
  std::erase_if(fetching.held,
                [this](const fetch::Answer& answer)
                {
                  const flow::Flow* flow = chain.table().by_id(answer.job.flow);
                  if (flow != nullptr && answer.job.fetch.to.after(flow->view.highest_ack)) return false;
                  fetching.held_bytes -= answer.bytes.size();
                  return true;
                });
  // An answer that never came; the service itself gives up well before.
  constexpr Duration patience = 30s;
  const Tick now = kernel::now();
  for (std::size_t i = 0; i < fetching.asked.size();)
    if (const fetch::Job job = fetching.asked[i]; now > job.fetch.deadline + patience)
    {
      fetching.asked.erase(fetching.asked.begin() + static_cast<std::ptrdiff_t>(i));
      chain.fetched(job.flow, job.slot,
                    { .how = job.fetch.how, .from = job.fetch.from, .to = job.fetch.to, .why = "no answer" }, 0, now);
      carry_out();
    }
    else
      ++i;
}

std::size_t Engine::Parts::fill(const chain::Injection& injection)
{
  const Craft& request = injection.segment;
  const auto found = std::find_if(fetching.held.begin(), fetching.held.end(),
                                  [&](const fetch::Answer& answer)
                                  {
                                    return answer.job.flow == injection.flow && request.seq.at_or_after(answer.job.fetch.from)
                                           && (request.seq + request.length).at_or_before(answer.job.fetch.to);
                                  });
  // Whose address is not this host's any more would be routed away.
  if (found == fetching.held.end() || !local_input || monitor.owner(injection.key.local) != Link::wifi)
  {
    ++counters.craft_failed;
    return 0;
  }
  const auto offset = static_cast<std::size_t>(request.seq - found->job.fetch.from);
  fill_buffer.resize(wire::longest_header + longest_fill);
  const std::size_t length = wire::craft_fill(fill_buffer, injection.key, request,
                                              { .ack = found->server_ack,
                                                .window = found->server_window,
                                                .bytes = std::span { found->bytes }.subspan(offset, request.length) });
  const std::span<const std::byte> packet { fill_buffer.data(), length };
  if (length == 0 || local_input->send(packet) != 0)
  {
    ++counters.craft_failed;
    return 0;
  }
  ++counters.crafted;
  if (recorder)
    recorder->add({ .at = kernel::now(),
                    .direction = Direction::ingress,
                    .link = request.by,
                    .fate = trace::Fate::crafted,
                    .after = packet,
                    .why = injection.why });
  return length;
}

void Engine::Parts::stop_fetching(std::string_view why)
{
  service.reset();
  ++fetching.generation;
  fetching.held.clear();
  fetching.held_bytes = 0;
  const Tick now = kernel::now();
  for (const fetch::Job& job : std::exchange(fetching.asked, {}))
    chain.fetched(job.flow, job.slot,
                  { .how = job.fetch.how, .from = job.fetch.from, .to = job.fetch.to, .why = why, .final = true }, 0,
                  now);
  carry_out();
  chain.table().each([](flow::Flow& flow) { flow.view.content = Content::unknown; });
}

// There is a fetch thread only while a module wants one and both links are there.
void Engine::Parts::retune_fetching()
{
  const links::LinkInfo& wifi = monitor[Link::wifi];
  const links::LinkInfo& cell = monitor[Link::cell];
  fetching.why = !chain.interest().content    ? "no module wants it"
                 : config.fetch.ports.empty() ? "fetch.ports is empty"
                 : !wifi.present()            ? "there is no Wi-Fi"
                 : !cell.present()            ? "there is no cellular link"
                                              : "";
  if (!fetching.why.empty())
  {
    if (service) stop_fetching("no cellular link any more");
    return;
  }
  const fetch::ServiceOptions options { .wifi = roles.wifi,
                                        .wifi_index = wifi.ifindex,
                                        .wifi_addresses = wifi.addresses,
                                        .cell = roles.cell,
                                        .cell_addresses = cell.addresses,
                                        .marks = marks,
                                        .ports = config.fetch.ports,
                                        .pieces = config.fetch.max_pieces,
                                        .piece_bytes = config.fetch.piece_bytes,
                                        .total_bytes = config.fetch.total_bytes };
  if (service && service->options() == options) return;
  if (service) stop_fetching("the links have changed");
  try
  {
    if (!local_input) local_input.emplace(marks);
    const auto maker = [options, given = config.fetch](
                           FetchHow how, boost::asio::io_context& context) -> std::unique_ptr<fetch::Fetcher>
    {
      if (how == FetchHow::range)
        return std::make_unique<fetch::Range>(context, fetch::RangeOptions { .cell = options.cell,
                                                                             .addresses = options.cell_addresses,
                                                                             .marks = options.marks,
                                                                             .credentials = given.credentials });
      return std::make_unique<fetch::Replay>(context,
                                             fetch::ReplayOptions { .cell = options.cell,
                                                                    .marks = options.marks,
                                                                    .credentials = given.credentials,
                                                                    .longest_piece = given.piece_bytes,
                                                                    .guard = given.replay_guard,
                                                                    .early_guard = given.replay_early_guard,
                                                                    .sweep_rate = given.replay_sweep_rate,
                                                                    .sweep_window = given.replay_sweep_window });
    };
    const auto follows = [exempt = config.daemon](const FlowKey& key) { return !exempt.exempts(key); };
    service = std::make_unique<fetch::Service>(options, maker, follows,
                                               [this, generation = fetching.generation](fetch::Message message)
                                               {
                                                 return fetch_mail.post(
                                                     [this, generation, message = std::move(message)]
                                                     {
                                                       if (generation == fetching.generation) fetch_message(message);
                                                     });
                                               });
    fetching.complained = false;
  }
  catch (const std::exception& error)
  {
    // Without it every module falls back to doing without.
    fetching.why = error.what();
    if (!std::exchange(fetching.complained, true))
      log(Severity::warning, "downloads cannot be followed: " + fetching.why);
  }
}

json Engine::Parts::fetch_json()
{
  json all { { "running", service != nullptr },     { "why", fetching.why },
             { "asked", chain.stats().fetches },    { "brought", chain.stats().fetched },
             { "fills", chain.stats().fills },      { "held_bytes", fetching.held_bytes },
             { "under_way", fetching.asked.size() } };
  const fetch::ServiceStats stats = service ? service->stats() : fetch::ServiceStats {};
  all.update({ { "connections", stats.connections },
               { "downloads", stats.downloads },
               { "copies_lost", stats.tap_drops },
               { "differed", stats.differed } });
  return all;
}

void Engine::Parts::drain_queue()
{
  queue.receive([this](kernel::QueuedPacket& packet) { return queued(packet); });
  schedule();
}

// ---- what changes slowly
// -----------------------------------------------------------------------------------------------------------

LinkStates Engine::Parts::present_links() const
{
  LinkStates states = chain.link_states();
  monitor.table().fill(states);
  LinkState& wifi = states[static_cast<std::size_t>(Link::wifi)];
  wifi.up = wifi.up && watch->up();
  wifi.changed = std::max(wifi.changed, watch->since());
  wifi.at_risk = watch->at_risk();
  wifi.radio = watch->radio();
  // Whether the second way leads anywhere is known by the policy route rather than by the interface.
  LinkState& cell = states[static_cast<std::size_t>(Link::cell)];
  cell.route = keeper.state().route.v4;
  cell.route_v6 = keeper.state().route.v6;
  return states;
}

// A blackout begins, ends or is foreseen: addresses, routes and rules are what they were.
void Engine::Parts::verdict_changed()
{
  chain.links(present_links(), kernel::now(), [this](const Address& local) { return monitor.owner(local); });
  carry_out();
  schedule();
}

void Engine::Parts::links_changed()
{
  watch->link(monitor[Link::wifi]);
  for (auto& [link, radio] : more_radio)
    radio.link(monitor[link].ifindex);
  for (std::size_t i = 0; i < link_count; ++i)
    if (const auto link = static_cast<Link>(i); !monitor[link].present()) wishes.gone(link);
  steer_soon();
  chain.links(present_links(), kernel::now(), [this](const Address& local) { return monitor.owner(local); });
  carry_out();

  injector.bind(Link::wifi, roles.wifi);
  injector.bind(Link::cell, roles.cell);
  retune_rules();
  schedule();
}

void Engine::Parts::retune_rules()
{
  const Interest interest = chain.interest();
  watch->watch(config.detector.watch == BlackoutWatch::always
               || (config.detector.watch == BlackoutWatch::needed && interest.radio));
  for (auto& [link, radio] : more_radio)
    radio.watch(interest.radio && interest.every_link);
  kernel::RulePlan plan {};
  plan.queue = config.daemon.queue;
  wanted_packets = chain::wanted(chain);
  if (config.recorder.everything)
  {
    wanted_packets.queued |= traffic::egress | traffic::ingress;
    wanted_packets.any = true;
  }
  plan.marks = marks;
  plan.wifi = roles.wifi;
  plan.cell = roles.cell;
  for (const Address& address : monitor[Link::wifi].addresses)
    plan.wifi_addresses.push_back(wire::to_string(address));
  for (const Network& network : config.daemon.exempt_networks)
    plan.exempt_remote.push_back(wire::to_string(network.address) + "/" + std::to_string(network.prefix));
  plan.exempt_ports = config.daemon.exempt_ports;
  if (plan.wifi_addresses.empty() || bypass) wanted_packets.queued = 0; // no address, no flow of ours
  plan.traffic = wanted_packets.queued;
  // Whole packets are needed only where one with payload may be changed.
  const bool whole = (interest.decide & ~(traffic::egress_pure_ack | traffic::ingress_ack)) != 0;
  queue.set_copy_range(whole ? 0xffff : std::max<std::uint32_t>(256, config.recorder.snap));
  if (plan != rules)
  {
    rules = plan;
    keeper.post_apply(plan);
  }

  retune_fetching();

  retune_observers();
}

void Engine::Parts::retune_observers()
{
  for (std::size_t i = 0; i < link_count; ++i)
  {
    const links::LinkInfo& link = monitor[static_cast<Link>(i)];
    if (static_cast<Link>(i) == Link::wifi || !link.interface.empty())
      observers->want(static_cast<Link>(i), link.interface, link.ifindex, wanted_packets);
  }
}

// Rules are there only while a packet is needed: flows that no module wants cost nothing. A new flow, or a quiet one
// that is to be looked at again, brings them back well before its window has grown.
void Engine::Parts::retune_queue()
{
  constexpr int patience = 2;
  if (config.recorder.everything || chain.needs_queue(kernel::now()))
  {
    unneeded = 0;
    if (!bypass) return;
    bypass = false;
    chain.queue_resumed();
    retune_rules();
  }
  else if (!bypass && ++unneeded >= patience)
  {
    bypass = true;
    retune_rules();
  }
}

void Engine::Parts::schedule()
{
  const Tick now = kernel::now();
  const Tick next = chain.advance(now);
  carry_out();
  // The timer is set anew only for something earlier; firing too early costs one look.
  if (timer_due > now && next >= timer_due) return;
  timer_due = next;
  chain_timer.repeat = std::max(seconds(next - now), 1e-4);
  ev_timer_again(loop, &chain_timer);
}

// ---- life
// --------------------------------------------------------------------------------------------------------------------------

Engine::Engine(const Config& config) : parts_ { std::make_unique<Parts>(config) }
{
  Parts& p = *parts_;
  ev_io_init(
      &p.queue_io, [](struct ev_loop*, ev_io* w, int) { static_cast<Parts*>(w->data)->drain_queue(); }, p.queue.fd(),
      EV_READ);
  ev_io_init(
      &p.monitor_io,
      [](struct ev_loop*, ev_io* w, int)
      {
        Parts& parts = *static_cast<Parts*>(w->data);
        if (parts.monitor.receive(kernel::now())) parts.links_changed();
      },
      p.monitor.fd(), EV_READ);
  ev_io_init(
      &p.keeper_io,
      [](struct ev_loop* l, ev_io* w, int)
      {
        Parts& parts = *static_cast<Parts*>(w->data);
        parts.keeper_news();
        if (parts.keeper.state().phase == kernel::KeeperState::Phase::lost)
        {
          // Without the keeper nothing would lift the rules in an accident.
          log(Severity::error, "the keeper process is gone; stopping, so that no rule stays behind");
          ev_io_stop(l, w);
          ev_async_send(l, &parts.halt);
        }
      },
      p.keeper.fd(), EV_READ);
  ev_timer_init(
      &p.chain_timer, [](struct ev_loop*, ev_timer* w, int) { static_cast<Parts*>(w->data)->schedule(); }, 0., 1.);
  ev_timer_init(
      &p.beat_timer, [](struct ev_loop*, ev_timer* w, int) { static_cast<Parts*>(w->data)->keeper.beat(); }, 0., 0.05);
  ev_timer_init(
      &p.second_timer,
      [](struct ev_loop*, ev_timer* w, int)
      {
        static_cast<Parts*>(w->data)->observers->retune(kernel::now());
        static_cast<Parts*>(w->data)->retune_queue();
        static_cast<Parts*>(w->data)->forget_fetched();
        static_cast<Parts*>(w->data)->rest_wishes();
      },
      0.2, 0.2);
  ev_timer_init(
      &p.steer_timer, [](struct ev_loop*, ev_timer* w, int) { static_cast<Parts*>(w->data)->steer(); }, 0., 0.1);
  ev_async_init(&p.mail,
                [](struct ev_loop* l, ev_async* w, int)
                {
                  Parts& parts = *static_cast<Parts*>(w->data);
                  parts.mailbox.run_pending();
                  if (parts.fetch_mail.run_pending() > 0) parts.schedule();
                  if (parts.mailbox.pending() || parts.fetch_mail.pending()) ev_async_send(l, w);
                });
  ev_async_init(&p.halt, [](struct ev_loop* l, ev_async*, int) { ev_break(l, EVBREAK_ALL); });
  for (auto* data : { &p.queue_io.data, &p.monitor_io.data, &p.keeper_io.data, &p.chain_timer.data, &p.beat_timer.data,
                      &p.second_timer.data, &p.steer_timer.data, &p.mail.data, &p.halt.data })
    *data = &p;
  // Packets before everything else.
  ev_set_priority(&p.queue_io, EV_MAXPRI);
  ev_async_start(p.loop, &p.mail);
  ev_async_start(p.loop, &p.halt);
}

Engine::~Engine() = default;

void Engine::run()
{
  Parts& p = *parts_;
  p.mailbox.bind_to_this_thread();
  p.fetch_mail.bind_to_this_thread();
  ev_io_start(p.loop, &p.queue_io);
  ev_io_start(p.loop, &p.monitor_io);
  ev_io_start(p.loop, &p.keeper_io);
  ev_timer_start(p.loop, &p.beat_timer);
  ev_timer_start(p.loop, &p.second_timer);
  ev_timer_again(p.loop, &p.chain_timer);
  p.keeper.beat();
  p.links_changed();
  ev_run(p.loop, 0);
  p.stop_fetching("the daemon stops");
  // Whatever a module holds back leaves now; then no packet waits for a verdict that nobody gives.
  for (std::size_t i = 0; i < p.chain.module_count(); ++i)
    p.switch_module(i, false);
  try
  {
    p.keeper.set_steering({});
  }
  catch (const std::exception& error)
  {
    log(Severity::error, error.what());
  }
  try
  {
    p.keeper.clear();
  }
  catch (const std::exception& error)
  {
    log(Severity::error, error.what());
  }
  p.queue.receive([](kernel::QueuedPacket&) { return kernel::Decision {}; });
  p.mailbox.close();
  p.fetch_mail.close();
}

void Engine::stop() noexcept
{
  ev_async_send(parts_->loop, &parts_->halt);
}

// ---- what the control API asks
// -----------------------------------------------------------------------------------------------------

std::size_t Engine::Parts::slot_of(const std::string& module)
{
  std::string known {};
  for (std::size_t i = 0; i < chain.module_count(); ++i)
  {
    if (chain.module(i).name() == module) return i;
    known += (known.empty() ? "" : ", ") + std::string { chain.module(i).name() };
  }
  throw control::Refused { control::Refused::Kind::bad_request,
                           "no module \"" + module + "\" is loaded; "
                               + (known.empty() ? "none is" : "loaded are: " + known) };
}

json Engine::Parts::link_json(Link link)
{
  const links::LinkInfo& info = monitor[link];
  json addresses = json::array();
  for (const Address& address : info.addresses)
    addresses.push_back(wire::to_string(address));
  const LinkState& state = chain.link_states()[static_cast<std::size_t>(link)];
  json all {
    { "interface", info.interface }, { "present", info.present() },  { "up", state.up },  { "carrier", info.up },
    { "route", state.route },        { "route_v6", state.route_v6 }, { "mtu", info.mtu }, { "addresses", addresses },
    { "bytes_out", state.bytes_out }
  };
  if (const auto& radio = state.radio)
  {
    json known { { "confidence", radio->confidence } };
    if (radio->packet_time) known["packet_time_us"] = milliseconds(*radio->packet_time) * 1e3;
    if (radio->delivery) known["delivery"] = *radio->delivery;
    if (radio->signal) known["signal_dbm"] = *radio->signal;
    if (radio->frequency != 0) known["frequency_mhz"] = radio->frequency;
    all["radio"] = std::move(known);
  }
  if (const json steered = steering_json(link); !steered.empty()) all["steering"] = steered;
  if (observers->observing(link))
    all.update({ { "observed", observers->seen(link) }, { "observe_one_in", observers->one_in(link) } });
  if (link == Link::wifi) all.update(watch->json());
  return all;
}

// "wifi" and "cell" are always there, the further ones when an interface has the role.
json Engine::Parts::all_links_json(const std::function<json(Link)>& of)
{
  json all = json::object();
  for (std::size_t i = 0; i < link_count; ++i)
    if (const auto link = static_cast<Link>(i);
        link == Link::wifi || link == Link::cell || !monitor[link].interface.empty())
      all[std::string { name(link) }] = of(link);
  return all;
}

// Of the kernel's path manager, as of the last plan.
json Engine::Parts::endpoints_json()
{
  json all = json::array();
  for (const kernel::MptcpEndpoint& endpoint : keeper.state().steering.endpoints)
    all.push_back({ { "address", endpoint.address },
                    { "id", endpoint.id },
                    { "interface", endpoint.interface },
                    { "own", endpoint.own },
                    { "subflow", endpoint.subflow() },
                    { "backup", endpoint.backup() } });
  return all;
}

json Engine::Parts::all_steering_json()
{
  const kernel::SteeringState& state = keeper.state().steering;
  json refused = json::array();
  for (const kernel::RefusedWish& one : state.refused)
    refused.push_back({ { "what", one.what }, { "why", one.why } });
  return { { "ce_backend", state.ce_backend },
           { "ce_why", state.ce_why },
           { "mptcp_why", state.mptcp_why },
           { "setup", config.mptcp.setup },
           { "foreign", config.mptcp.foreign },
           { "endpoints", endpoints_json() },
           { "limit_subflows", state.limit_subflows },
           { "limit_add_addr", state.limit_add_addr },
           { "refused", refused },
           { "last_error", state.last_error },
           { "recovered", state.recovered },
           { "suspended", state.suspended },
           { "plans", state.plans },
           { "ce_changes", state.ce_changes },
           { "flag_changes", state.flag_changes },
           { "endpoints_added", state.endpoints_added },
           { "endpoints_deleted", state.endpoints_deleted } };
}

// What is wished of the link, and what is in force. Nothing without either.
json Engine::Parts::steering_json(Link link)
{
  json all = json::object();
  const auto put = [&](WishKind kind, const char* key)
  {
    const auto wish = wishes.of(link, kind);
    if (!wish) return;
    all[key] = { { "value", wish->value }, { "by", chain.module(wish->slot).name() }, { "why", wish->why } };
  };
  put(WishKind::ce_rate, "ce_rate_wished");
  put(WishKind::mptcp_backup, "backup_wished");
  put(WishKind::mptcp_endpoint, "endpoint_wished");
  const std::string& interface = monitor[link].interface;
  for (const kernel::CeRule& rule : keeper.state().steering.ce)
    if (rule.interface == interface) all["ce_rate"] = rule.rate;
  if (all.contains("ce_rate_wished") && !all.contains("ce_rate")) all["ce_rate"] = 0.0;
  return all;
}

// module.knob=value for all that differ from their defaults.
std::string Engine::Parts::knobs_text()
{
  std::string text {};
  for (std::size_t i = 0; i < chain.module_count(); ++i)
    for (const Knob& knob : chain.module(i).knobs())
      if (const double value = chain.module(i).get(knob.name); value != knob.initial)
        text += (text.empty() ? "" : " ") + std::string { chain.module(i).name() } + "." + std::string { knob.name }
                + "=" + format_knob(knob, value);
  return text;
}

json Engine::Parts::module_json(std::size_t i)
{
  const Module& module = chain.module(i);
  const auto& stats = chain.stats(i);
  json decisions = json::object();
  for (const chain::ReasonCount& reason : stats.reasons)
    if (!reason.why.empty()) decisions[std::string { reason.why }] = reason.count;
  json violations = json::object();
  for (std::size_t v = 1; v < stats.violations.size(); ++v)
    if (stats.violations[v] != 0)
      violations[std::string { chain::name(static_cast<chain::Violation>(v)) }] = stats.violations[v];
  json knobs = json::array();
  for (const Knob& knob : module.knobs())
  {
    json one = { { "name", knob.name },
                 { "type", type_name(knob.type) },
                 { "unit", knob.unit },
                 { "minimum", knob.minimum },
                 { "maximum", knob.maximum },
                 { "default", format_knob(knob, knob.initial) },
                 { "value", format_knob(knob, module.get(knob.name)) },
                 { "help", knob.help } };
    if (knob.type == KnobType::choice)
    {
      one["choices"] = json::array();
      for (const std::string_view choice : knob.choices)
        one["choices"].push_back(choice);
    }
    knobs.push_back(std::move(one));
  }
  return { { "name", module.name() },    { "summary", module.summary() }, { "enabled", chain.enabled(i) },
           { "flows", stats.flows },     { "faults", stats.faults },      { "excluded", stats.excluded },
           { "violations", violations }, { "decisions", decisions },      { "knobs", std::move(knobs) } };
}

json Engine::status()
{
  Parts& p = *parts_;
  return p.on_packet_thread(
      [&p]() -> json
      {
        const auto& c = p.counters;
        json faults = json::object();
        for (std::size_t i = 1; i < c.faults.size(); ++i)
          if (c.faults[i] != 0) faults[std::string { wire::name(static_cast<wire::ParseFault>(i)) }] = c.faults[i];
        for (std::size_t i = 1; i < c.edit_faults.size(); ++i)
          if (c.edit_faults[i] != 0)
            faults["edit: " + std::string { wire::name(static_cast<wire::EditFault>(i)) }] = c.edit_faults[i];
        const kernel::KeeperState& keeper = p.keeper.state();
        const kernel::QueueStats& q = p.queue.stats();
        const auto in_kernel = p.queue.kernel_stats();
        json modules = json::array();
        for (std::size_t i = 0; i < p.chain.module_count(); ++i)
          modules.push_back(p.module_json(i));
        return {
          { "version", version },
          { "pid", ::getpid() },
          { "uptime_s", seconds(kernel::now() - p.started) },
          { "backend", { { "name", keeper.backend }, { "why", keeper.why } } },
          { "links", p.all_links_json([&p](Link link) { return p.link_json(link); }) },
          { "steering", p.all_steering_json() },
          { "datapath",
            { { "queued", c.queued },
              { "passed", c.passed },
              { "edited", c.edited },
              { "rerouted", c.rerouted },
              { "dropped", c.dropped },
              { "crafted", c.crafted },
              { "craft_failed", c.craft_failed },
              { "observed", c.observed },
              { "observe_one_in", p.observers->one_in(Link::wifi) },
              { "bypassed", p.bypass },
              { "not_wifi", c.not_wifi },
              { "wishes", c.wishes },
              { "mid_flow", p.chain.stats().mid_flow },
              { "cell_bytes", p.chain.stats().cell_bytes },
              { "waiting", in_kernel ? in_kernel->waiting : 0 },
              { "queue_drops", in_kernel ? in_kernel->queue_drops : 0 },
              { "user_drops", in_kernel ? in_kernel->user_drops : 0 },
              { "overruns", q.overruns },
              { "truncated", q.truncated },
              { "late_verdicts", q.late_verdicts },
              { "verdict_errors", q.verdict_errors },
              { "verdict_messages", q.verdict_messages } } },
          { "fetch", p.fetch_json() },
          { "faults", faults },
          { "keeper",
            { { "state", kernel::name(keeper.phase) },
              { "pid", p.keeper.pid() },
              { "suspensions", keeper.suspensions },
              { "suspended_s", seconds(keeper.suspended_total) },
              { "last_error", keeper.last_error } } },
          { "flows",
            { { "count", p.chain.table().size() },
              { "capacity", p.chain.table().capacity() },
              { "refused", p.chain.table().refused() },
              { "bytes_each", p.chain.table().bytes_per_flow() },
              { "with_state", p.chain.table().states() },
              { "state_bytes_each", p.chain.table().bytes_per_state() } } },
          { "problems", p.loaded.problems },
          { "modules", modules },
        };
      });
}

json Engine::modules()
{
  Parts& p = *parts_;
  return p.on_packet_thread(
      [&p]() -> json
      {
        json all = json::array();
        for (std::size_t i = 0; i < p.chain.module_count(); ++i)
          all.push_back(p.module_json(i));
        return all;
      });
}

json Engine::links()
{
  Parts& p = *parts_;
  return p.on_packet_thread(
      [&p]() -> json
      {
        json all = p.all_links_json(
            [&p](Link link) -> json
            {
              json one = link == Link::wifi   ? p.watch->sources_json()
                         : link == Link::cell ? json { { "modems", p.watch->modems_json() } }
                                              : p.more_radio.at(link).sources_json();
              one["interface"] = p.monitor[link].interface;
              if (const json steered = p.steering_json(link); !steered.empty()) one["steering"] = steered;
              return one;
            });
        all["steering"] = p.all_steering_json();
        return all;
      });
}

json Engine::flows()
{
  Parts& p = *parts_;
  return p.on_packet_thread(
      [&p]() -> json
      {
        // A thousand rows are more than anyone reads, and the packet thread must not be held up.
        constexpr std::size_t most = 1000;
        json all = json::array();
        const Tick now = kernel::now();
        p.chain.table().each(
            [&](flow::Flow& flow)
            {
              if (all.size() >= most) return;
              const FlowView& v = flow.view;
              json modules = json::object();
              for (std::size_t i = 0; i < p.chain.module_count(); ++i)
                if ((flow.begun >> i & 1) != 0)
                {
                  JsonFacts facts {};
                  p.chain.module(i).describe(v, std::as_const(p.chain).state(flow, i), facts);
                  if ((flow.excluded >> i & 1) != 0) facts.all["excluded"] = "after a fault";
                  modules[std::string { p.chain.module(i).name() }] = std::move(facts.all);
                }
              all.push_back({ { "id", v.id },
                              { "local", wire::to_string(v.key.local, v.key.local_port) },
                              { "remote", wire::to_string(v.key.remote, v.key.remote_port) },
                              { "link", name(v.link) },
                              { "ecn", v.ecn },
                              { "acc_ecn", v.acc_ecn },
                              { "age_s", seconds(now - v.first_seen) },
                              { "idle_s", seconds(now - v.last_seen) },
                              { "rtt_ms", milliseconds(v.rtt_smoothed) },
                              { "rtt_min_ms", milliseconds(v.rtt_min) },
                              { "rate_mbps", v.delivery_rate * 8e-6 },
                              { "window_bytes", v.window_estimate },
                              { "delivered_bytes", v.bytes_delivered },
                              { "hands_off", name(v.hands_off) },
                              { "closed", flow.closed },
                              { "content", name(v.content) },
                              { "content_why", v.content_why },
                              { "modules", std::move(modules) } });
              if (!v.mptcp) return;
              json& mptcp = all.back()["mptcp"];
              mptcp = { { "token", token_text(v.mptcp_token) },
                        { "joined", v.mptcp_joined },
                        { "backup", v.mptcp_backup },
                        { "address_id", v.mptcp_address_id } };
              if (v.mptcp_version) mptcp["version"] = *v.mptcp_version;
            });
        return all;
      });
}

std::string Engine::manual(const std::string& module)
{
  Parts& p = *parts_;
  return p.on_packet_thread(
      [&p, &module]() -> std::string
      {
        const Module& m = p.chain.module(p.slot_of(module));
        std::string text = "# " + std::string { m.name() } + "\n\n" + std::string { m.summary() } + "\n\n"
                           + std::string { m.manual() }
                           + "\n\n## Knobs\n\n| knob | unit | range | default | meaning |\n|---|---|---|---|---|\n";
        for (const Knob& knob : m.knobs())
        {
          std::string range = format_knob(knob, knob.minimum) + " to " + format_knob(knob, knob.maximum);
          if (knob.type == KnobType::choice)
          {
            range.clear();
            for (const std::string_view choice : knob.choices)
              range += (range.empty() ? "" : ", ") + std::string { choice };
          }
          text += "| `" + std::string { knob.name } + "` | " + std::string { knob.unit } + " | " + range + " | "
                  + format_knob(knob, knob.initial) + " | " + std::string { knob.help } + " |\n";
        }
        return text;
      });
}

void Engine::enable(const std::string& module, bool on)
{
  Parts& p = *parts_;
  p.on_packet_thread(
      [&]
      {
        p.switch_module(p.slot_of(module), on);
        p.links_changed();
      });
}

void Engine::set(const std::string& module, const std::string& knob, const std::string& value)
{
  Parts& p = *parts_;
  p.on_packet_thread(
      [&]
      {
        Module& m = p.chain.module(p.slot_of(module));
        for (const Knob& one : m.knobs())
          if (one.name == knob)
          {
            const auto parsed = parse_knob(one, value);
            if (const auto* words = std::get_if<std::string>(&parsed))
              throw control::Refused { control::Refused::Kind::bad_request,
                                       module + "." + knob + " = \"" + value + "\": " + *words };
            m.set(one.name, std::get<double>(parsed));
            p.retune_rules();
            return;
          }
        throw control::Refused { control::Refused::Kind::bad_request,
                                 module + "." + knob + ": " + no_such_knob(m, knob) };
      });
}

void Engine::announce(const std::string& what, double for_s)
{
  constexpr double longest = 60;
  const auto word = what == "risk"   ? std::optional { links::Announcement::risk }
                    : what == "down" ? std::optional { links::Announcement::down }
                    : what == "up"   ? std::optional { links::Announcement::up }
                                     : std::nullopt;
  if (!word)
    throw control::Refused { control::Refused::Kind::bad_request,
                             "what = \"" + what + "\": risk, down or up is needed" };
  if (!(for_s > 0 && for_s <= longest))
    throw control::Refused { control::Refused::Kind::bad_request,
                             "for_s: a number of seconds above 0 and up to 60 is needed" };
  Parts& p = *parts_;
  p.on_packet_thread([&] { p.watch->announce(*word, from_seconds(for_s)); });
}

void Engine::reload(const Config& config)
{
  Parts& p = *parts_;
  // All or nothing: names and values are checked before the first one is taken over.
  std::vector<Complaint> complaints = check_modules(config, knob_check(p.loaded));
  if (!complaints.empty()) throw ConfigError { std::move(complaints) };
  p.on_packet_thread(
      [&]
      {
        for (const KnobSetting& setting : config.knobs)
          for (const Knob& knob : p.chain.module(p.slot_of(setting.module)).knobs())
            if (knob.name == setting.knob)
              p.chain.module(p.slot_of(setting.module))
                  .set(knob.name, std::get<double>(parse_knob(knob, setting.text)));
        for (std::size_t i = 0; i < p.chain.module_count(); ++i)
          p.switch_module(i, config.module_enabled(p.chain.module(i).name()));
        p.links_changed();
      });
}

std::string Engine::recording()
{
  Parts& p = *parts_;
  // The copy is made by the packet thread in one stroke; the file is written by whoever asked.
  struct Copy
  {
    std::optional<trace::Recorder> recorder;
    trace::Heading heading;
  };
  Copy copy = p.on_packet_thread(
      [&p]() -> Copy
      {
        if (p.recorder) p.recorder->expire(kernel::now());
        return { p.recorder,
                 { .version = std::string { version },
                   .commit = {},
                   .command = "tandemd",
                   .kernel = kernel_name(),
                   .knobs = p.knobs_text(),
                   .seed = p.seed,
                   .wifi_device = p.roles.wifi,
                   .cell_device = p.roles.cell } };
      });
  if (!copy.recorder)
    throw control::Refused { control::Refused::Kind::conflict,
                             "the flight recorder is off; set recorder.seconds in the configuration" };
  std::ostringstream out {};
  if (!trace::write_pcapng(out, *copy.recorder, copy.heading, kernel::realtime_offset()))
    throw control::Refused { control::Refused::Kind::conflict, "the recording could not be written" };
  return std::move(out).str();
}

json Engine::metrics()
{
  const json now = status();
  json all = json::array();
  const auto add =
      [&all](std::string name, std::string help, std::string type, const json& value, json labels = json::object())
  {
    all.push_back({ { "name", std::move(name) },
                    { "help", std::move(help) },
                    { "type", std::move(type) },
                    { "value", value },
                    { "labels", std::move(labels) } });
  };
  add("tandem_uptime_seconds", "Seconds since the daemon started", "gauge", now["uptime_s"]);
  for (const auto& [key, value] : now["datapath"].items())
  {
    const bool gauge = key == "waiting" || key == "observe_one_in" || key == "bypassed";
    add("tandem_datapath_" + key + (gauge ? "" : "_total"), "Packets on the datapath: " + key,
        gauge ? "gauge" : "counter", value.is_boolean() ? json(value.get<bool>() ? 1 : 0) : value);
  }
  for (const auto& [reason, count] : now["faults"].items())
    add("tandem_faults_total", "Packets passed untouched because they could not be worked on", "counter", count,
        { { "reason", reason } });
  add("tandem_flows", "Flows in the table", "gauge", now["flows"]["count"]);
  add("tandem_flows_refused_total", "Flows for which the table had no room", "counter", now["flows"]["refused"]);
  add("tandem_keeper_suspensions_total", "Times the packet loop stood still and rules were lifted", "counter",
      now["keeper"]["suspensions"]);
  for (const auto& [key, help] : { std::pair { "asked", "Pieces of downloads that were asked for a second time" },
                                   std::pair { "brought", "Of these, that came and were right" },
                                   std::pair { "fills", "Segments handed to the local TCP" },
                                   std::pair { "differed", "Pieces that differed from what had arrived" } })
    add("tandem_fetch_" + std::string { key } + "_total", help, "counter", now["fetch"][key]);
  for (const auto& [link, state] : now["links"].items())
    add("tandem_link_up", "Whether the link is up: carrier, and no blackout", "gauge", state["up"].get<bool>() ? 1 : 0,
        { { "link", link } });
  for (const auto& [link, state] : now["links"].items())
  {
    const json labels = { { "link", link } };
    if (state.contains("observed"))
      add("tandem_link_observed_total", "Copies of packets taken of the link", "counter", state["observed"], labels);
    if (!state.contains("steering")) continue;
    const json& steered = state["steering"];
    if (steered.contains("ce_rate"))
      add("tandem_ce_mark_ratio", "Share of ECN-capable MPTCP packets arriving by the link that get CE", "gauge",
          steered["ce_rate"], labels);
    if (steered.contains("backup_wished"))
      add("tandem_mptcp_backup_wished", "Whether the link's subflows are wished to be backup", "gauge",
          steered["backup_wished"]["value"], labels);
  }
  const json& steering = now["steering"];
  add("tandem_mptcp_endpoints", "Endpoints of the kernel's path manager, as of the last plan", "gauge",
      steering["endpoints"].size());
  for (const auto& [key, help] :
       { std::pair { "plans", "Steering plans carried out" }, std::pair { "ce_changes", "Changes of a share of marks" },
         std::pair { "flag_changes", "Changes of an endpoint's backup flag" },
         std::pair { "endpoints_added", "Endpoints made" }, std::pair { "endpoints_deleted", "Endpoints taken away" } })
    add("tandem_steering_" + std::string { key } + "_total", help, "counter", steering[key]);
  const json& blackout = now["links"]["wifi"]["blackout"];
  for (const auto& [cause, count] : blackout["verdicts"].items())
    add("tandem_blackouts_total", "Verdicts that Wi-Fi is down, by cause", "counter", count, { { "cause", cause } });
  for (const auto& [key, help] :
       { std::pair { "false_alarms", "Such verdicts that the link contradicted at once" },
         std::pair { "suspicions", "Silences of a busy link that were looked into" },
         std::pair { "cleared_by_probe", "Suspicions that an answer cleared" },
         std::pair { "cleared_by_traffic", "Suspicions that arriving traffic cleared" },
         std::pair { "undecided", "Suspicions given up without a verdict" },
         std::pair { "unprovable", "Silences of a busy link whose gateway answers no probe" },
         std::pair { "probes_sent", "Probes to the Wi-Fi gateway" }, std::pair { "probes_answered", "Their answers" },
         std::pair { "radio_stale", "Times the radio source said nothing while packets arrived" } })
    add("tandem_blackout_" + std::string { key } + "_total", help, "counter", blackout[key]);
  const json& risk = now["links"]["wifi"]["risk"];
  add("tandem_blackout_risk", "Whether a blackout is predicted or announced", "gauge",
      risk["at_risk"].get<bool>() ? 1 : 0);
  for (const char* outcome : { "hits", "misses" })
    add("tandem_blackout_predictions_total", "Predicted blackouts, by whether they came", "counter", risk[outcome],
        { { "outcome", outcome } });
  const json radio = parts_->on_packet_thread([this] { return parts_->watch->known_json(); });
  for (const json& source : radio.value("sources", json::array()))
  {
    const json labels = { { "source", source["name"] } };
    add("tandem_radio_reports_total", "Reports of a source of driver statistics", "counter", source["reports"], labels);
    add("tandem_radio_skipped_total", "Records of it that could not be used, or were too many", "counter",
        source["skipped"].get<std::uint64_t>() + source["limited"].get<std::uint64_t>(), labels);
    add("tandem_radio_stale_total", "Times it fell silent", "counter", source["stale"], labels);
  }
  for (const json& ap : radio.value("aps", json::array()))
  {
    if (!ap["associated"].get<bool>() || !ap["fresh"].get<bool>()) continue;
    const json labels = { { "ap", ap["ap"] } };
    if (ap.contains("delivery"))
      add("tandem_ap_delivery_ratio", "Share of the access point's attempts that arrive", "gauge", ap["delivery"],
          labels);
    if (ap.contains("packet_time_us"))
      add("tandem_ap_packet_time_seconds", "Mean time to deliver one full packet if we were alone", "gauge",
          ap["packet_time_us"].get<double>() * 1e-6, labels);
  }
  for (const json& module : now["modules"])
  {
    const json labels = { { "module", module["name"] } };
    add("tandem_module_enabled", "Whether the module is switched on", "gauge", module["enabled"].get<bool>() ? 1 : 0,
        labels);
    add("tandem_module_flows", "Flows the module has state on", "gauge", module["flows"], labels);
    add("tandem_module_faults_total", "Exceptions and overlong calls", "counter", module["faults"], labels);
    add("tandem_module_excluded_total", "Times the module was taken out of a flow", "counter", module["excluded"],
        labels);
    for (const auto& [why, count] : module["decisions"].items())
      add("tandem_decisions_total", "Decisions by reason", "counter", count,
          { { "module", module["name"] }, { "why", why } });
  }
  return all;
}

} // namespace tandem::daemon
