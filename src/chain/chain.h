// Runs the enabled modules over one event, merges their plans, lets the guard check them, and owns the timers.
#pragma once

#include "src/chain/guard.h"
#include "src/chain/link_rate.h"
#include "src/chain/output.h"
#include "src/chain/own_way.h"
#include "src/chain/release.h"
#include "src/chain/sent_syns.h"
#include "src/chain/unanswered.h"
#include "src/flow/known_senders.h"
#include "src/flow/table.h"

#include <tandem/module.h>

#include <array>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace tandem::chain
{

// ACKs of a flow that left by another link than its own, and may still be on their way where that one is slower.
struct Elsewhere
{
  Duration added {}; // that its way takes longer than the flow's own, as it was measured; zero: not known
  Tick last {};      // when one last left by it
  Seq told {};       // the newest acknowledgement number that left by the flow's own link
  bool any = false;  // one did
  Tick until {};     // when the last ACK leaves that waits for them, see Chain::leaves_at(); zero: none does any more
  OwnWay way {};
};

// Of what is to leave at a time, for heaps with the earliest on top: in the order of asking among those of one time.
bool leaves_later(const auto& a, const auto& b)
{
  return a.at != b.at ? a.at > b.at : a.order > b.order;
}

// What is to become of the segment at hand. Edit{} and pass: the bytes go as they came.
struct Outcome
{
  Verdict verdict = Verdict::pass;
  Edit edit {};
  std::string_view why {};
  const FlowView* flow = nullptr;   // null when there is no room or no need for a flow
  Known before {};                  // what the server knew, should the edit not be possible
  std::uint8_t routed_by = no_slot; // the module whose route it is
  std::uint16_t told_window = 0;    // FlowView::told_window once the segment has left
};

// How often a literal reason was given.
struct ReasonCount
{
  std::string_view why {};
  std::uint64_t count = 0;
};

// Which modules do not act on a flow now, though they are enabled. By their order in the chain.
struct Rest
{
  std::uint8_t modules = 0;      // bit i: module i
  bool watched = false;          // the flow's packets are to be seen nevertheless
  bool cell_path_failed = false; // FlowView::cell_path_failed
  // FlowView::cell_denied and FlowView::cell_path_known; told once, before the first module begins on the flow.
  CellDenied cell_denied = CellDenied::no;
  std::optional<Duration> cell_path_known {};
};

// Of a flow that no module acts on, whichever are switched on: the user excluded it. No Rest for other reasons is this,
// because there are fewer modules.
constexpr std::uint8_t every_module = 0xff;

constexpr bool left_alone(const flow::Flow& flow)
{
  return flow.resting == every_module;
}

class Chain
{
public:
  struct Options
  {
    flow::Table::Options table {};
    std::uint64_t seed = 0;
    std::uint64_t cell_budget = std::numeric_limits<std::uint64_t>::max(); // bytes over the cellular link since start
    // Modules begin on a flow, and are asked about it, once it has delivered so many bytes without a pause of a second,
    // or has a hole. Until then it costs no state: most flows are short.
    std::uint64_t worth = 0;
    Duration call_limit =
        std::chrono::milliseconds { 5 }; // the third decision that takes longer costs the module the flow
    std::function<Tick()> stopwatch {};  // for call_limit; empty: not measured
    // Asked once, before the first module begins on a flow; empty: none rests.
    std::function<Rest(const FlowView&)> rest {};
    ReleaseLimits release {};
  };

  // Modules are asked, and win conflicts, in the order of Module::priority(), then by name. They must outlive the
  // chain.
  Chain(Options options, std::vector<Module*> modules);
  ~Chain();
  Chain(const Chain&) = delete;
  Chain& operator=(const Chain&) = delete;

  // What is to be done after what was called last: to be carried out, and cleared, after every call that takes the time
  // or a FetchResult, and before the verdict of the segment at hand is given.
  Output& output() { return output_; }
  // What became of an injected segment: the bytes that left by its link, 0 when it could not be sent.
  void sent(const Injection& injection, std::size_t bytes);
  // There is nobody to fetch it. The module is told by the next advance().
  void fetch_refused(const FetchRequest& request);

  // One packet. `queued`: a verdict counts; otherwise it is an observed copy. `bytes` is its size on the wire.
  Outcome segment(const Segment& segment, bool queued, Tick now);
  // The bytes could not be edited: the segment leaves as it came, at the same `now`.
  void unedited(const Segment& segment, const Outcome& outcome, Tick now);

  // Whether the handshake of a flow is known, or known to have been missed.
  bool knows(const FlowKey& key)
  {
    const flow::Flow* flow = table_.find(key);
    return flow != nullptr && (flow->view.bypass != Bypass::mid_flow || flow->view.sent_any);
  }

  // Fires due alarms and delayed injected segments, forgets idle flows. Returns when to call again, at the latest.
  Tick advance(Tick now);

  // New link states; modules with state on a flow are told. `owner`: the link that owns a local address now; a flow
  // whose address its link no longer has is bypassed. Without it addresses are taken to be as they were.
  using Owner = std::function<Link(const Address&)>;
  void links(const LinkStates& states, Tick now, const Owner& owner = {});
  // What the radio of a link reports now: in the next event of every module, and when it differs from what was told
  // last, an event for those that want to know (Interest::radio).
  void radio(Link link, const std::optional<RadioState>& state, Tick now);

  // What a flow carries now, as far as somebody looked into it. Nothing happens when the flow is not known (any more).
  void content(const FlowKey& key, Content content, std::string_view why);
  // The answer to a FetchRequest of the module in `slot`; `cell_bytes` went over the cellular link for it.
  void fetched(std::uint64_t flow, std::uint8_t slot, const FetchResult& result, std::uint64_t cell_bytes, Tick now);
  // The Wi-Fi link has come back, and some module wants own_unanswered(): the SYN is sent once more, or the local TCP
  // is told to send its first unacknowledged segment without waiting for its doubled timer (RFC 6069).
  void unanswered(const Unanswered& socket, Tick now);
  bool own_unanswered() const { return table_.size() > 0 && interest().own_unanswered; }
  // So many bytes went over the cellular link for modules, beyond what fetched() was told.
  void spent(std::uint64_t cell_bytes);
  bool budget_spent() const { return budget_left() == 0; }
  // Options::cell_budget from now on.
  void limit_cell(std::uint64_t bytes) { options_.cell_budget = bytes; }

  // Where damaged frames are noted; must outlive the chain. Null: nowhere.
  void damage(const DamageLog* log) { damage_ = log; }

  // Whether some module must see packets of some flow at `now`. While none must, the queue may be bypassed altogether;
  // call queue_bypassed() then, and queue_resumed() when it is back.
  bool needs_queue(Tick now);
  void queue_bypassed() { ++epoch_; }
  void queue_resumed() { ++epoch_; }

  std::size_t module_count() const { return slots_.size(); }
  Module& module(std::size_t i) { return *slots_[i].module; }
  bool enabled(std::size_t i) const { return slots_[i].enabled; }
  // Switching off tells the module of every flow first, so that it releases what it holds.
  void enable(std::size_t i, bool on, Tick now);
  // Other modules rest on this flow from now on. One that acted is told, as when it is switched off. Options::rest is
  // not asked about a flow that is left alone, and is asked when that ends.
  void rest(flow::Flow& flow, const Rest& rest, Tick now);
  // What the enabled modules must see.
  Interest interest() const;

  struct ModuleStats
  {
    std::uint64_t flows = 0;      // flows with state now
    std::uint64_t excluded = 0;   // times the module was taken out of a flow
    std::uint64_t faults = 0;     // exceptions and overlong calls
    std::uint64_t cell_bytes = 0; // what its decisions put on the cellular link
    std::uint64_t conflicts = 0; // plans and reservations that what another module did stood against; asked again later
    std::array<ReasonCount, 48> reasons {};
    std::array<std::uint64_t, violation_count> violations {};
  };
  const ModuleStats& stats(std::size_t i) const { return slots_[i].stats; }

  struct Stats
  {
    std::uint64_t mid_flow = 0;     // flows attached after their handshake
    std::uint64_t untracked = 0;    // segments of flows for which the table had no room
    std::uint64_t unacceptable = 0; // arriving segments outside the windows (RFC 9293 3.10.7.4): no module sees them
    std::uint64_t injected = 0;
    std::uint64_t injected_failed = 0;
    std::uint64_t injected_refused = 0;  // no room for another delayed injected
    std::uint64_t injected_outdated = 0; // delayed, and no longer allowed when the time came
    std::uint64_t cell_bytes = 0;        // what decisions put on the cellular link
    std::uint64_t private_peers = 0;     // flows of which nothing goes by the cellular link for that reason
    std::uint64_t excluded = 0;          // queued packets of flows that are left alone
    std::uint64_t fetches = 0;           // asked for and begun
    std::uint64_t fetched = 0;           // that brought their bytes
    std::uint64_t fills = 0;             // segments handed to the local TCP
    std::uint64_t ts_lowered = 0;        // TSvals changed for a reservation
    std::uint64_t ts_spoiled = 0;        // reservations that data of this host ended
    std::uint64_t less_withheld = 0;     // ACKs that a module would have lowered or left out further than may be
    std::uint64_t kept_in_order = 0;     // ACKs that waited for those by another link
    std::uint64_t own_way_told = 0;      // old ACKs by a flow's own link, for firewalls on the way of its data
    std::uint64_t own_syns = 0;          // SYNs of this host sent once more at link-up
    std::uint64_t own_kicks = 0;         // connections whose retransmission timer was taken back at link-up
    std::uint64_t let_go = 0;            // withheld ACK numbers sent ahead of the ACK that first showed a hole
  };
  const Stats& stats() const { return stats_; }
  flow::Table& table() { return table_; }
  // Of a flow with ACKs by two links; null: of no such one.
  Elsewhere* elsewhere(std::uint64_t flow);
  const LinkStates& link_states() const { return links_; }

  // What it knows apart from flows and modules, so that a recording can go on with it (src/trace/chain_input.h).
  struct Memory
  {
    LinkStates links {};
    std::array<std::optional<RadioState>, link_count> radio_told {};
    std::array<LinkRate::Memory, link_count> rates {};
    std::uint64_t cell_bytes = 0;
  };
  Memory memory() const;
  // Before the first segment.
  void recall(const Memory& memory);
  const Options& options() const { return options_; }
  // Of a flow on which the module has begun.
  const std::byte* state(const flow::Flow& flow, std::size_t i) const { return table_.state(flow) + slots_[i].offset; }

private:
  struct Slot
  {
    Module* module = nullptr;
    bool enabled = false;
    std::size_t offset = 0;
    ModuleStats stats {};
  };
  struct Alarm
  {
    Tick at {};
    std::uint64_t flow = 0;
    std::uint8_t slot = 0;
  };
  struct Delayed
  {
    Tick at {};
    std::uint64_t order = 0; // of asking, among those of the same time
    std::uint64_t flow = 0;
    std::uint8_t slot = 0;
    InjectedSegment segment {};
    std::string_view why {};
  };

  // An ACK that waits for others, in the order of leaving.
  struct Waiting
  {
    Tick at {};
    std::uint64_t order = 0;
    Injection injection {};
  };

  // The local TCP's ACK before the one at hand.
  struct LastAck
  {
    Seq ack {};
    std::uint16_t window = 0;
    Timestamps timestamps {};
    bool holes = false; // it showed some
  };

  struct Unfetched
  {
    std::uint64_t flow = 0;
    std::uint8_t slot = 0;
    FetchResult result {};
  };

  static Options with_state(Options options, const std::vector<Module*>& modules);
  static std::vector<Slot> slots_of(std::vector<Module*> modules);
  // Enabled, neither taken out of the flow nor resting on it.
  bool acts(std::size_t i, const flow::Flow& flow) const
  {
    return slots_[i].enabled && ((flow.excluded | flow.resting) >> i & 1) == 0;
  }
  std::byte* state(flow::Flow& flow, std::size_t i) { return table_.state(flow) + slots_[i].offset; }
  bool begin(std::size_t i, flow::Flow& flow);
  void ask_rest(flow::Flow& flow, Tick now);
  bool worth(const flow::Flow& flow, std::uint32_t begun) const;
  std::uint32_t uploaders(const flow::Flow& flow) const;
  bool begins(std::size_t i, std::uint32_t uploading, const flow::Flow& flow) const;
  bool too_slow(Tick begin, flow::Flow& flow) const;
  bool decided(const FlowView& flow) const;
  Plan ask(std::size_t i, const Event& event, flow::Flow& flow, bool timed = true);
  void carry_out(std::size_t i, const Plan& plan, const Event& event, flow::Flow& flow);
  flow::Flow* flow_of(const Segment& segment, bool queued, Tick now, std::string_view& why);
  flow::Flow* new_flow(const Segment& segment, bool queued, Tick now, std::string_view& why);
  flow::Acceptability take_note(const Segment& segment, bool queued, flow::Flow& flow, Tick now);
  void learn_sender(bool was_user_space, flow::Flow& flow, Tick now);
  void decide(const Segment& segment, bool queued, const LastAck& before, flow::Flow& flow, Outcome& outcome, Tick now);
  static LastAck last_ack(const FlowView& flow);
  void let_go(const LastAck& before, Link by, flow::Flow& flow, Tick now);
  Elsewhere& begin_elsewhere(const FlowView& flow);
  Tick leaves_at(Seq ack, std::uint32_t own, const flow::Flow& flow, Tick now);
  void keep_order(const Segment& ack, const LastAck& before, Outcome& outcome, flow::Flow& flow, Tick now);
  void note_order(Seq ack, std::uint16_t window, Link by, Tick at, flow::Flow& flow, Tick now);
  void tell_own_way(TsClock echo, flow::Flow& flow, Tick now);
  void end_wait(flow::Flow& flow);
  void wait(Injection injection, Tick at);
  void send_waiting(Tick now);
  void limit_withheld(const Segment& ack, const LastAck& before, Outcome& outcome, const FlowView& flow);
  static void let_go_slowly(const Segment& ack, const LastAck& before, std::uint32_t most, Outcome& outcome,
                            const FlowView& flow);
  static Known known(const FlowView& flow);
  static void restore(const Known& known, FlowView& flow);
  void flush_withheld(std::size_t i, flow::Flow& flow, Tick now);
  void send_delayed(Tick now);
  void send(std::size_t i, flow::Flow& flow, InjectedSegment segment, std::string_view why, Tick now);
  void send(flow::Flow& flow, InjectedSegment segment, bool reserved, std::string_view why, Tick now,
            std::uint32_t own = 0, std::uint8_t slot = no_slot);
  void reserve(std::size_t i, const TsReservation& wanted, flow::Flow& flow);
  void keep_reservation(const Segment& segment, Outcome& outcome, flow::Flow& flow, bool by_owner);
  void spoil_reservation(const Segment& segment, bool queued, Seq una, Seq next, flow::Flow& flow);
  void begin_fetch(std::size_t i, const Fetch& fetch, std::string_view why, flow::Flow& flow);
  void ring(std::size_t i, flow::Flow& flow, Tick now);
  void tell_of_loss(flow::Flow& flow, Tick now);
  // `speaks`: all that the module wants is carried out, not only when it wants to be asked again.
  void tell(std::size_t i, EventKind kind, flow::Flow& flow, Tick now, const FetchResult* result = nullptr,
            bool speaks = true);
  void exclude(std::size_t i, flow::Flow& flow);
  void switch_off(std::size_t i, flow::Flow& flow, Tick now);
  void forget(flow::Flow& flow, Tick now);
  bool has_living_sibling(const flow::Flow& flow, Tick now);
  void note_token(std::uint32_t token, const flow::Flow& flow);
  flow::Flow* overdue(Tick now);
  std::uint64_t budget_left() const;
  void charge(std::uint8_t slot, std::uint64_t cell_bytes);
  void charge_subflow(const FlowView& flow, std::uint64_t payload_before);
  static void count(ModuleStats& stats, std::string_view why);

  Options options_;
  std::vector<Slot> slots_;
  flow::Table table_;
  Output output_ {};
  LinkStates links_ {};
  std::array<std::optional<RadioState>, link_count> radio_told_ {};
  const DamageLog* damage_ = nullptr;
  std::vector<Alarm> alarms_;    // heap, earliest on top
  std::vector<Delayed> delayed_; // likewise
  std::uint64_t delayed_order_ = 0;
  std::unordered_map<std::uint64_t, Elsewhere> elsewhere_; // few flows have one, so it is no part of each
  std::vector<Waiting> waiting_;                           // like alarms_
  std::uint64_t waiting_order_ = 0;
  std::vector<Unfetched> unfetched_; // there was nobody to do it; told by the next advance()
  std::array<LinkRate, link_count> rates_ {};
  flow::KnownSenders senders_ {};
  std::vector<Plan> plans_;              // of the segment at hand, one for each slot
  std::uint8_t cell_subflows_ = no_slot; // the module that has requested something of the cellular MPTCP endpoint
  std::uint64_t fetching_bytes_ = 0;     // set aside of the cellular budget for fetches under way
  SentSyns syns_ {};
  std::set<std::pair<std::uint32_t, std::uint64_t>> subflows_ {}; // by MPTCP token: the flows that have one
  Stats stats_ {};
  std::uint32_t epoch_ = 0;
};

} // namespace tandem::chain
