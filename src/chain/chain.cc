#include "src/chain/chain.h"

#include "src/chain/guard_fetch.h"
#include "src/chain/holds.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <utility>

namespace tandem::chain
{

namespace
{

constexpr std::size_t max_delayed = 4096;
constexpr unsigned slow_calls_allowed = 2; // of a flow
constexpr int swift_calls_forgive = 500;   // between two of them
constexpr Duration shortest_wake = std::chrono::microseconds { 100 };
constexpr Duration pause = std::chrono::seconds { 1 }; // between what is one transfer and the next

// The conflict rules of docs/decisions/0002: the more cautious wish wins; routes go to the first module that has one.
void merge(Edit& into, const Edit& from)
{
  if (from.ack) into.ack = into.ack ? earlier(*into.ack, *from.ack) : *from.ack;
  if (from.window) into.window = into.window ? std::min(*into.window, *from.window) : *from.window;
  if (from.ts_echo) into.ts_echo = into.ts_echo && into.ts_echo->before(*from.ts_echo) ? *into.ts_echo : *from.ts_echo;
  if (from.ts_value)
    into.ts_value = into.ts_value && into.ts_value->before(*from.ts_value) ? *into.ts_value : *from.ts_value;
  if (from.ecn && (!into.ecn || *from.ecn == Ecn::ce)) into.ecn = from.ecn;
  if (from.route && !into.route) into.route = from.route;
}

// Whether an edit is the wish that this very segment leaves.
bool insists(const Edit& edit)
{
  return edit.window || edit.ts_echo || edit.ts_value || edit.ecn;
}

// Whether the handshake is over: this host goes on, or its own SYN was answered. That another host goes on after it was
// answered is seen by what this one says next.
bool handshake_over(const Segment& segment, const flow::Flow& flow)
{
  if (segment.direction == Direction::egress && !segment.has(tcp_flag::syn)) return true;
  return flow::Table::stage(flow) == flow::Stage::opening && flow.tracker.established();
}

// Whether the flow is over for this host. An arriving RST that lies before what is already acknowledged is one that TCP
// ignores (RFC 5961 3.2): forged, late, or drawn by a probe from a server that does not know the translated address.
bool ends(const Segment& segment, const FlowView& flow)
{
  if (segment.direction == Direction::egress) return segment.has(tcp_flag::rst | tcp_flag::fin);
  if (!segment.has(tcp_flag::rst)) return false;
  return flow.hands_off == HandsOff::mid_flow || segment.seq.at_or_after(flow.highest_ack);
}

bool later_alarm(const auto& a, const auto& b)
{
  return a.at > b.at;
}

bool later_craft(const auto& a, const auto& b)
{
  return a.at != b.at ? a.at > b.at : a.order > b.order;
}

// A reservation is given back whatever else of the plan is not allowed.
std::optional<TsReservation> gives_back(const Plan& plan)
{
  return plan.reserve && plan.reserve->what == TsReservation::What::none ? plan.reserve : std::nullopt;
}

// A change that a decision may hang on: estimates of half a second are noisy.
bool tells_more(const std::optional<RadioState>& told, const std::optional<RadioState>& now)
{
  if (told.has_value() != now.has_value()) return true;
  if (!now) return false;
  constexpr double some = 0.05;                           // of the packet time
  constexpr float some_delivery = 0.02F, some_signal = 2; // dB
  const auto moved = [](const auto& a, const auto& b, auto by)
  { return a.has_value() != b.has_value() || (a && std::abs(*a - *b) > by); };
  if (told->packet_time.has_value() != now->packet_time.has_value()) return true;
  if (now->packet_time
      && std::abs(seconds(*now->packet_time - *told->packet_time)) > some * seconds(*told->packet_time))
    return true;
  return moved(told->delivery, now->delivery, some_delivery) || moved(told->signal, now->signal, some_signal);
}

// A module's state begins where any type may.
std::size_t aligned(std::size_t size)
{
  return (size + alignof(std::max_align_t) - 1) & ~(alignof(std::max_align_t) - 1);
}

} // namespace

Chain::Options Chain::with_state(Options options, const std::vector<Module*>& modules)
{
  options.table.state_bytes = 0;
  for (const Module* module : modules)
    options.table.state_bytes += aligned(module->flow_state_size());
  return options;
}

std::vector<Chain::Slot> Chain::slots_of(std::vector<Module*> modules)
{
  if (modules.size() > flow::max_modules)
    throw std::length_error { "more than " + std::to_string(flow::max_modules) + " modules are loaded" };
  std::stable_sort(modules.begin(), modules.end(),
                   [](const Module* a, const Module* b)
                   { return a->priority() != b->priority() ? a->priority() < b->priority() : a->name() < b->name(); });
  std::vector<Slot> slots(modules.size());
  std::size_t offset = 0;
  for (std::size_t i = 0; i < modules.size(); ++i)
  {
    slots[i].module = modules[i];
    slots[i].offset = offset;
    offset += aligned(modules[i]->flow_state_size());
  }
  return slots;
}

Chain::Chain(Options options, std::vector<Module*> modules)
    : options_ { with_state(std::move(options), modules) }, slots_ { slots_of(modules) }, table_ { options_.table }
{
  alarms_.reserve(1024);
  delayed_.reserve(256);
}

Chain::~Chain()
{
  table_.each(
      [this](flow::Flow& flow)
      {
        for (std::size_t i = 0; i < slots_.size(); ++i)
          if ((flow.begun >> i & 1) != 0) slots_[i].module->flow_end(state(flow, i));
      });
}

void Chain::count(ModuleStats& stats, std::string_view why)
{
  if (why.empty()) return;
  for (ReasonCount& entry : stats.reasons)
  {
    if (entry.why.empty()) entry.why = why;
    if (entry.why == why)
    {
      ++entry.count;
      return;
    }
  }
}

std::uint64_t Chain::budget_left() const
{
  const std::uint64_t taken = stats_.cell_bytes + fetching_bytes_;
  return options_.cell_budget > taken ? options_.cell_budget - taken : 0;
}

Interest Chain::interest() const
{
  Interest all {};
  for (const Slot& slot : slots_)
    if (slot.enabled)
    {
      const Interest one = slot.module->interest();
      all.decide |= one.decide;
      all.observe |= one.observe;
      all.radio = all.radio || one.radio;
      all.content = all.content || one.content;
      all.every_link = all.every_link || one.every_link;
    }
  return all;
}

void Chain::exclude(std::size_t i, flow::Flow& flow)
{
  ++slots_[i].stats.excluded;
  flow.excluded = static_cast<std::uint8_t>(flow.excluded | 1u << i);
  flow.wake[i] = Tick::max();
  reserve(i, {}, flow);
  flow.holds[i] = {};
}

// Whether the flow is one that modules are asked about.
bool Chain::worth(const flow::Flow& flow) const
{
  return flow.begun != 0 || flow.view.bytes_delivered - flow.paused_at >= options_.worth;
}

// Gives a module its state on the flow; false when it cannot begin.
bool Chain::begin(std::size_t i, flow::Flow& flow)
{
  try
  {
    slots_[i].module->flow_begin(table_.make_state(flow) + slots_[i].offset, flow.view);
  }
  catch (...)
  {
    ++slots_[i].stats.faults;
    exclude(i, flow);
    return false;
  }
  flow.begun = static_cast<std::uint8_t>(flow.begun | 1u << i);
  ++slots_[i].stats.flows;
  return true;
}

// Whatever happens to module `i`: an ACK that it left out is followed by one that says at least as much, at once and by
// the flow's own link, as far as no other module withholds it.
void Chain::flush_withheld(std::size_t i, flow::Flow& flow, Tick now)
{
  const FlowView& view = flow.view;
  flow.holds[i] = {};
  if (!view.sent_any || view.hands_off != HandsOff::none) return;
  Craft ack { .by = view.link, .seq = view.next_seq, .ack = view.highest_ack, .window = view.last_window };
  if (view.timestamps_ok) ack.timestamps = Timestamps { view.last_ts_value, view.last_ts_echo };
  keep_holds(i, ack, flow);
  if (ack.ack.after(view.sent_ack) || ack.window > view.sent_window)
    send(i, flow, ack, "chain: ACK that a module withheld", now);
}

// Asks one module, keeps its faults away from the packet. The plan is already checked by the guard.
Plan Chain::ask(std::size_t i, const Event& event, flow::Flow& flow)
{
  Slot& slot = slots_[i];
  Plan plan {};
  const Tick begin = options_.stopwatch ? options_.stopwatch() : Tick {};
  links_[static_cast<std::size_t>(Link::cell)].bytes_left = budget_left();
  try
  {
    plan = slot.module->decide(event, flow.view, state(flow, i));
  }
  catch (...)
  {
    ++slot.stats.faults;
    exclude(i, flow);
    if (!event.queued) flush_withheld(i, flow, event.now);
    return {};
  }
  // By the wall clock, which is cheap to read, a decision also seems long when the thread lost its core in the middle.
  // That does not happen to one flow again and again, but in a long life it happens.
  flow.swift_calls = static_cast<std::uint16_t>(std::min(flow.swift_calls + 1, swift_calls_forgive));
  if (options_.stopwatch && options_.stopwatch() - begin > options_.call_limit)
  {
    if (flow.swift_calls >= swift_calls_forgive) flow.slow_calls = 0;
    flow.swift_calls = 0;
    if (++flow.slow_calls > slow_calls_allowed)
    {
      ++slot.stats.faults;
      exclude(i, flow);
      if (!event.queued) flush_withheld(i, flow, event.now);
      return {};
    }
  }
  if (const Violation violation = check(plan, event, flow.view, budget_left()); violation != Violation::none)
  {
    ++slot.stats.violations[static_cast<std::size_t>(violation)];
    if (is_conflict(violation))
      ++slot.stats.conflicts;
    else if (!is_refusal(violation))
      exclude(i, flow);
    // What the module meant to send may be the answer to an ACK that it dropped earlier. A queued segment needs no
    // such care: it passes.
    if (!event.queued) flush_withheld(i, flow, event.now);
    // A refused module keeps its timer: it may wake up and find another way.
    const bool goes_on = is_refusal(violation) || is_conflict(violation);
    return goes_on ? Plan { .reserve = gives_back(plan), .wake = plan.wake } : Plan {};
  }
  count(slot.stats, plan.why);
  return plan;
}

// Everything of a plan but verdict and edit.
void Chain::carry_out(std::size_t i, const Plan& plan, const Event& event, flow::Flow& flow)
{
  // What is given back no longer binds the segments that say so.
  if (plan.reserve) reserve(i, *plan.reserve, flow);
  for (const Craft& craft : plan.craft)
  {
    if (craft.at <= event.now)
      send(i, flow, craft, plan.why, event.now);
    else if (delayed_.size() < max_delayed)
    {
      delayed_.push_back({ craft.at, delayed_order_++, flow.view.id, static_cast<std::uint8_t>(i), craft, plan.why });
      std::push_heap(delayed_.begin(), delayed_.end(), later_craft<Delayed, Delayed>);
    }
    else
      ++stats_.crafts_refused;
  }
  for (const Wish& wish : plan.wish)
    output_.requests.push_back({ wish, static_cast<std::uint8_t>(i), plan.why });
  for (const Fetch& fetch : plan.fetch)
    begin_fetch(i, fetch, plan.why, flow);
  if (plan.wake)
  {
    const Tick at = std::max(*plan.wake, event.now + shortest_wake);
    // An entry that fires too early is put off when it fires; only an earlier wake needs an entry of its own.
    const bool covered = flow.scheduled[i] <= at;
    flow.wake[i] = at;
    if (!covered)
    {
      flow.scheduled[i] = at;
      alarms_.push_back({ at, flow.view.id, static_cast<std::uint8_t>(i) });
      std::push_heap(alarms_.begin(), alarms_.end(), later_alarm<Alarm, Alarm>);
    }
  }
}

void Chain::begin_fetch(std::size_t i, const Fetch& fetch, std::string_view why, flow::Flow& flow)
{
  output_.fetches.push_back({ flow.view.id, flow.view.key, fetch, static_cast<std::uint8_t>(i), why });
  ++stats_.fetches;
  fetching_bytes_ += fetch_cost(fetch.from, fetch.to);
}

void Chain::fetch_refused(const FetchRequest& request)
{
  const Fetch& fetch = request.fetch;
  --stats_.fetches;
  fetching_bytes_ -= std::min(fetching_bytes_, fetch_cost(fetch.from, fetch.to));
  unfetched_.push_back({ request.flow, request.slot,
                         { .how = fetch.how, .from = fetch.from, .to = fetch.to, .why = "no fetch service" } });
}

void Chain::content(const FlowKey& key, Content content, std::string_view why)
{
  if (flow::Flow* flow = table_.find(key))
  {
    flow->view.content = content;
    flow->view.content_why = why;
  }
}

void Chain::spent(std::uint64_t cell_bytes)
{
  stats_.cell_bytes += cell_bytes;
  links_[static_cast<std::size_t>(Link::cell)].bytes_out = stats_.cell_bytes;
}

void Chain::fetched(std::uint64_t id, std::uint8_t slot, const FetchResult& result, std::uint64_t cell_bytes, Tick now)
{
  fetching_bytes_ -= std::min(fetching_bytes_, fetch_cost(result.from, result.to));
  spent(cell_bytes);
  if (result.ok) ++stats_.fetched;
  flow::Flow* flow = table_.by_id(id);
  if (flow != nullptr && slots_[slot].enabled) tell(slot, EventKind::fetched, *flow, now, &result);
}

Known Chain::known(const FlowView& flow)
{
  return { .ack = flow.sent_ack, .ts_value = flow.sent_ts_value, .window = flow.sent_window, .any = flow.sent_any };
}

// The server is taken to know what is handed to the caller; sent() takes it back when it could not be sent.
void Chain::send(std::size_t i, flow::Flow& flow, Craft segment, std::string_view why, Tick now)
{
  keep_holds(i, segment, flow);
  FlowView& view = flow.view;
  if (segment.kind == CraftKind::ack) segment.flags = injected_flags(segment.flags, view);
  if (segment.kind == CraftKind::ack && segment.timestamps && (segment.by == view.link || i != flow.ts_owner))
  {
    const TsClock free = view.ts_reserved.free(segment.timestamps->value);
    if (free != segment.timestamps->value) ++stats_.ts_lowered;
    segment.timestamps->value = free;
  }
  output_.segments.push_back({ view.id, view.key, segment, why, known(view) });
  if (segment.kind != CraftKind::ack) return;
  Segment as_sent {};
  as_sent.flags = segment.flags;
  as_sent.timestamps = segment.timestamps;
  flow.tracker.left(as_sent, segment.ack, segment.window,
                    segment.timestamps ? segment.timestamps->value : TsClock {}, view, now);
}

void Chain::sent(const Injection& injection, std::size_t bytes)
{
  const Craft& segment = injection.segment;
  if (bytes > 0)
  {
    ++stats_.crafted;
    if (segment.by == Link::cell) spent(bytes);
    if (segment.kind == CraftKind::fill) ++stats_.fills;
    return;
  }
  ++stats_.craft_failed;
  flow::Flow* flow = table_.by_id(injection.flow);
  if (flow == nullptr || segment.kind != CraftKind::ack) return;
  // Unless something left since that said more.
  FlowView& view = flow->view;
  Known said { .ack = segment.ack, .ts_value = injection.before.ts_value, .window = segment.window, .any = true };
  if (injection.before.any) said.ack = later(said.ack, injection.before.ack);
  if (segment.timestamps && (!injection.before.any || segment.timestamps->value.after(said.ts_value)))
    said.ts_value = segment.timestamps->value;
  if (known(view) != said) return;
  view.sent_ack = injection.before.ack;
  view.sent_ts_value = injection.before.ts_value;
  view.sent_window = injection.before.window;
  view.sent_any = injection.before.any;
}

// A value is a module's own only when nothing ever carried it and no data of this host, whose TSvals nobody chooses, is
// waiting to be sent once more.
void Chain::reserve(std::size_t i, const TsReservation& wanted, flow::Flow& flow)
{
  FlowView& view = flow.view;
  const bool own = view.ts_reserved.what != TsReservation::What::none && flow.ts_owner == i;
  if (wanted.what == TsReservation::What::none)
  {
    if (own) view.ts_reserved = {};
    return;
  }
  const bool taken = view.ts_reserved.what != TsReservation::What::none && !own;
  const bool used = view.sent_any && !wanted.from.after(view.sent_ts_value);
  if (taken || used || view.snd_una != view.next_seq)
  {
    ++slots_[i].stats.conflicts;
    return;
  }
  view.ts_reserved = wanted;
  flow.ts_owner = static_cast<std::uint8_t>(i);
}

// Segments of another origin leave with a TSval that is free.
void Chain::keep_reservation(const Segment& segment, Outcome& outcome, flow::Flow& flow, bool by_owner)
{
  if (!segment.timestamps || outcome.verdict != Verdict::pass) return;
  if (by_owner && outcome.edit.route && *outcome.edit.route != flow.view.link) return;
  const TsClock value = outcome.edit.ts_value.value_or(segment.timestamps->value);
  const TsClock free = flow.view.ts_reserved.free(value);
  if (free == value) return;
  outcome.edit.ts_value = free;
  ++stats_.ts_lowered;
}

// Data of this host leaves with the kernel's own TSval: what it may have carried is nobody's any more. Of unseen data
// the server's acknowledgement tells; `una` and `next` are SND.UNA and SND.NXT before the segment.
void Chain::spoil_reservation(const Segment& segment, bool queued, Seq una, Seq next, flow::Flow& flow)
{
  TsReservation& reserved = flow.view.ts_reserved;
  if (reserved.what == TsReservation::What::none || !segment.timestamps) return;
  const bool arrived = segment.direction == Direction::ingress;
  if (arrived && !(segment.has(tcp_flag::ack) && segment.ack.after(una))) return;
  // What is queued can be given another TSval; what left before it unseen could not.
  if (!arrived && !segment.seq.after(next) && (queued || segment.sequence_length() == 0)) return;
  const TsClock carried = arrived ? segment.timestamps->echo : segment.timestamps->value;
  if (reserved.what == TsReservation::What::onward)
  {
    reserved = {};
    ++stats_.ts_spoiled;
  }
  else if (carried.at_or_after(reserved.from))
    reserved.from = carried + 1;
}

// The flow of a segment, a new one where there is none; null when none is to be made, with the reason.
flow::Flow* Chain::flow_of(const Segment& segment, bool queued, Tick now, std::string_view& why)
{
  flow::Flow* flow = table_.find(segment.key);
  if (flow != nullptr && segment.has(tcp_flag::syn)
      && segment.direction == Direction::egress
      && ((flow->closed && !segment.has(tcp_flag::ack))
          || (!flow->tracker.fits(segment, flow->view) && segment.end() != flow->view.next_seq)))
  {
    // The ports are used again. Only a SYN of this host says so: anyone may have sent one that arrives.
    forget(*flow, now);
    flow = nullptr;
  }
  return flow != nullptr ? flow : new_flow(segment, queued, now, why);
}

// A SYN of this host makes a flow, or its answer to one that arrived; so does something that waits for a verdict. SYNs
// that arrive do not, since anyone can send them, nor do stray copies.
flow::Flow* Chain::new_flow(const Segment& segment, bool queued, Tick now, std::string_view& why)
{
  const bool syn = segment.has(tcp_flag::syn);
  if (syn ? segment.direction == Direction::ingress : !queued) return nullptr;
  const flow::Stage stage = !syn                        ? flow::Stage::living
                            : segment.has(tcp_flag::ack) ? flow::Stage::answered
                                                         : flow::Stage::opening;
  if (stage == flow::Stage::answered)
    while (flow::Flow* crowded = table_.crowded_out())
      forget(*crowded, now);
  while (flow::Flow* old = overdue(now))
    forget(*old, now);
  flow::Flow* flow = table_.insert(segment.key, now, stage);
  if (flow == nullptr)
  {
    ++stats_.untracked;
    why = "flow table full";
    return nullptr;
  }
  flow->view.link = segment.link;
  flow->epoch = flow->doubted = epoch_;
  flow->view.hands_off = HandsOff::mid_flow; // until both SYNs are seen
  if (!syn) ++stats_.mid_flow;
  return flow;
}

// What the segment says of its flow, before anybody is asked about it.
flow::Acceptability Chain::take_note(const Segment& segment, bool queued, flow::Flow& flow, Tick now)
{
  if (queued && flow.epoch != epoch_)
  {
    // Packets of this flow passed beside the queue. What was known of its numbers may be more than a sequence space
    // old.
    flow.tracker.resume(flow.view);
    flow.view.resumed = now;
    flow.view.ts_reserved = {};
    flow.epoch = epoch_;
  }
  else if (flow.epoch != epoch_ && flow.doubted != epoch_)
    flow.tracker.lose_sight();
  flow.doubted = epoch_;
  if (now - flow.view.last_seen >= pause) flow.paused_at = flow.view.bytes_delivered;
  table_.touch(flow, now);
  const Seq una = flow.view.snd_una;
  const Seq next = flow.view.next_seq;
  const flow::Acceptability found = flow.tracker.seen(segment, flow.view, now);
  if (found == flow::Acceptability::unacceptable)
  {
    ++stats_.unacceptable;
    return found;
  }
  spoil_reservation(segment, queued, una, next, flow);
  if (handshake_over(segment, flow)) table_.settle(flow);
  if (ends(segment, flow.view)) table_.close(flow);
  return found;
}

// Asks every module about the segment, carries out what it wants beside, and merges what it wants with the segment.
void Chain::decide(const Segment& segment, bool queued, flow::Flow& flow, Outcome& outcome, Tick now)
{
  const bool heard = flow.view.link == Link::wifi && damage_ != nullptr && damage_->listening;
  const Event event { .kind = EventKind::segment,
                      .now = now,
                      .segment = &segment,
                      .queued = queued,
                      .links = &links_,
                      .seed = options_.seed,
                      .damage = heard ? damage_ : nullptr };
  const bool is_ack = segment.is_pure_ack() && segment.direction == Direction::egress;
  // All are asked before anything is carried out: what one injects must not say what another is about to withhold.
  std::array<Plan, flow::max_modules> plans {};
  std::uint32_t asked = 0;
  for (std::size_t i = 0; i < slots_.size(); ++i)
  {
    if (!slots_[i].enabled || (flow.excluded >> i & 1) != 0) continue;
    if (flow.view.link != Link::wifi && !slots_[i].module->interest().every_link) continue;
    if ((flow.begun >> i & 1) == 0 && !begin(i, flow)) continue;
    plans[i] = ask(i, event, flow);
    asked |= 1u << i;
    if (queued && is_ack) note_hold(i, segment, plans[i].edit, false, flow);
  }
  const auto was_asked = [asked](std::size_t i) { return (asked >> i & 1) != 0; };
  for (std::size_t i = 0; i < slots_.size(); ++i)
    if (was_asked(i)) carry_out(i, plans[i], event, flow);
  if (!queued) return;

  Tick quiet = Tick::max();
  bool insisted = false;
  bool routed_by_owner = false;
  for (std::size_t i = 0; i < slots_.size(); ++i)
  {
    if (!was_asked(i)) continue;
    const Plan& plan = plans[i];
    if (plan.verdict == Verdict::drop) outcome.verdict = Verdict::drop;
    insisted = insisted || insists(plan.edit);
    routed_by_owner = routed_by_owner || (plan.edit.route && !outcome.edit.route && i == flow.ts_owner);
    merge(outcome.edit, plan.edit);
    if (outcome.why.empty()) outcome.why = plan.why;
    quiet = std::min(quiet, plan.quiet.value_or(Tick {}));
  }
  flow.quiet_until = quiet;
  // An ACK that is left out says nothing about what is withheld.
  if (is_ack && outcome.verdict == Verdict::pass)
    for (std::size_t i = 0; i < slots_.size(); ++i)
      if (was_asked(i)) note_hold(i, segment, plans[i].edit, true, flow);
  // An edit asks that this very segment leaves: it beats a drop. A lower ACK number alone does not: whoever withholds
  // does not mind that less is said.
  if (insisted) outcome.verdict = Verdict::pass;
  keep_reservation(segment, outcome, flow, routed_by_owner);
}

Outcome Chain::segment(const Segment& segment, bool queued, Tick now)
{
  Outcome outcome {};
  flow::Flow* flow = flow_of(segment, queued, now, outcome.why);
  if (flow == nullptr) return outcome;
  const flow::Acceptability found = take_note(segment, queued, *flow, now);
  outcome.flow = &flow->view;
  if (found != flow::Acceptability::acceptable)
  {
    outcome.why = found == flow::Acceptability::unknown ? "own numbers not known" : "outside the windows";
    return outcome;
  }
  if (flow->view.hands_off != HandsOff::none)
    outcome.why = name(flow->view.hands_off);
  else if (worth(*flow))
    decide(segment, queued, *flow, outcome, now);
  else if (queued)
    flow->quiet_until = {};

  // What no module decides about leaves as it is seen.
  if (!queued && segment.direction == Direction::egress && !segment.has(tcp_flag::syn) && !decided(flow->view))
    flow->tracker.left(segment, segment.ack, segment.window,
                       segment.timestamps ? segment.timestamps->value : TsClock {}, flow->view, now);
  if (queued && segment.direction == Direction::egress && outcome.verdict == Verdict::pass)
  {
    outcome.before = known(flow->view);
    const TsClock value = outcome.edit.ts_value.value_or(segment.timestamps ? segment.timestamps->value : TsClock {});
    flow->tracker.left(segment, outcome.edit.ack.value_or(segment.ack), outcome.edit.window.value_or(segment.window),
                       value, flow->view, now);
    if (outcome.edit.route == Link::cell) spent(segment.bytes.size());
  }
  return outcome;
}

void Chain::unedited(const Segment& segment, const Outcome& outcome, Tick now)
{
  flow::Flow* flow = table_.find(segment.key);
  if (flow == nullptr || segment.direction != Direction::egress || outcome.verdict != Verdict::pass) return;
  FlowView& view = flow->view;
  view.sent_ack = outcome.before.ack;
  view.sent_ts_value = outcome.before.ts_value;
  view.sent_window = outcome.before.window;
  view.sent_any = outcome.before.any;
  const TsClock own = segment.timestamps ? segment.timestamps->value : TsClock {};
  if (outcome.edit.ts_value) flow->tracker.not_left(*outcome.edit.ts_value, now);
  flow->tracker.left(segment, segment.ack, segment.window, own, view, now);
  flow->holds = {}; // the server was told all
  if (segment.timestamps && view.ts_reserved.free(own) != own)
  {
    view.ts_reserved = {};
    ++stats_.ts_spoiled;
  }
  if (outcome.edit.route == Link::cell) stats_.cell_bytes -= segment.bytes.size();
  links_[static_cast<std::size_t>(Link::cell)].bytes_out = stats_.cell_bytes;
}

// Whether egress of the flow is queued for somebody's verdict: then what is queued tells what left, and with which
// TSval.
bool Chain::decided(const FlowView& flow) const
{
  return flow.link == Link::wifi && (interest().decide & traffic::egress) != 0;
}

void Chain::tell(std::size_t i, EventKind kind, flow::Flow& flow, Tick now, const FetchResult* result)
{
  if ((flow.begun >> i & 1) == 0 || (flow.excluded >> i & 1) != 0 || flow.view.hands_off != HandsOff::none) return;
  const Event event { .kind = kind, .now = now, .links = &links_, .seed = options_.seed, .fetched = result };
  const Plan plan = ask(i, event, flow);
  carry_out(i, plan, event, flow);
}

void Chain::send_delayed(Tick now)
{
  while (!delayed_.empty() && delayed_.front().at <= now)
  {
    const Delayed due = delayed_.front();
    std::pop_heap(delayed_.begin(), delayed_.end(), later_craft<Delayed, Delayed>);
    delayed_.pop_back();
    flow::Flow* flow = table_.by_id(due.flow);
    if (flow == nullptr || !slots_[due.slot].enabled || (flow->excluded >> due.slot & 1) != 0) continue;
    // Allowed when it was asked for is not allowed now: the flow, its links and the budget went on.
    if (check(due.craft, links_, flow->view, budget_left()) != Violation::none)
      ++stats_.crafts_outdated;
    else
      send(due.slot, *flow, due.craft, due.why, now);
  }
}

Tick Chain::advance(Tick now)
{
  while (!alarms_.empty() && alarms_.front().at <= now)
  {
    const Alarm alarm = alarms_.front();
    std::pop_heap(alarms_.begin(), alarms_.end(), later_alarm<Alarm, Alarm>);
    alarms_.pop_back();
    flow::Flow* flow = table_.by_id(alarm.flow);
    if (flow == nullptr || flow->scheduled[alarm.slot] != alarm.at) continue;
    flow->scheduled[alarm.slot] = Tick::max();
    const Tick wanted = flow->wake[alarm.slot];
    if (wanted > now)
    {
      if (wanted == Tick::max()) continue;
      flow->scheduled[alarm.slot] = wanted;
      alarms_.push_back({ wanted, alarm.flow, alarm.slot });
      std::push_heap(alarms_.begin(), alarms_.end(), later_alarm<Alarm, Alarm>);
      continue;
    }
    flow->wake[alarm.slot] = Tick::max();
    if (slots_[alarm.slot].enabled) tell(alarm.slot, EventKind::alarm, *flow, now);
  }
  // A module may ask again at once; that is for the next time.
  for (const Unfetched& one : std::exchange(unfetched_, {}))
    if (flow::Flow* flow = table_.by_id(one.flow); flow != nullptr && slots_[one.slot].enabled)
      tell(one.slot, EventKind::fetched, *flow, now, &one.result);
  send_delayed(now);
  for (int forgotten = 0; forgotten < 64; ++forgotten)
  {
    flow::Flow* old = overdue(now);
    if (old == nullptr) break;
    forget(*old, now);
  }
  // Idle flows are looked for once a second.
  Tick next = now + std::chrono::seconds { 1 };
  if (!alarms_.empty()) next = std::min(next, alarms_.front().at);
  if (!delayed_.empty()) next = std::min(next, delayed_.front().at);
  if (!unfetched_.empty()) next = std::min(next, now + shortest_wake);
  return next;
}

bool Chain::needs_queue(Tick now)
{
  // A flow that has not been heard of for this long says so with its next observed packet.
  constexpr Duration recent = std::chrono::milliseconds { 400 };
  // Unless it is its link that is silent: what comes first after a blackout is what the modules wait for.
  constexpr Duration returning = std::chrono::seconds { 2 };
  const auto silent = [&](Link link)
  {
    const LinkState& state = links_[static_cast<std::size_t>(link)];
    return state.present && (!state.up || now - state.changed < returning);
  };
  constexpr Duration handshake = std::chrono::milliseconds { 1500 };
  bool needed = false;
  table_.each(
      [&](flow::Flow& flow)
      {
        needed = needed
                 || (!flow.closed && flow.view.link == Link::wifi && flow.quiet_until <= now
                     && (now - flow.view.last_seen < recent || silent(flow.view.link))
                     && (flow.view.hands_off == HandsOff::none
                         || (flow.view.hands_off == HandsOff::mid_flow && now - flow.view.first_seen < handshake)));
      });
  return needed;
}

void Chain::links(const LinkStates& states, Tick now, const Owner& owner)
{
  links_ = states;
  links_[static_cast<std::size_t>(Link::cell)].bytes_out = stats_.cell_bytes;
  table_.each(
      [&](flow::Flow& flow)
      {
        if (owner)
        {
          // Without its address a flow is over, unless the address comes back; nobody else may speak in its name.
          const bool home = owner(flow.view.key.local) == flow.view.link;
          if (flow.view.hands_off == HandsOff::none && !home) flow.view.hands_off = HandsOff::not_home;
          if (flow.view.hands_off == HandsOff::not_home && home) flow.view.hands_off = HandsOff::none;
        }
        for (std::size_t i = 0; i < slots_.size(); ++i)
          if (slots_[i].enabled) tell(i, EventKind::link, flow, now);
      });
}

void Chain::radio(Link link, const std::optional<RadioState>& state, Tick now)
{
  const auto at = static_cast<std::size_t>(link);
  links_[at].radio = state;
  if (!tells_more(radio_told_[at], state)) return;
  radio_told_[at] = state;
  for (std::size_t i = 0; i < slots_.size(); ++i)
    if (slots_[i].enabled && slots_[i].module->interest().radio)
      table_.each([&](flow::Flow& flow) { tell(i, EventKind::radio, flow, now); });
}

void Chain::enable(std::size_t i, bool on, Tick now)
{
  if (slots_[i].enabled == on) return;
  // While nothing was switched on nothing was queued: what is known of the flows' numbers is old.
  if (on && interest().decide == 0) queue_resumed();
  if (!on)
    table_.each(
        [&](flow::Flow& flow)
        {
          tell(i, EventKind::switched_off, flow, now);
          reserve(i, {}, flow);
          if ((flow.begun >> i & 1) != 0)
          {
            flush_withheld(i, flow, now);
            slots_[i].module->flow_end(state(flow, i));
            flow.begun = static_cast<std::uint8_t>(flow.begun & ~(1u << i));
            --slots_[i].stats.flows;
          }
          flow.wake[i] = Tick::max();
          flow.excluded = static_cast<std::uint8_t>(flow.excluded & ~(1u << i));
        });
  slots_[i].enabled = on;
}

// A subflow that was made a backup is silent while its connection lives: whoever compares links must know it still.
bool Chain::has_living_sibling(const flow::Flow& flow, Tick now)
{
  if (flow.closed || !flow.view.mptcp || flow.view.mptcp_token == 0) return false;
  bool living = false;
  table_.each(
      [&](const flow::Flow& other)
      {
        living = living
                 || (&other != &flow && !other.closed && other.view.mptcp_token == flow.view.mptcp_token
                     && now - other.view.last_seen < options_.table.idle);
      });
  return living;
}

flow::Flow* Chain::overdue(Tick now)
{
  flow::Flow* old = table_.expired(now);
  while (old != nullptr && has_living_sibling(*old, now))
  {
    table_.spare(*old, now);
    old = table_.expired(now);
  }
  return old;
}

void Chain::forget(flow::Flow& flow, Tick now)
{
  for (std::size_t i = 0; i < slots_.size(); ++i)
    if ((flow.begun >> i & 1) != 0)
    {
      // An idle flow may still hold something back: it is released like at a switch-off.
      if (!flow.closed) tell(i, EventKind::switched_off, flow, now);
      slots_[i].module->flow_end(state(flow, i));
      --slots_[i].stats.flows;
    }
  table_.erase(flow);
}

} // namespace tandem::chain
