// Feeds the blackout detector and the risk predictor on the packet thread's loop: counter, probes, radio,
// announcements.
#pragma once

#include "src/feeder/radio_source.h"
#include "src/kernel/arrivals.h"
#include "src/kernel/prober.h"
#include "src/links/blackout.h"
#include "src/links/link_table.h"
#include "src/links/risk.h"

#include <ev.h>
#include <nlohmann/json.hpp>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace tandem::daemon
{

struct WatchSettings
{
  std::string interface;
  std::string radio; // as in links.radio
  links::DetectorSettings detector {};
  links::RiskSettings risk {};
};

class WifiWatch
{
public:
  // `changed` is called from the loop when up() or at_risk() is another one than before; never from within the
  // functions below but announce(), watch() and link().
  WifiWatch(struct ev_loop* loop, WatchSettings settings, std::function<void()> changed);
  ~WifiWatch();
  WifiWatch(const WifiWatch&) = delete;
  WifiWatch& operator=(const WifiWatch&) = delete;

  // Whether anybody wants to know. Off, nothing is read or sent, and the carrier alone decides.
  void watch(bool on);
  // What the interface is now.
  void link(const links::LinkInfo& info);
  // A packet of the interface was seen by other means: a hint that traffic flows.
  void traffic_seen(bool arriving, Tick now);
  void announce(links::Announcement what, Duration span);

  bool up() const { return detector_.up(); }
  Tick since() const { return detector_.since(); }
  bool at_risk() const { return at_risk_; }
  // Frames that were heard damaged, while a radio listens.
  const DamageLog& damage() const { return damage_; }
  // {"blackout": {...}, "risk": {...}} for the status.
  nlohmann::json json() const;

private:
  void look();
  void read_radio(Tick now);
  void settle(Tick now);
  void set_timer(Tick next, Tick now);
  void tell_verdict(Tick now);

  struct ev_loop* loop_;
  WatchSettings settings_;
  std::function<void()> changed_;
  links::BlackoutDetector detector_;
  links::RiskPredictor risk_;
  kernel::Prober prober_ {};
  kernel::ReceivedCounter received_ {};
  kernel::ArrivalBell bell_ {};
  std::unique_ptr<feeder::RadioSource> radio_ {};
  std::vector<feeder::RadioEvent> heard_ {};
  DamageLog damage_ {};
  Tick radio_tried_ {};
  bool radio_said_ = false; // that it is missing
  bool stale_said_ = false;
  bool silent_gateway_said_ = false;
  int ifindex_ = 0;
  bool was_up_ = true;
  bool at_risk_ = false;
  Tick timer_due_ {};
  double log_tokens_ = 5;
  Tick log_tokens_at_ {};
  std::uint64_t unsaid_ = 0;
  ev_timer timer_ {};
  ev_io answers_ {}, ring_ {}, air_ {};
};

// The source that links.radio names, for an interface; null for "none".
std::unique_ptr<feeder::RadioSource> make_radio(const std::string& name, const std::string& interface);

} // namespace tandem::daemon
