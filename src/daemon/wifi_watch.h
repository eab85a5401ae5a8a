// Feeds the blackout detector and the risk predictor on the packet thread's loop: counter, probes, radio,
// announcements.
#pragma once

#include "src/feeder/feeder.h"
#include "src/feeder/recording/recorder.h"
#include "src/kernel/packet/arrivals.h"
#include "src/kernel/packet/prober.h"
#include "src/links/blackout.h"
#include "src/links/link_table.h"
#include "src/links/link_up_limiter.h"
#include "src/links/risk.h"

#include <tandem/link.h>

#include <ev.h>
#include <nlohmann/json.hpp>

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace tandem::daemon
{

struct WatchSettings
{
  std::string interface;          // empty: none
  std::string cell;               // the other one; empty: none
  std::vector<std::string> radio; // as in links.radio
  bool modem = true;              // as in links.modem
  std::string record;             // as in links.record
  links::DetectorSettings detector {};
  links::RiskSettings risk {};
};

class WifiWatch
{
public:
  // `changed` is called from the loop when up() or at_risk() is another one than before; never from within the
  // functions below but announce(), watch() and link().
  // `radio_changed`: radio() may be another one, at most ten times a second.
  WifiWatch(struct ev_loop* loop, WatchSettings settings, std::function<void()> changed,
            std::function<void()> radio_changed);
  ~WifiWatch();
  WifiWatch(const WifiWatch&) = delete;
  WifiWatch& operator=(const WifiWatch&) = delete;

  // The roles went to other interfaces; link() tells what the new one is.
  void assign(const std::string& interface, const std::string& cell);
  // Whether anybody wants to know. Off, nothing is read or sent, and the carrier alone decides.
  void watch(bool on);
  // What the interface is now.
  void link(const links::LinkInfo& info);
  // A packet of the interface was seen by other means: a hint that traffic flows.
  void traffic_seen(bool arriving, Tick now);
  void announce(links::Announcement what, Duration span);

  // As modules are told: of a link that flaps later than the detector says it.
  bool up() const { return limiter_.up(); }
  Tick since() const { return limiter_.since(); }
  bool at_risk() const { return at_risk_; }
  // What is known of the radio at our access point; nothing without a source, or when it is stale.
  std::optional<RadioState> radio() const;
  // Which access point that is, as far as a source tells.
  std::optional<feeder::Mac> ap() const { return feeder_ ? feeder_->ap() : std::nullopt; }
  // Of the network that we are associated with; empty when no source tells.
  std::string ssid() const;
  // Frames that were heard damaged, while a radio listens.
  const DamageLog& damage() const { return damage_; }
  // {"blackout": {...}, "risk": {...}} for the status.
  nlohmann::json json() const;
  // What the sources know, see docs/control-api.md. Opens them for a while when nobody else wanted them.
  nlohmann::json sources_json();
  // The same without opening anything.
  nlohmann::json known_json() const;
  nlohmann::json modems_json() const;

private:
  void look();
  void hear_answers();
  bool feeding(Tick now) const;
  void read_sources(Tick now);
  std::vector<std::string> interfaces() const;
  void open_sources();
  void close_sources();
  void watch_descriptors(bool frames);
  void listen();
  void settle(Tick now);
  void set_timer(Tick next, Tick now);
  void tell_verdict(Tick now);

  struct ev_loop* loop_;
  WatchSettings settings_;
  std::function<void()> changed_, radio_changed_;
  Tick radio_told_ {};
  links::BlackoutDetector detector_;
  links::LinkUpLimiter limiter_ {};
  links::RiskPredictor risk_;
  kernel::Prober prober_ {};
  kernel::FrameCounter received_ { kernel::FrameCounter::Of::received }, sent_ { kernel::FrameCounter::Of::sent };
  kernel::ArrivalBell bell_ {};
  std::unique_ptr<feeder::Feeder> feeder_ {};
  std::vector<feeder::RadioEvent> heard_ {};
  DamageLog damage_ {};
  std::unique_ptr<feeder::Recorder> recorder_ {};
  Tick asked_until_ {}; // somebody looks at what the sources say
  bool hears_frames_ = false;
  bool stale_said_ = false;
  bool silent_gateway_said_ = false;
  int ifindex_ = 0;
  bool was_up_ = true;
  bool at_risk_ = false;
  Tick timer_due_ {};
  feeder::TokenBucket log_gate_ { 0.1, 5 };
  std::uint64_t unsaid_ = 0;
  ev_timer timer_ {};
  ev_io answers_ {}, ring_ {};
  std::array<ev_io, 8> sources_ {}; // stopped ones have the descriptor -1
};

} // namespace tandem::daemon
