#include "src/daemon/packet_loop.h"

#include "src/daemon/module_settings.h"
#include "src/daemon/piece_options.h"
#include "src/daemon/service.h"
#include "src/daemon/version.h"
#include "src/kernel/clock.h"

#include <exception>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>
#include <variant>

namespace tandem::daemon
{

namespace
{

// A watcher's callback that calls a member function of the object behind it.
template <auto function>
struct Call;
template <class Object, void (Object::*function)()>
struct Call<function>
{
  template <class Watcher>
  static void back(struct ev_loop*, Watcher* watcher, int)
  {
    (static_cast<Object*>(watcher->data)->*function)();
  }
};

} // namespace

PacketLoop::PacketLoop(const Config& given, ForKeeper for_keeper, evidence::Memory memory)
    : config_ { given }, marks_ { marks_of(given.daemon) }, keeper_ { kernel::Keeper::start(
                                                                keeper_options(given.daemon, std::move(for_keeper)),
                                                                route_plan(given, marks_, {})) },
      loaded_ { load_configured(given.daemon) }, monitor_ { kernel::now() }, seed_ { random_seed() },
      queue_ { { .number = given.daemon.queue, .max_length = given.daemon.queue_length } }, injector_ { marks_ },
      datapath_ { { .record = recorder_limits(given.recorder) },
                  monitor_.table(),
                  [this](std::span<const std::byte> packet, Link by) { return injector_.send(packet, by); } },
      chain_ { chain_options(given, seed_, [this](const FlowView& flow) { return rest_of(flow); }),
               modules_of(loaded_) },
      inputs_ { chain_, datapath_.recorder() }, steering_ { { .setup = given.mptcp.setup,
                                                              .foreign = given.mptcp.foreign } },
      started_ { kernel::now() }, loop_ { ev_loop_new(EVFLAG_AUTO) }, mailbox_ { [this]
                                                                                 { ev_async_send(loop_, &mail_); } },
      fetch_mail_ { [this] { ev_async_send(loop_, &mail_); }, 1024 }, broker_ {
        given, marks_, monitor_.table(),
        [this](std::uint64_t generation, fetch::Message message)
        {
          const auto* said = std::get_if<fetch::Cost>(&message);
          const std::optional<fetch::Cost> cost = said != nullptr ? std::optional { *said } : std::nullopt;
          if (fetch_mail_.post([this, generation, message = std::move(message)]
                               { fetch_message(message, broker_.current(generation)); }))
            return true;
          // The last bill of a service that ends comes in this thread, and comes once.
          if (!cost || std::this_thread::get_id() != thread_) return false;
          fetch_message(*cost, false);
          return true;
        }
      }
{
  if (loop_ == nullptr) throw std::runtime_error { "libev: no event loop could be made" };
  budget_.emplace(config_.budget, config_.limits_spending(), chain_);
  evidence_.emplace(config_.evidence, seed_, chain_, std::move(memory), inputs_);
  present_ = monitor_.table().present();
  roles_ = find_roles(config_.links, {}, present_, started_).roles;
  monitor_.assign(roles_.wifi, roles_.cell, roles_.more_wifi, started_, roles_.lower);
  make_radios();
  make_more_radios();
  make_observers();
  say_problems();
  std::vector<Complaint> complaints = check_modules(config_, knob_check(loaded_));
  if (!complaints.empty()) throw ConfigError { std::move(complaints) };
  // What was saved lies on a configuration that has changed since: the module says what it makes of it.
  for (const Complaint& each : check_modules(config_, loaded_))
    log(Severity::warning, each.text());

  keeper_.guard_queue(queue_.fd(), config_.daemon.queue);
  bind();
  if (!roles_.cell.empty()) keeper_.set_route(route_plan(config_, marks_, roles_));
  take_knobs(chain_, config_.knobs);
  for (const ModuleSetting& setting : config_.modules)
    if (setting.enabled) chain_.enable(slot_of(chain_, setting.name), true, started_);
  make_watchers();
  make_cost_watch();
  make_exclusions();
  make_validation();
  inputs_.state(started_);
}

PacketLoop::~PacketLoop()
{
  more_validation_.clear();
  validation_.reset();
  exclusions_.reset();
  cost_watch_.reset();
  trap_saver_.reset();
  static_cast<void>(broker_.stop("the daemon stops"));
  more_radio_.clear();
  observers_.reset();
  watch_.reset();
  ev_loop_destroy(loop_);
}

void PacketLoop::make_radios()
{
  watch_.emplace(
      loop_,
      WatchSettings { .interface = roles_.wifi_card(),
                      .cell = roles_.modem(),
                      .radio = config_.links.radio,
                      .modem = config_.links.modem,
                      .record = config_.links.record,
                      .detector = config_.detector.blackout,
                      .risk = config_.detector.risk },
      [this] { verdict_changed(); }, [this] { radio_changed(Link::wifi, watch_->radio()); });
  chain_.damage(&watch_->damage());
  inputs_.damage(&watch_->damage());
}

void PacketLoop::make_more_radios()
{
  more_radio_.clear();
  for (std::size_t i = 0; i < roles_.more_wifi.size(); ++i)
  {
    if (roles_.more_wifi[i].empty()) continue;
    const Link link = wifi_link(i + 1);
    more_radio_.try_emplace(link, loop_, roles_.more_wifi[i], config_.links.radio,
                            [this, link] { radio_changed(link, more_radio_.at(link).radio()); });
  }
}

void PacketLoop::make_observers()
{
  observers_.emplace(
      loop_, config_.daemon.observe_sample,
      [this](Link by, const kernel::ObservedPacket& packet) { observed(by, packet); },
      [this](Link by, bool down)
      {
        if (down && !monitor_[by].up) links_changed();
        schedule();
      });
}

void PacketLoop::say_problems()
{
  if (!roles_.unused.empty())
  {
    std::string names {};
    for (const std::string& name : roles_.unused)
      names += (names.empty() ? "" : ", ") + name;
    log(Severity::warning, "at most " + std::to_string(most_wifi) + " Wi-Fi interfaces are used; not used: " + names
                               + " (links.more_wifi chooses)");
  }
  if (roles_.wifi.empty()) log(Severity::notice, roles_.wifi_why);
  for (const std::string& problem : loaded_.problems)
    log(Severity::warning, "module not loaded: " + problem);
}

void PacketLoop::bind()
{
  injector_.bind(Link::wifi, hands_off_.empty() ? roles_.wifi : "");
  injector_.bind(Link::cell, hands_off_.empty() ? roles_.cell : "");
  injector_.follow_routes(Link::other); // for flows whose route leads into a tunnel
}

// In a callback of the loop, through which no exception may pass. What could not be bound injects nothing.
void PacketLoop::bind_again()
{
  try
  {
    bind();
    bound_ = true;
  }
  catch (const std::exception& error)
  {
    if (std::exchange(bound_, false))
      log(Severity::warning,
          std::string { "Tandem sends nothing of its own for now: " } + error.what() + "; tried again until it works");
  }
}

void PacketLoop::make_watchers()
{
  ev_io_init(&queue_io_, Call<&PacketLoop::drain_queue>::back, queue_.fd(), EV_READ);
  ev_io_init(&monitor_io_, Call<&PacketLoop::monitor_notified>::back, monitor_.fd(), EV_READ);
  ev_io_init(&keeper_io_, Call<&PacketLoop::keeper_notified>::back, keeper_.fd(), EV_READ);
  ev_io_init(&sleep_io_, Call<&PacketLoop::machine_woke>::back, sleep_.fd(), EV_READ);
  ev_timer_init(&chain_timer_, Call<&PacketLoop::schedule>::back, 0., 1.);
  ev_timer_init(&heartbeat_timer_, Call<&PacketLoop::heartbeat>::back, 0., 0.05);
  ev_timer_init(&look_timer_, Call<&PacketLoop::look>::back, 0.2, 0.2);
  ev_timer_init(&steer_timer_, Call<&PacketLoop::steer>::back, 0., 0.1);
  ev_timer_init(&roles_timer_, Call<&PacketLoop::roles_timer>::back, 0., 0.);
  // With a watcher of the wall clock libev (4.33) leaves it to the kernel to tell that this has leapt; without one it
  // looks itself, and wakes every minute to do so.
  constexpr ev_tstamp far_away = 1e11;
  ev_periodic_init(
      &never_, [](struct ev_loop*, ev_periodic*, int) {}, far_away, 0., nullptr);
  ev_async_init(&mail_, Call<&PacketLoop::take_mail>::back);
  ev_async_init(&halt_, Call<&PacketLoop::halt>::back);
  for (auto* data :
       { &queue_io_.data, &monitor_io_.data, &keeper_io_.data, &sleep_io_.data, &chain_timer_.data,
         &heartbeat_timer_.data, &look_timer_.data, &steer_timer_.data, &roles_timer_.data, &mail_.data, &halt_.data })
    *data = this;
  // Packets before everything else, but for what makes all that is known of them old.
  ev_set_priority(&sleep_io_, EV_MAXPRI);
  ev_set_priority(&queue_io_, EV_MAXPRI - 1);
  ev_async_start(loop_, &mail_);
  ev_async_start(loop_, &halt_);
  ev_periodic_start(loop_, &never_);
}

void PacketLoop::take_mail()
{
  mailbox_.run_pending();
  if (fetch_mail_.run_pending() > 0) schedule();
  if (mailbox_.pending() || fetch_mail_.pending()) ev_async_send(loop_, &mail_);
}

void PacketLoop::run()
{
  begin();
  ev_run(loop_, 0);
  end();
}

void PacketLoop::begin()
{
  mailbox_.bind_to_this_thread();
  fetch_mail_.bind_to_this_thread();
  thread_ = std::this_thread::get_id();
  ev_io_start(loop_, &queue_io_);
  ev_io_start(loop_, &monitor_io_);
  ev_io_start(loop_, &keeper_io_);
  ev_io_start(loop_, &sleep_io_);
  ev_timer_start(loop_, &heartbeat_timer_);
  ev_timer_start(loop_, &look_timer_);
  ev_timer_again(loop_, &chain_timer_);
  keeper_.heartbeat();
  static_cast<void>(look_at_costs()); // before anything is told of the cellular link
  links_changed();
  exclude(config_.exclude);
}

void PacketLoop::end()
{
  stop_fetching("the daemon stops");
  // What it spent last: nobody posts any more.
  while (fetch_mail_.run_pending() > 0)
    continue;
  // Whatever a module withholds leaves now; then no packet waits for a verdict that nobody gives.
  for (std::size_t i = 0; i < chain_.module_count(); ++i)
    switch_slot(i, false);
  const auto logged = [](auto work)
  {
    try
    {
      work();
    }
    catch (const std::exception& error)
    {
      log(Severity::error, error.what());
    }
  };
  logged([this] { keeper_.set_steering({}); });
  logged([this] { keeper_.set_pacing({}); });
  logged([this] { keeper_.clear(); });
  queue_.receive([](kernel::QueuedPacket&) { return kernel::Decision {}; });
  mailbox_.close();
  fetch_mail_.close();
  // A service manager starts anew what ended with a failure, and only that.
  if (keeper_.state().phase == kernel::KeeperState::Phase::lost)
    throw std::runtime_error { "stopped because the keeper process ended" };
}

void PacketLoop::stop() noexcept
{
  ev_async_send(loop_, &halt_);
}

// ---- what the control API asks ----

StatusSources PacketLoop::sources()
{
  look_at_cell(); // while the loop rests nobody else does
  return { .config = config_,
           .problems = loaded_.problems,
           .chain = chain_,
           .links = monitor_.table(),
           .roles = roles_,
           .datapath = datapath_,
           .queue = queue_,
           .bypassed = bypass_.on(),
           .rules = rules_status(),
           .steering = steering_,
           .placement = placement_,
           .pacing = pacing_,
           .fetching = broker_,
           .keeper = keeper_,
           .observers = *observers_,
           .watch = *watch_,
           .more_radio = more_radio_,
           .evidence = *evidence_,
           .exclusions = *exclusions_,
           .settings = settings_,
           .network = network_,
           .hands_off = hands_off_,
           .aside = aside(),
           .times_off = times_off_,
           .sleeps = sleeps_,
           .cell_cost = cell_cost_,
           .cell_denied = cell_denied_,
           .uptime = kernel::now() - started_ };
}

RulesStatus PacketLoop::rules_status() const
{
  const Tick now = kernel::now();
  const bool waits = rules_.next() != Tick::max() && rules_.next() > now;
  RulesStatus status { .in_force = rules_.in_force(),
                       .why = rules_.why(),
                       .retry = waits ? rules_.next() - now : Duration {} };
  if (keeper_.state().phase == kernel::KeeperState::Phase::suspended)
    status = { .in_force = false, .why = "the packet loop stood still; the rules come back" };
  return status;
}

void PacketLoop::switch_module(const std::string& name, bool on)
{
  rouse();
  switch_slot(slot_of(chain_, name), on);
  links_changed();
}

void PacketLoop::set_knob(const std::string& module, const std::string& knob, const std::string& value)
{
  rouse();
  daemon::set_knob(chain_, module, knob, value);
  inputs_.knobs(kernel::now());
  retune_rules();
}

void PacketLoop::take_over(const Config& fresh)
{
  rouse();
  config_.placement = fresh.placement;
  make_validation();
  exclude(fresh.exclude);
  take_settings(fresh);
  static_cast<void>(look_at_costs());
  links_changed();
}

std::optional<Snapshot> PacketLoop::snapshot()
{
  trace::Recorder* kept = recorder();
  if (kept == nullptr) return {};
  const Tick now = kernel::now();
  kept->expire(now);
  tell_state(now); // while the loop rests nobody else does, and a replay needs one before the first packet
  return Snapshot { *kept,
                    { .version = std::string { release },
                      .commit = std::string { commit },
                      .command = "tandemd",
                      .kernel = kernel_name(),
                      .knobs = knobs_text(chain_),
                      .seed = seed_,
                      .wifi_device = roles_.wifi,
                      .cell_device = roles_.cell } };
}

void PacketLoop::look_at_traps(Tick now)
{
  for (const std::uint64_t id : traps_.look(chain_, now))
  {
    Traps::One& trap = *traps_.find(id);
    log(Severity::notice, "trap " + std::to_string(id) + " (" + trap.trap.text() + "): " + trap.saw,
        { .flow = trap.flow, .reason = trap.trap.text() });
    if (!trap.save) continue;
    if (!trap_saver_)
      trap_saver_.emplace(config_.recorder.directory / "traps", [this](const TrapSaver::Saved& saved)
                          { static_cast<void>(mailbox_.post([this, saved] { trap_saved(saved); })); });
    std::optional<Snapshot> caught = snapshot();
    if (!caught) continue;
    auto job = std::make_unique<TrapSaver::Job>(
        TrapSaver::Job { id, std::move(caught->recorder), std::move(caught->heading), kernel::realtime_offset() });
    if (!trap_saver_->post(std::move(job))) trap.problem = "another recording was being written when it fired";
  }
}

void PacketLoop::trap_saved(const TrapSaver::Saved& saved)
{
  if (saved.problem.empty())
    log(Severity::notice, "trap " + std::to_string(saved.trap) + ": saved " + saved.file);
  else
    log(Severity::warning, "trap " + std::to_string(saved.trap) + ": " + saved.problem);
  if (Traps::One* trap = traps_.find(saved.trap))
  {
    trap->problem = saved.problem;
    if (!saved.file.empty()) trap->file = saved.file;
  }
}

} // namespace tandem::daemon
