// Loop and life: queue, observers, raw sockets and timers on one libev loop, with the chain in the middle, and the
// order in which the pieces are asked.
//
// The pieces below know nothing of the loop: packets and notifications go up by what they return, and what follows from
// them is called downwards from here.
#pragma once

#include "src/chain/chain.h"
#include "src/control/mailbox.h"
#include "src/daemon/budget_driver.h"
#include "src/daemon/chain_inputs.h"
#include "src/daemon/config.h"
#include "src/daemon/current_network.h"
#include "src/daemon/datapath.h"
#include "src/daemon/evidence_driver.h"
#include "src/daemon/exclusion_driver.h"
#include "src/daemon/fetch_broker.h"
#include "src/daemon/link_radio.h"
#include "src/daemon/module_loader.h"
#include "src/daemon/observers.h"
#include "src/daemon/pacing_book.h"
#include "src/daemon/placement_driver.h"
#include "src/daemon/queue_rules.h"
#include "src/daemon/roles.h"
#include "src/daemon/setting_layers.h"
#include "src/daemon/status.h"
#include "src/daemon/status_json.h"
#include "src/daemon/steering_controller.h"
#include "src/daemon/trap_saver.h"
#include "src/daemon/traps.h"
#include "src/daemon/wifi_watch.h"
#include "src/kernel/keeper/keeper.h"
#include "src/kernel/keeper/rule_delivery.h"
#include "src/kernel/packet/injector.h"
#include "src/kernel/packet/packet_queue.h"
#include "src/kernel/sleep_watch.h"
#include "src/kernel/socket_owner.h"
#include "src/links/cell_cost.h"
#include "src/links/monitor.h"
#include "src/links/validation.h"

#include <ev.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace tandem::daemon
{

// The flight recorder as it is, to be written by somebody else.
struct Snapshot
{
  trace::Recorder recorder;
  trace::Heading heading {};
};

struct ForKeeper;

class PacketLoop final
{
public:
  // `for_keeper`: what the keeper inherits.
  // `memory`: what was learnt before.
  PacketLoop(const Config& given, ForKeeper for_keeper, evidence::Memory memory);
  ~PacketLoop();
  PacketLoop(const PacketLoop&) = delete;
  PacketLoop& operator=(const PacketLoop&) = delete;

  // Runs in the calling thread, the packet thread from then on, until stop(). On return held-back state is released,
  // rules and routes are gone. Throws std::runtime_error, with all of that done, when the keeper had ended.
  void run();
  // From any thread or a signal handler.
  void stop() noexcept;

  // Runs `work` on the packet thread and returns its result, within a second. From any thread; throws control::Refused.
  template <class Work>
  auto ask(Work work)
  {
    return mailbox_.ask(std::move(work), std::chrono::seconds { 1 });
  }

  // All below: on the packet thread only.
  void switch_module(const std::string& name, bool on);
  void set_knob(const std::string& module, const std::string& knob, const std::string& value);
  // Module switches and knobs of a configuration that was checked; everything else needs a restart.
  void take_over(const Config& fresh);
  // What switches and knobs follow from when another profile holds. Those of now are in force already, unless the
  // profile is another one by now.
  void follow(const SettingLayers& settings);
  const std::string& profile() const { return settings_.profile(); } // that holds; empty: none

  StatusSources sources();
  RulesStatus rules_status() const;
  chain::Chain& chain() { return chain_; }
  WifiWatch& watch() { return *watch_; }
  const EvidenceDriver& evidence() const { return *evidence_; }
  EvidenceDriver& evidence_to_change()
  {
    rouse(); // what was changed is to be written
    return *evidence_;
  }
  std::optional<std::string> fresh_evidence() { return evidence_->fresh_text(); }
  // Counted up to now.
  BudgetDriver& budget()
  {
    look_at_cell();
    return *budget_;
  }
  trace::Recorder* recorder() { return datapath_.recorder(); }
  // Nothing without a recorder.
  std::optional<Snapshot> snapshot();
  Traps& traps()
  {
    rouse(); // whoever asks may set one
    return traps_;
  }
  // What is left alone from now on.
  void exclude(const std::vector<ExclusionSetting>& all);
  const ExclusionDriver& exclusions() const { return *exclusions_; }
  nlohmann::json flows_json();
  const Roles& roles() const { return roles_; }
  // Before run(): who is told, by the packet thread, whether a module asks for a roam. Must not wait.
  void on_roam(std::function<void(bool wanted)> tell) { tell_roam_ = std::move(tell); }
  // Before run(): who is told, by the packet thread, that something new was learnt, and whether the loop goes to rest
  // with it. Must not wait.
  void on_news(std::function<void(bool rests)> tell) { tell_news_ = std::move(tell); }
  // Interfaces whose subflows are backups from now on, since the card is mostly on another channel.
  void card_is_away_from(const std::set<std::string>& interfaces)
  {
    steering_.away(interfaces);
    steer_soon();
  }
  std::uint64_t seed() const { return seed_; }
  // From any thread: nothing changes it.
  const LoadedModules& loaded() const { return loaded_; }

private:
  void make_watchers();
  void make_radios();
  void make_more_radios();
  void make_observers();
  void make_cost_watch();
  std::string denial() const;
  void look_at_cell();
  bool look_at_costs();
  void charge_tunnel(Tick now);
  void spent(std::uint64_t bytes, Tick now);
  bool asks_network() const;
  void ask_network(CurrentNetwork& network, bool driver) const;
  void look_at_network();
  void look_at_network_again(Tick now);
  void take_settings(const Config& fresh);
  void place_evidence(Tick now);
  void look_at_filter(Tick now);
  std::string tunnel() const;
  std::string tunnel(const FlowKey& flow) const;
  std::vector<links::Routing::Aside> aside() const;
  std::string apart() const;
  void look_apart();
  void look_at_tunnels();
  void see_anew();
  void let_go(const std::string& why);
  void machine_woke();
  std::string network_unknown() const;
  void make_exclusions();
  void make_validation();
  void exclusions_changed();
  CellUse cell_use() const;
  void say_problems();
  void bind();
  void bind_again();
  void begin();
  void end();

  kernel::Decision queued(kernel::QueuedPacket& packet);
  void observed(Link by, const kernel::ObservedPacket& packet);
  chain::Rest rest_of(const FlowView& flow);
  int interface_of(const Address& local) const { return monitor_[monitor_.owner(local)].ifindex; }
  std::optional<kernel::SocketOwner> owner_of(const FlowKey& flow)
  {
    return sockets_.find(flow, interface_of(flow.local));
  }
  void carry_out();
  void path_found(const chain::PathFound& found, Tick now);
  template <class Input>
  void entered(Tick now, const Input& input);
  std::size_t inject(const chain::Injection& injection);
  void drain_queue();
  void schedule();

  // Gives roles to other interfaces when what is there asks for it. True when one got another.
  bool follow_roles();
  bool find_roles_anew();
  void tell_route();
  void roles_timer()
  {
    if (find_roles_anew()) links_changed();
  }
  void links_changed();
  void tell_links();
  void send_own_again(Tick now);
  void verdict_changed();
  void see_access_point(bool up, Tick now);
  void look_at_access_point(Tick now);
  LinkStates present_links() const;
  void monitor_notified();
  void keeper_notified();
  void follow_rules();
  void heartbeat() { keeper_.heartbeat(); }
  bool may_rest() const;
  void rest();
  // Called by whatever gives the loop something to do.
  void rouse()
  {
    quiet_looks_ = 0;
    if (resting_) wake_up();
  }
  void wake_up();
  void watch_radio();
  void look();
  void take_mail();
  void halt() { ev_break(loop_, EVBREAK_ALL); }

  void retune_rules();
  void say_what_is_beyond_rules();
  void retune_observers();
  void retune_queue(bool at_once = false);
  void let_past();

  void radio_changed(Link link, const std::optional<RadioState>& radio);
  void steer();
  void take_paces(const std::vector<chain::PaceRequest>& paces);
  void pace();
  void look_at_roam();
  void steer_soon();
  std::string barred(Link link) const;
  void place_connections(Tick now);
  void placed(Tick now);
  void look_at_traps(Tick now);
  void tell_state(Tick now);
  void trap_saved(const TrapSaver::Saved& saved);
  void switch_slot(std::size_t i, bool on);
  void modules_begin_anew();

  void retune_fetching();
  void stop_fetching(std::string_view why);
  void fetch_message(const fetch::Message& message, bool current);
  void tell(const FetchOutcome& outcome);

  Config config_;
  kernel::Marks marks_;
  Roles roles_ {};
  std::vector<links::PresentInterface> present_ {}; // of which the roles were found
  kernel::Keeper keeper_;                           // forks: before any thread
  LoadedModules loaded_;
  links::Monitor monitor_;
  std::uint64_t seed_; // of every decision that needs chance; written into recordings
  kernel::PacketQueue queue_;
  kernel::Injector injector_;
  Tick rules_back_ {};        // when rules that others had taken away were put back
  double rate_looked_at_ = 0; // of the Wi-Fi link, faster than Wi-Fi; it changes ten times a second
  Bypass bypass_ {};          // no module needs a packet now: no rule, whatever is switched on
  Datapath datapath_;
  chain::Chain chain_;
  ChainInputs inputs_;
  Tick state_told_ {}; // to the recorder
  std::optional<EvidenceDriver> evidence_ {};
  std::optional<BudgetDriver> budget_ {};
  links::CellCost cell_cost_ {};
  links::CostThatCounts cost_that_counts_ {};
  std::string cell_denied_ {}; // why nothing goes by the cellular link; empty: it may
  std::string hands_off_ {};   // why no flow is taken on or spoken for, see apart(); empty: no reason
  std::uint64_t times_off_ = 0;
  kernel::SleepWatch sleep_ {};
  std::uint64_t sleeps_ = 0;
  CurrentNetwork network_ {};
  Tick network_settles_ {}; // until then its name may still be that of before
  SettingLayers settings_ { {}, {} };
  std::string not_validated_ {};                        // what validation_ said when it was asked last
  std::uint64_t filtered_told_ = 0, rerouted_told_ = 0; // Datapath::Counters, of the last look
  std::optional<std::uint64_t> tunnel_packets_ {};      // by the relay's tunnel on the cellular link, of the last look
  Tick filtered_until_ {};                              // the packet filter is not tried before
  Duration filtered_for_ {};
  SteeringController steering_;
  PlacementDriver placement_ {};
  PacingBook pacing_ {};
  kernel::SocketOwners sockets_ {};
  std::function<void(bool)> tell_roam_ {}, tell_news_ {};
  bool roam_told_ = false;
  Wanted wanted_ {}; // what rules and observers were made of
  kernel::RuleDelivery rules_ {};
  bool rules_full_ = false;   // more is excluded than they can name
  bool route_unsent_ = false; // the keeper does not know yet which interface is the cellular one
  bool bound_ = true;         // what the injector sends has interfaces to leave by
  bool told_fault_ = false;   // that a queued packet could not be looked at
  Tick started_ {};
  Tick timer_due_ {};    // when chain_timer_ fires
  bool resting_ = false; // no flow wants anything: neither heartbeat nor look runs, and the radio is not read
  int quiet_looks_ = 0;  // looks since something happened

  struct ev_loop* loop_;
  ev_io queue_io_ {}, monitor_io_ {}, keeper_io_ {}, sleep_io_ {};
  ev_timer chain_timer_ {}, heartbeat_timer_ {}, look_timer_ {}, steer_timer_ {}, roles_timer_ {};
  ev_periodic never_ {};
  ev_async mail_ {}, halt_ {};
  control::Mailbox mailbox_;
  std::thread::id thread_ {};         // that the loop runs in
  control::Mailbox fetch_mail_;       // from the fetch thread; of its own, so that neither crowds the other out
  FetchBroker broker_;                // its thread posts to the mailbox: ends before it
  std::optional<WifiWatch> watch_ {}; // on the loop, as those below: gone before it
  std::optional<Observers> observers_ {};
  std::map<Link, LinkRadio> more_radio_ {}; // of the further Wi-Fi links
  Traps traps_ {};
  std::optional<TrapSaver> trap_saver_ {};                    // its thread posts to the mailbox: ends before it
  std::optional<links::CellCostWatch> cost_watch_ {};         // likewise
  std::optional<ExclusionDriver> exclusions_ {};              // likewise
  std::optional<links::ValidationWatch> validation_ {};       // likewise
  std::map<Link, links::ValidationWatch> more_validation_ {}; // likewise; while connections may be placed
};

} // namespace tandem::daemon
