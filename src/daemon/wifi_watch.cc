#include "src/daemon/wifi_watch.h"

#include "src/daemon/radio_sources.h"
#include "src/daemon/service.h"
#include "src/feeder/feeder_json.h"
#include "src/feeder/sources/monitor_source.h"
#include "src/kernel/clock.h"

#include <algorithm>
#include <utility>

namespace tandem::daemon
{

namespace
{

using namespace std::chrono_literals;
using nlohmann::json;

constexpr Duration frames_pause = 10ms;      // frames wait so long in their buffers while modules decide by them
constexpr Duration frames_pause_idle = 50ms; // and so long while somebody only looks
constexpr Duration radio_told_every = 100ms;

std::string in_ms(Duration span)
{
  return std::to_string(span / 1ms) + " ms";
}

} // namespace

WifiWatch::WifiWatch(struct ev_loop* loop, WatchSettings settings, std::function<void()> changed,
                     std::function<void()> radio_changed)
    : loop_ { loop }, settings_ { std::move(settings) }, changed_ { std::move(changed) },
      radio_changed_ { std::move(radio_changed) }, detector_ { settings_.detector }, risk_ { settings_.risk }
{
  ev_timer_init(
      &timer_, [](struct ev_loop*, ev_timer* w, int) { static_cast<WifiWatch*>(w->data)->look(); }, 0., 1.);
  const auto on_io = [](struct ev_loop*, ev_io* w, int) { static_cast<WifiWatch*>(w->data)->look(); };
  for (ev_io* io : { &answers_, &ring_ })
  {
    ev_io_init(io, on_io, -1, EV_READ);
    io->data = this;
    ev_set_priority(io, EV_MAXPRI); // a link that is back is worth more than one packet
  }
  for (ev_io& io : sources_)
  {
    ev_io_init(&io, on_io, -1, EV_READ);
    io.data = this;
    ev_set_priority(&io, EV_MAXPRI);
  }
  timer_.data = this;
  feeder::remove_left_monitors();
  if (!settings_.record.empty()) recorder_ = std::make_unique<feeder::Recorder>(settings_.record, kernel::now());
}

WifiWatch::~WifiWatch()
{
  ev_timer_stop(loop_, &timer_);
  for (ev_io* io : { &answers_, &ring_ })
    ev_io_stop(loop_, io);
  close_sources();
}

// ---- what is handed in
// -----------------------------------------------------------------------------------------------

void WifiWatch::assign(const std::string& interface, const std::string& cell)
{
  if (interface == settings_.interface && cell == settings_.cell) return;
  const bool other_wifi = interface != settings_.interface;
  settings_.interface = interface;
  settings_.cell = cell;
  if (other_wifi) return close_sources();
  // What is heard of the Wi-Fi radio stays known.
  if (!feeder_) return;
  for (ev_io& io : sources_)
    ev_io_stop(loop_, &io); // a source may be open by another descriptor: listen() starts them
  feeder_->set_interfaces(interfaces());
}

// Of our links.
std::vector<std::string> WifiWatch::interfaces() const
{
  std::vector<std::string> all { settings_.interface };
  if (!settings_.cell.empty()) all.push_back(settings_.cell);
  return all;
}

void WifiWatch::watch(bool on)
{
  if (on == detector_.watching()) return;
  const Tick now = kernel::now();
  detector_.watch(on, now);
  prober_.receive(); // what came while nobody watched answers no question
  hear_answers();
  if (on)
    look();
  else
  {
    risk_.forget();
    settle(now);
  }
}

void WifiWatch::link(const links::LinkInfo& info)
{
  const Tick now = kernel::now();
  kernel::Prober::Target target { .interface = info.interface,
                                  .ifindex = info.ifindex,
                                  .point_to_point = info.point_to_point,
                                  .gateway_v4 = info.gateway_v4,
                                  .gateway_v6 = info.gateway_v6 };
  for (const Address& address : info.addresses)
    if (!address.v6)
    {
      target.source_v4 = address;
      break;
    }
  if (info.ifindex != ifindex_)
  {
    ifindex_ = info.ifindex;
    received_.open(info.interface);
    sent_.open(info.interface);
    bell_.disarm();
    ev_io_stop(loop_, &ring_);
    close_sources();
  }
  // The kernel drops the routes of an interface that loses its carrier; the gateway will be the same most often.
  const bool keep = !info.up && !target.gateway_v4 && !target.gateway_v6 && prober_.target().ifindex == info.ifindex;
  if (!keep && target != prober_.target())
  {
    ev_io_stop(loop_, &answers_);
    const bool can = prober_.aim(target);
    detector_.new_gateway(can, now);
    silent_gateway_said_ = false;
    hear_answers();
  }
  detector_.carrier(info.up, now);
  look();
}

// Nothing reads answers while nothing is watched, and the socket hears every ARP frame of the network.
void WifiWatch::hear_answers()
{
  ev_io_stop(loop_, &answers_);
  if (!detector_.watching() || prober_.fd() < 0) return;
  ev_io_set(&answers_, prober_.fd(), EV_READ);
  ev_io_start(loop_, &answers_);
}

void WifiWatch::traffic_seen(bool arriving, Tick now)
{
  if (!detector_.watching()) return;
  if (arriving && !detector_.up())
  {
    detector_.frame_arrived(now);
    look();
  }
  // Traffic after a pause: look at the counter soon, not at the end of a slow round.
  else if (timer_due_ - now > 20ms)
    set_timer(now + 5ms, now);
}

void WifiWatch::announce(links::Announcement what, Duration span)
{
  detector_.announce(what, span, kernel::now());
  look();
}

// ---- the loop
// --------------------------------------------------------------------------------------------------------

// Everything that has come in is taken in before anything is decided: when this process was held up, an answer that
// came in time must not be taken for none.
void WifiWatch::look()
{
  const Tick now = kernel::now();
  if (feeding(now))
    read_sources(now);
  else if (feeder_)
    close_sources();
  if (detector_.watching())
  {
    // Answers before the counter: they are in it, too, and say more.
    for (int answers = prober_.receive(); answers > 0; --answers)
      detector_.probe_answered(now);
    if (bell_.rung()) detector_.frame_arrived(now);
    if (const auto total = received_.read()) detector_.received_total(*total, now);
    if (const auto total = sent_.read()) detector_.sent_total(*total, now);
  }
  settle(now);
}

bool WifiWatch::feeding(Tick now) const
{
  return detector_.watching() || now < asked_until_ || recorder_;
}

void WifiWatch::read_sources(Tick now)
{
  if (!feeder_) open_sources();
  if (!feeder_) return;
  heard_.clear();
  feeder_->receive(now, heard_);
  if (const bool hears = feeder_->hears_frames(); hears != hears_frames_)
  {
    hears_frames_ = hears;
    if (hears) risk_.forget();
    detector_.radio_present(hears, now);
  }
  for (const feeder::RadioEvent& event : heard_)
  {
    detector_.radio(event, now);
    if (event.kind == feeder::RadioEventKind::associated) risk_.forget();
    if (event.signal) risk_.sample(*event.signal, event.at);
    if (event.damaged) damage_.add(event.at);
    if (event.repaired) damage_.take_back(*event.repaired);
  }
}

void WifiWatch::open_sources()
{
  const auto own = kernel::hardware_address(settings_.interface);
  if (!own) return; // not there yet
  feeder_ = std::make_unique<feeder::Feeder>(
      make_sources(settings_.radio, settings_.modem, interfaces()), std::vector<feeder::Mac> { *own },
      [](bool problem, const std::string& words) { log(problem ? Severity::warning : Severity::notice, words); });
  if (recorder_)
    feeder_->tap([this](const std::string& source, const feeder::Report& report) { recorder_->take(source, report); });
}

void WifiWatch::close_sources()
{
  for (ev_io& io : sources_)
    ev_io_stop(loop_, &io);
  if (hears_frames_) detector_.radio_present(false, kernel::now());
  hears_frames_ = false;
  damage_.listening = false;
  feeder_.reset();
}

// Frames come by the thousand: they are listened to at once only by who is in a hurry, else read with the timer.
void WifiWatch::watch_descriptors(bool frames)
{
  std::size_t used = 0;
  if (feeder_)
    for (const feeder::Feeder::Descriptor& one : feeder_->descriptors())
    {
      if (one.frames && !frames) continue;
      if (used == sources_.size()) break;
      ev_io& io = sources_[used++];
      if (ev_is_active(&io) != 0 && io.fd == one.fd) continue;
      ev_io_stop(loop_, &io);
      ev_io_set(&io, one.fd, EV_READ);
      ev_io_start(loop_, &io);
    }
  for (; used < sources_.size(); ++used)
    ev_io_stop(loop_, &sources_[used]);
}

std::optional<RadioState> WifiWatch::radio() const
{
  return feeder_ ? feeder_->radio() : std::nullopt;
}

std::string WifiWatch::ssid() const
{
  if (!feeder_ || !feeder_->ap()) return {};
  const auto known = feeder_->candidates().find(*feeder_->ap());
  return known == feeder_->candidates().end() ? std::string {} : known->second.candidate.ssid;
}

void WifiWatch::settle(Tick now)
{
  damage_.listening = hears_frames_ && detector_.radio_usable();
  auto step = detector_.advance(now);
  if (step.send_probe)
  {
    if (prober_.send()) detector_.probe_sent(now);
    // A probe that the kernel did not take proves nothing; the next one is due at the next look.
    else
      step.next = std::min(step.next, now + 10ms);
  }
  if (detector_.up() != was_up_) tell_verdict(now);
  if (!detector_.up() && was_up_ && detector_.cause() != links::BlackoutCause::announced) risk_.blackout(now);
  if (!stale_said_ && detector_.counters().radio_stale > 0)
  {
    stale_said_ = true;
    log(Severity::warning, "the radio hears nothing while packets arrive; blackouts are told without it until it does");
  }
  if (!silent_gateway_said_ && !settings_.interface.empty() && detector_.counters().unprovable > 0
      && !detector_.gateway_answers())
  {
    silent_gateway_said_ = true;
    log(Severity::notice, settings_.interface + ": the gateway answers no probe (" + std::string { prober_.way() }
                              + "); blackouts without a loss of carrier cannot be told from a silent server");
  }

  const bool was_up = limiter_.up(), was_at_risk = at_risk_;
  limiter_.take(detector_.up(), feeder_ ? feeder_->ap() : std::nullopt, now);
  at_risk_ = limiter_.up()
             && (detector_.risk_announced(now)
                 || (detector_.watching() && feeder_ && feeder_->signal_validated() && risk_.at_risk(now)));
  const bool changed = limiter_.up() != was_up || at_risk_ != was_at_risk;

  listen();
  step.next = std::min(step.next, limiter_.next());
  if (feeder_)
    step.next =
        std::min({ step.next, feeder_->due(),
                   hears_frames_ ? now + (detector_.watching() ? frames_pause : frames_pause_idle) : Tick::max() });

  was_up_ = detector_.up();
  if (step.next == Tick::max())
  {
    timer_due_ = step.next;
    ev_timer_stop(loop_, &timer_);
  }
  else
    set_timer(step.next, now);
  if (changed) changed_();
  if (now - radio_told_ < radio_told_every) return;
  radio_told_ = now;
  radio_changed_();
}

// The bell rings with the first frame of a link that is back. Whoever is suspicious or down listens to the air at once,
// who is not reads it with the counter.
void WifiWatch::listen()
{
  const bool down = detector_.watching() && !detector_.up();
  if (down && bell_.fd() < 0 && bell_.arm(ifindex_))
  {
    ev_io_set(&ring_, bell_.fd(), EV_READ);
    ev_io_start(loop_, &ring_);
  }
  if (!down && bell_.fd() >= 0)
  {
    ev_io_stop(loop_, &ring_);
    bell_.disarm();
  }
  watch_descriptors(down || detector_.suspicious());
}

void WifiWatch::set_timer(Tick next, Tick now)
{
  timer_due_ = next;
  ev_now_update(loop_);
  timer_.repeat = std::max(seconds(next - now), 5e-4);
  ev_timer_again(loop_, &timer_);
}

// At most a burst of lines, then one in ten seconds: a link at the edge must not fill the log.
void WifiWatch::tell_verdict(Tick now)
{
  if (settings_.interface.empty()) return; // the loop told that there is none
  if (!log_gate_.take(now))
  {
    ++unsaid_;
    return;
  }
  std::string text = settings_.interface;
  if (detector_.up())
    text += " is up again after " + in_ms(detector_.last_up() - detector_.last_down());
  else
    text += ": blackout (" + std::string { links::name(detector_.cause()) } + ")";
  if (unsaid_ > 0) text += "; " + std::to_string(unsaid_) + " changes before it were not logged";
  unsaid_ = 0;
  log(Severity::info, text);
}

json WifiWatch::json() const
{
  const Tick now = kernel::now();
  const links::DetectorCounters& c = detector_.counters();
  nlohmann::json verdicts = nlohmann::json::object();
  for (std::size_t i = 1; i < c.verdicts.size(); ++i)
    verdicts[std::string { links::name(static_cast<links::BlackoutCause>(i)) }] = c.verdicts[i];
  return { { "blackout",
             { { "watching", detector_.watching() },
               { "down", !detector_.up() },
               { "cause", links::name(detector_.cause()) },
               { "since_s", detector_.since() == Tick {} ? 0.0 : seconds(now - detector_.since()) },
               { "verdicts", std::move(verdicts) },
               { "false_alarms", c.false_alarms },
               { "learned", c.learned },
               { "held_back", c.held_back },
               { "suspicions", c.suspicions },
               { "cleared_by_probe", c.cleared_by_probe },
               { "cleared_by_traffic", c.cleared_by_traffic },
               { "undecided", c.undecided },
               { "unanswered", c.unanswered },
               { "unprovable", c.unprovable },
               { "probe", prober_.way() },
               { "probe_problem", prober_.why() },
               { "gateway_answers", detector_.gateway_answers() },
               { "probes_sent", c.probes_sent },
               { "probes_answered", c.probes_answered },
               { "probe_rtt_ms", milliseconds(detector_.probe_rtt()) },
               { "radio", hears_frames_ ? "frames" : "none" },
               { "radio_usable", detector_.radio_usable() },
               { "radio_stale", c.radio_stale },
               { "unacknowledged", detector_.odds().failing() },
               { "access_ms", milliseconds(detector_.odds().access(false)) },
               { "access_shared_ms", milliseconds(detector_.odds().access(true)) },
               { "deauthentications", c.deauthentications },
               { "link_ups_held", limiter_.held() },
               { "last_verdict_at_ns", detector_.last_down().time_since_epoch().count() },
               { "last_up_at_ns", detector_.last_up().time_since_epoch().count() } } },
           { "risk",
             { { "at_risk", at_risk_ },
               { "signal_dbm", risk_.known(now) ? nlohmann::json(risk_.level()) : nlohmann::json() },
               { "slope_db_per_s", risk_.known(now) ? nlohmann::json(risk_.slope()) : nlohmann::json() },
               { "horizon_ms", milliseconds(risk_.horizon()) },
               { "hits", risk_.hits() },
               { "misses", risk_.misses() } } } };
}

json WifiWatch::sources_json()
{
  const Tick now = kernel::now();
  const bool was_feeding = feeding(now);
  asked_until_ = now + looked_at_for;
  if (!was_feeding) look();
  return known_json();
}

json WifiWatch::known_json() const
{
  return feeder_ ? feeder::wifi_json(*feeder_, kernel::now()) : json::object();
}

json WifiWatch::modems_json() const
{
  return feeder_ ? feeder::modems_json(*feeder_) : json::array();
}

} // namespace tandem::daemon
