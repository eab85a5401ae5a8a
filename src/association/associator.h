// Keeps virtual stations at the access points worth it, in a thread of its own: what the card hears and wpa_supplicant
// knows goes to Chooser, and what that chooses is carried out by nl80211, wpa_supplicant and DHCP. MPTCP endpoints are
// not made here: a station is a Wi-Fi link like any other, and follows from that (src/daemon/roles.h).
#pragma once

#include "src/association/card.h"
#include "src/association/channel_turns.h"
#include "src/association/choice.h"
#include "src/association/dhcp.h"
#include "src/association/lease_term.h"
#include "src/association/power_save.h"
#include "src/association/roamer.h"
#include "src/association/supplicant.h"
#include "src/kernel/rules/arp_setting.h"

#include <nlohmann/json.hpp>

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>

namespace tandem::association
{

struct AssociatorOptions
{
  std::string supplicant = "auto"; // path of wpa_supplicant's global control socket
  std::string script {};           // path of dhcp-lease
  std::string note {};             // file for ArpIgnore
};

// What the rest of the daemon says. Called from the thread.
struct Surroundings
{
  std::string wifi {};               // the card's own interface; empty: none
  std::set<std::string> excluded {}; // names of networks that are left alone
};

// At how many access points the card shall be.
struct Keep
{
  std::size_t most = 0;          // in all, the card's own included; below 2: no virtual stations
  bool several_channels = false; // also on other channels than the card's own, as far as the card can

  bool operator==(const Keep&) const = default;
};

class Associator
{
public:
  using Say = std::function<void(bool problem, const std::string& words)>;
  // A roam that a module asked for is near, or over; called from the thread.
  using Announce = std::function<void(bool near)>;
  // The interfaces whose subflows shall be backups, since the card is mostly on another channel; called from the
  // thread when they are other ones than before.
  using Away = std::function<void(const std::set<std::string>& interfaces)>;

  // What a killed run left behind is cleared first, in the thread.
  Associator(AssociatorOptions options, std::function<Surroundings()> surroundings, Announce announce, Away away,
             Say say);
  ~Associator(); // gives up all stations
  Associator(const Associator&) = delete;
  Associator& operator=(const Associator&) = delete;

  void keep(const Keep& wanted);
  // {interface, keep, several_channels, problem, access_points: [...], stations: [...], card: {stations, channels,
  // stations_apart, channels_apart}, turns?: {...}}, of now; nothing when the thread is busy for longer than
  // `patience`.
  std::optional<nlohmann::json> snapshot(Duration patience);
  // Has wpa_supplicant look around on all channels, which takes it some seconds. As roam() what it returns.
  std::optional<std::string> scan(Duration patience);
  // Moves the card's own association. Empty when wpa_supplicant agreed, else the reason; nothing when the thread is
  // busy for longer.
  std::optional<std::string> roam(const Mac& ap, Duration patience);
  // Whether a module asks for a roam. From any thread, without waiting.
  void want_roam(bool wanted);
  // {wanted, asked, moved, worse, failed, stayed, last}: what became of that. From any thread, without waiting.
  nlohmann::json roaming() const;

private:
  struct Made
  {
    Mac ap {};
    unsigned number = 0;
    unsigned frequency = 0;           // MHz, when it was made
    Tick since {};                    // made
    Tick associated_at = Tick::max(); // first
    Tick seen {};                     // last found associated
    std::optional<DhcpExchange> asking {};
    std::optional<kernel::InterfaceAddress> lease {};
    LeaseTerm term {}; // of `lease`
  };
  using Work = std::function<void()>;

  void run();
  void clear();
  void look();
  Situation situation(const Surroundings& around);
  void join(const Mac& ap);
  void leave(const std::string& name, const std::string& why);
  void follow(const std::string& name, Made& made, const std::optional<Card::Association>& its, std::string& end);
  void follow_address(const std::string& name, Made& made, std::string& end);
  void count_sleep();
  void look_around(const Situation& now);
  bool active() const { return keep_.most >= 2 || !made_.empty() || wanted_ || roamer_.busy(); }
  void follow_roam(const Situation& now);
  std::map<unsigned, std::set<std::string>> by_channel() const;
  void take_turns();
  nlohmann::json turns_told() const;
  nlohmann::json told() const;
  bool post_and_wait(Work work, Duration patience);

  AssociatorOptions options_;
  std::function<Surroundings()> surroundings_;
  Announce announce_;
  Away away_;
  Say say_;
  // The thread's alone.
  Card card_ {};
  Supplicant supplicant_;
  Chooser chooser_ {};
  kernel::ArpIgnore arp_;
  std::optional<Card::View> view_ {};
  std::string interface_ {};
  std::string problem_ {}, said_ {};
  std::vector<KnownNetwork> networks_ {};
  Choice choice_ {};
  std::map<std::string, Made> made_ {};
  Tick scanned_ {}, looked_ {};
  Tick scanned_all_ {};
  Duration asleep_; // kernel::time_asleep() at the last look
  Keep keep_ {};
  PowerSave power_save_ {};
  ChannelTurns turns_ { power_save_.shares_time() };
  Tick turn_next_ = Tick::max();
  std::set<std::string> told_away_ {};
  bool disobedience_said_ = false;
  Roamer roamer_ {};
  bool wanted_ = false; // a roam
  Tick roam_next_ = Tick::max();

  mutable std::mutex mutex_ {};
  bool roam_wished_ = false; // as said last
  struct Roaming
  {
    bool wanted = false;
    Roamer::Counters counters {};
    std::string last {};
  };
  Roaming roaming_ {}; // as of the last look
  std::condition_variable changed_ {};
  std::deque<Work> work_ {};
  bool ends_ = false;
  std::thread thread_; // last: ends first
};

} // namespace tandem::association
