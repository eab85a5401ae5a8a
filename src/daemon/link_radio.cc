#include "src/daemon/link_radio.h"

#include "src/daemon/radio_sources.h"
#include "src/daemon/service.h"
#include "src/feeder/feeder_json.h"
#include "src/kernel/clock.h"
#include "src/kernel/packet/prober.h"

#include <algorithm>
#include <utility>

namespace tandem::daemon
{

namespace
{

using namespace std::chrono_literals;

// Nobody is in a hurry here: estimates are of half a second, and are told ten times a second.
constexpr Duration pause = 100ms;
constexpr Duration retry = 1s; // the interface is not there yet

} // namespace

LinkRadio::LinkRadio(struct ev_loop* loop, std::string interface, std::vector<std::string> radio,
                     std::function<void()> changed)
    : loop_ { loop }, interface_ { std::move(interface) }, names_ { std::move(radio) }, changed_ { std::move(changed) }
{
  ev_timer_init(
      &timer_, [](struct ev_loop*, ev_timer* w, int) { static_cast<LinkRadio*>(w->data)->look(); }, 0., 1.);
  timer_.data = this;
}

LinkRadio::~LinkRadio()
{
  ev_timer_stop(loop_, &timer_);
}

void LinkRadio::watch(bool on)
{
  if (on == wanted_) return;
  wanted_ = on;
  look();
}

void LinkRadio::link(int ifindex)
{
  if (ifindex == ifindex_) return;
  ifindex_ = ifindex;
  close();
  look();
}

void LinkRadio::look()
{
  const Tick now = kernel::now();
  if (!wanted_ && now >= asked_until_)
  {
    close();
    ev_timer_stop(loop_, &timer_);
    return;
  }
  if (!feeder_ && ifindex_ != 0) open();
  if (feeder_)
  {
    heard_.clear();
    feeder_->receive(now, heard_);
    changed_();
  }
  set_timer(now);
}

void LinkRadio::open()
{
  const auto own = kernel::hardware_address(interface_);
  if (!own) return; // not there yet
  feeder_ = std::make_unique<feeder::Feeder>(
      make_sources(names_, false, { interface_ }), std::vector<feeder::Mac> { *own },
      [](bool problem, const std::string& words) { log(problem ? Severity::warning : Severity::notice, words); });
}

void LinkRadio::close()
{
  if (!std::exchange(feeder_, nullptr)) return;
  changed_();
}

void LinkRadio::set_timer(Tick now)
{
  // Sources with a descriptor are read with the timer, too; only what they want done earlier comes earlier.
  const Duration next = feeder_ ? std::clamp<Duration>(feeder_->due() - now, 10ms, pause) : retry;
  ev_now_update(loop_);
  timer_.repeat = seconds(next);
  ev_timer_again(loop_, &timer_);
}

nlohmann::json LinkRadio::sources_json()
{
  asked_until_ = kernel::now() + looked_at_for;
  if (!wanted_) look();
  return known_json();
}

nlohmann::json LinkRadio::known_json() const
{
  return feeder_ ? feeder::wifi_json(*feeder_, kernel::now()) : nlohmann::json::object();
}

} // namespace tandem::daemon
