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

constexpr unsigned slow_calls_allowed = 2;             // of a flow
constexpr int swift_calls_forgive = 500;               // between two of them
constexpr Duration pause = std::chrono::seconds { 1 }; // between what is one transfer and the next
// After so long a TSval that ticks in microseconds (Linux's tcp_usec_ts) has gone nearly half round.
constexpr Duration longest_silence = std::chrono::minutes { 30 };
// How long what one module withholds leaves room for the ACKs that another leaves out, after the last of them.
constexpr Duration room_for = std::chrono::seconds { 1 };

// The conflict rules of docs/decisions/0002: the more cautious request wins; routes go to the first module that has
// one.
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

// Whether an edit is the request that this very segment leaves.
bool insists(const Edit& edit)
{
  return (edit.window && !edit.window_waits) || edit.ts_echo || edit.ts_value || edit.ecn;
}

// Whether the handshake is over: this host goes on, or its own SYN was answered. A host whose SYN this one answered has
// gone on when this one sends its next segment.
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
  return flow.bypass == Bypass::mid_flow || segment.seq.at_or_after(flow.rcv_nxt);
}

// Whether a flow that was taken to be over for an arriving RST is not: the RST was within the window, but not the very
// number that the local TCP waits for (RFC 5961 3.2), which answers it and goes on.
bool outlives_reset(const Segment& segment, const flow::Flow& flow)
{
  return segment.direction == Direction::egress && segment.has(tcp_flag::ack)
         && !segment.has(tcp_flag::syn | tcp_flag::fin | tcp_flag::rst) && !flow.closed_here;
}

// Whether the segment at hand acknowledges by itself what a module held back: one of this host's that waits for its
// verdict passes.
bool tells_server(const Event& event)
{
  return event.queued && event.segment->direction == Direction::egress;
}

// A reservation is given back whatever else of the plan is not allowed.
std::optional<TsReservation> gives_back(const Plan& plan)
{
  return plan.reserve && plan.reserve->what == TsReservation::What::none ? plan.reserve : std::nullopt;
}

// A module's state begins where any type may.
std::size_t aligned(std::size_t size)
{
  return (size + alignof(std::max_align_t) - 1) & ~(alignof(std::max_align_t) - 1);
}

// Behind what the server knows to be here, by a number or a SACK block.
Seq reported(const FlowView& flow)
{
  return later(flow.sent_ack, flow.sent_sacked);
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
  plans_.resize(slots_.size());
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
      all.own_unanswered = all.own_unanswered || one.own_unanswered;
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

// Whether the flow is one that modules are asked about. A loss in the first flight decides how large the sender's
// window is for the rest of the download, and has been answered by the time that so much is delivered.
bool Chain::worth(const flow::Flow& flow, std::uint32_t begun) const
{
  return begun != 0 || flow.view.holes || flow.view.bytes_delivered - flow.paused_at >= options_.worth;
}

// The modules, a bit each, that want to see what this host sends and are asked about the flow for that: an upload.
std::uint32_t Chain::uploaders(const flow::Flow& flow) const
{
  std::uint32_t all = 0;
  if (flow.view.bytes_sent < options_.worth) return all;
  for (std::size_t i = 0; i < slots_.size(); ++i)
    if (slots_[i].enabled && (slots_[i].module->interest().observe & traffic::egress_data) != 0) all |= 1u << i;
  return all;
}

// Whether module `i` is to begin: those of downloads do not because another one looks at an upload.
bool Chain::begins(std::size_t i, std::uint32_t uploading, const flow::Flow& flow) const
{
  return (uploading >> i & 1) != 0 || worth(flow, flow.begun & ~uploading);
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

// Whether what began at `begin` took too long, once too often on this flow. By the wall clock, which is cheap to read,
// a decision also seems long when the thread lost its core in the middle. That does not happen to one flow again and
// again, but in a long life it happens.
bool Chain::too_slow(Tick begin, flow::Flow& flow) const
{
  flow.swift_calls = static_cast<std::uint16_t>(std::min(flow.swift_calls + 1, swift_calls_forgive));
  if (flow.swift_calls >= swift_calls_forgive) flow.slow_calls = 0;
  if (options_.stopwatch() - begin <= options_.call_limit) return false;
  flow.swift_calls = 0;
  return ++flow.slow_calls > slow_calls_allowed;
}

// Asks one module, keeps its faults away from the packet. The plan is already checked by the guard.
Plan Chain::ask(std::size_t i, const Event& event, flow::Flow& flow, bool timed)
{
  Slot& slot = slots_[i];
  Plan plan {};
  timed = timed && options_.stopwatch;
  const Tick begin = timed ? options_.stopwatch() : Tick {};
  links_[static_cast<std::size_t>(Link::cell)].bytes_left = budget_left();
  try
  {
    plan = slot.module->decide(event, flow.view, state(flow, i));
  }
  catch (...)
  {
    ++slot.stats.faults;
    exclude(i, flow);
    if (!tells_server(event)) flush_withheld(i, flow, event.now);
    return {};
  }
  if (timed && too_slow(begin, flow))
  {
    ++slot.stats.faults;
    exclude(i, flow);
    if (!tells_server(event)) flush_withheld(i, flow, event.now);
    return {};
  }
  if (const Violation violation = check(plan, event, flow.view, budget_left()); violation != Violation::none)
  {
    ++slot.stats.violations[static_cast<std::size_t>(violation)];
    if (is_conflict(violation))
      ++slot.stats.conflicts;
    else if (!is_refusal(violation))
      exclude(i, flow);
    // What the module meant to send may be the answer to an ACK that it dropped earlier.
    if (!tells_server(event)) flush_withheld(i, flow, event.now);
    // A refused module keeps its timer: it may wake up and find another way.
    const bool goes_on = is_refusal(violation) || is_conflict(violation);
    return goes_on ? Plan { .reserve = gives_back(plan), .wake = plan.wake } : Plan {};
  }
  count(slot.stats, plan.why);
  return plan;
}

// The flow of a segment, a new one where there is none; null when none is to be made, with the reason.
flow::Flow* Chain::flow_of(const Segment& segment, bool queued, Tick now, std::string_view& why)
{
  flow::Flow* flow = table_.find(segment.key);
  if (flow != nullptr && segment.has(tcp_flag::syn) && segment.direction == Direction::egress
      && ((flow->closed && !segment.has(tcp_flag::ack))
          || (!flow->tracker.fits(segment, flow->view) && segment.end() != flow->view.snd_nxt)))
  {
    // The ports are used again. Only a SYN of this host says so: anyone may have sent one that arrives. Nobody speaks
    // for the old connection any more: the new one would be taken to have said it.
    table_.close(*flow);
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
  const flow::Stage stage = !syn                         ? flow::Stage::living
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
  flow->view.bypass = Bypass::mid_flow; // until both SYNs are seen
  if (!syn) ++stats_.mid_flow;
  return flow;
}

// What the segment tells of its flow, before anybody is asked about it.
flow::Acceptability Chain::take_note(const Segment& segment, bool queued, flow::Flow& flow, Tick now)
{
  // As if packets had passed beside the queue: what was known has no order to what comes now.
  if (now - flow.view.last_seen >= longest_silence) flow.epoch = flow.doubted = epoch_ - 1;
  if (queued && flow.epoch != epoch_)
  {
    // Packets of this flow passed beside the queue. What was known of its numbers may be more than a sequence space
    // old.
    flow.tracker.resume(flow.view);
    flow.view.resumed = now;
    flow.view.ts_reserved = {};
    flow.epoch = epoch_;
    if (Elsewhere* const other = elsewhere(flow.view.id))
    {
      other->any = false;
      other->way = {};
    }
  }
  else if (flow.epoch != epoch_ && flow.doubted != epoch_)
    flow.tracker.lose_sight();
  flow.doubted = epoch_;
  if (segment.direction == Direction::egress) flow.ip_class = segment.ip_class;
  if (now - flow.view.last_seen >= pause) flow.paused_at = flow.view.bytes_delivered;
  table_.touch(flow, now);
  const Seq una = flow.view.snd_una, next = flow.view.snd_nxt;
  const std::uint64_t delivered = flow.view.bytes_delivered, sent = flow.view.bytes_sent;
  const std::uint32_t token = flow.view.mptcp_token;
  const bool established = flow.tracker.established(), user_space = flow.view.sender.user_space;
  const flow::Acceptability found = flow.tracker.seen(segment, flow.view, now);
  if (flow.view.mptcp_token != token) note_token(token, flow);
  if (!established && flow.tracker.established())
    flow.tracker.expect_sender(senders_.expected(flow.view.key, now), flow.view);
  else
    learn_sender(user_space, flow, now);
  if (flow.view.bytes_delivered != delivered)
  {
    const auto link = static_cast<std::size_t>(flow.view.link);
    links_[link].delivery_rate = rates_[link].add(flow.view.bytes_delivered - delivered, now);
  }
  if (cell_subflows_ != no_slot && flow.view.link == Link::cell && flow.view.mptcp)
    charge_subflow(flow.view, delivered + sent);
  if (found == flow::Acceptability::unacceptable)
  {
    ++stats_.unacceptable;
    return found;
  }
  spoil_reservation(segment, queued, una, next, flow);
  if (handshake_over(segment, flow)) table_.settle(flow);
  if (ends(segment, flow.view))
  {
    flow.closed_here = flow.closed_here || segment.direction == Direction::egress;
    table_.close(flow);
  }
  else if (flow.closed && outlives_reset(segment, flow))
    table_.reopen(flow);
  return found;
}

// For the connections to the same server that follow.
void Chain::learn_sender(bool was_user_space, flow::Flow& flow, Tick now)
{
  const bool user_space = flow.view.sender.user_space;
  const int votes = flow.tracker.sender_news();
  if (user_space != was_user_space)
    senders_.learned_sizes(flow.view.key, user_space, now);
  else if (votes != 0 && !user_space) // what such a stack makes of losses is no sign of Linux's kinds
    senders_.learned(flow.view.key, votes, now);
}

// Asks every module about the segment, carries out what it wants beside, and merges what it wants with the segment.
void Chain::decide(const Segment& segment, bool queued, const LastAck& before, flow::Flow& flow, Outcome& outcome,
                   Tick now)
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
  // All are asked before anything is carried out: what one injects must not acknowledge what another is about to
  // withhold.
  std::uint32_t asked = 0;
  bool awaited = false; // some module that decides begins when the flow is worth it
  const std::uint32_t uploading = uploaders(flow);
  // The clock is read for all of them together, until that takes too long; then for each.
  const bool timed_together = options_.stopwatch && flow.slow_calls == 0;
  const Tick began = timed_together ? options_.stopwatch() : Tick {};
  for (std::size_t i = 0; i < slots_.size(); ++i)
  {
    if (!acts(i, flow)) continue;
    if (flow.view.link != Link::wifi && !slots_[i].module->interest().every_link) continue;
    if ((flow.begun >> i & 1) == 0)
    {
      const bool yet = begins(i, uploading, flow);
      awaited = awaited || (!yet && slots_[i].module->interest().decide != 0);
      if (!yet || !begin(i, flow)) continue;
    }
    plans_[i] = ask(i, event, flow, !timed_together);
    asked |= 1u << i;
    if (!queued || !is_ack) continue;
    note_hold(i, segment, plans_[i], false, flow);
    if (plans_[i].verdict == Verdict::drop && held_by_others(i, flow)) flow.room_until = now + room_for;
  }
  if (timed_together && asked != 0) static_cast<void>(too_slow(began, flow));
  const auto was_asked = [asked](std::size_t i) { return (asked >> i & 1) != 0; };
  for (std::size_t i = 0; i < slots_.size(); ++i)
    if (was_asked(i)) carry_out(i, plans_[i], event, flow);
  if (!queued) return;

  Tick quiet = Tick::max();
  bool insisted = false;
  outcome.told_window = segment.window;
  bool routed_by_owner = false;
  for (std::size_t i = 0; i < slots_.size(); ++i)
  {
    if (!was_asked(i)) continue;
    const Plan& plan = plans_[i];
    if (plan.verdict == Verdict::drop) outcome.verdict = Verdict::drop;
    insisted = insisted || (plan.verdict == Verdict::pass && insists(plan.edit));
    if (plan.edit.window && !plan.edit.window_waits)
      outcome.told_window = std::min(outcome.told_window, *plan.edit.window);
    if (plan.edit.route && !outcome.edit.route) outcome.routed_by = static_cast<std::uint8_t>(i);
    routed_by_owner = routed_by_owner || (plan.edit.route && !outcome.edit.route && i == flow.ts_owner);
    merge(outcome.edit, plan.edit);
    if (outcome.why.empty()) outcome.why = plan.why;
    // Whoever only observes needs no queue.
    if (plan.quiet || slots_[i].module->interest().decide != 0) quiet = std::min(quiet, plan.quiet.value_or(Tick {}));
  }
  // Nobody else needs it: without a queue that module would wait for ever.
  if (awaited && quiet == Tick::max()) quiet = {};
  flow.quiet_until = flow.watched ? Tick {} : quiet;
  // An edit asks that this very segment leaves: it beats a drop, but its own module's. A lower ACK number alone does
  // not: whoever withholds does not mind that less is acknowledged. Nor does a window that may wait.
  if (insisted) outcome.verdict = Verdict::pass;
  if (is_ack) limit_withheld(segment, before, outcome, flow.view);
  // An ACK that is left out acknowledges nothing of what is withheld.
  if (is_ack && outcome.verdict == Verdict::pass)
    for (std::size_t i = 0; i < slots_.size(); ++i)
      if (was_asked(i)) note_hold(i, segment, plans_[i], true, flow);
  if (flow.view.holes && !before.holes) let_go(before, outcome.edit.route.value_or(flow.view.link), flow, now);
  keep_reservation(segment, outcome, flow, routed_by_owner);
  if (is_ack && outcome.verdict == Verdict::pass) keep_order(segment, before, outcome, flow, now);
}

Chain::LastAck Chain::last_ack(const FlowView& flow)
{
  return { flow.rcv_nxt, flow.last_window, { flow.last_ts_value, flow.ts_recent }, flow.holes };
}

// The ACK at hand is the first that shows a hole. What is withheld up to the one before it leaves by itself: with SACK
// blocks above it would look like a part of the hole, and together with them it would draw its burst when a queue has
// just overflowed; some senders take an ACK with both for reordering.
void Chain::let_go(const LastAck& before, Link by, flow::Flow& flow, Tick now)
{
  FlowView& view = flow.view;
  if (!view.sent_any || !before.ack.after(reported(view))) return;
  InjectedSegment ack { .by = by, .seq = view.snd_nxt, .ack = before.ack, .window = before.window };
  for (flow::Hold& hold : flow.holds)
  {
    hold.withheld = 0;
    keep_window(hold, before.window, ack);
  }
  if (view.timestamps_ok) ack.timestamps = before.timestamps;
  // By the other link TSvals have an owner, who chooses the next one: the last one again, which no PAWS refuses.
  if (ack.timestamps && by != view.link) ack.timestamps->value = view.sent_ts_value;
  ++stats_.let_go;
  send(flow, ack, by != view.link, "chain: withheld ACK ahead of a hole", now);
}

// Modules know FlowView::may_withhold; together they may still ask for more, or leave too many ACKs out.
void Chain::limit_withheld(const Segment& ack, const LastAck& before, Outcome& outcome, const FlowView& flow)
{
  const std::uint32_t most = may_wait(options_.release, flow, links_[static_cast<std::size_t>(flow.link)]);
  // Who chooses the echo of an ACK and leaves it out waits for what comes beside it, and what SACK blocks have reported
  // before draws no burst. One that is only thinned out leaves when it reaches the recovery point.
  const Seq told = outcome.edit.ts_echo ? reported(flow) : flow.sent_ack;
  const bool dropped = outcome.verdict == Verdict::drop && ack.sack_count == 0 && (ack.ack - most).after(told);
  // Below a block that reports a duplicate (RFC 2883) the number must not fall: it would look like one beyond a hole.
  const Seq least = ack.sack_count > 0 ? ack.ack : ack.ack - flow.may_withhold;
  const bool lowered = outcome.edit.ack && least.after(*outcome.edit.ack);
  if (dropped) outcome.verdict = Verdict::pass;
  if (lowered) outcome.edit.ack = later(*outcome.edit.ack, least);
  let_go_slowly(ack, before, most, outcome, flow);
  if (outcome.edit.ack == ack.ack) outcome.edit.ack.reset();
  if (dropped || (lowered && outcome.verdict == Verdict::pass)) ++stats_.less_withheld;
}

// More is withheld than may wait: a predicted blackout did not come, and its share of the window is no longer allowed.
// It is let go a segment at a time with the ACKs that follow, but where SACK blocks want their whole numbers.
void Chain::let_go_slowly(const Segment& ack, const LastAck& before, std::uint32_t most, Outcome& outcome,
                          const FlowView& flow)
{
  if (outcome.verdict != Verdict::pass || flow.may_withhold == 0 || ack.sack_count > 0 || !flow.sent_any) return;
  if (!(before.ack - most).after(reported(flow)) || !ack.ack.after(before.ack)) return;
  const Seq next = reported(flow) + static_cast<std::uint32_t>(ack.ack - before.ack) + std::uint32_t { flow.mss };
  // The edge of the window that was offered must not move back (RFC 9293 3.8.6).
  const std::uint16_t window = outcome.edit.window.value_or(ack.window);
  const Seq least = flow.sent_ack + flow.scaled(flow.sent_window) - flow.scaled(window);
  if (const Seq lowered = later(next, least); lowered.before(outcome.edit.ack.value_or(ack.ack)))
    outcome.edit.ack = lowered;
}

Outcome Chain::segment(const Segment& segment, bool queued, Tick now)
{
  Outcome outcome {};
  flow::Flow* flow = flow_of(segment, queued, now, outcome.why);
  if (flow == nullptr) return outcome;
  if (segment.has(tcp_flag::syn) && !segment.has(tcp_flag::ack) && segment.direction == Direction::egress)
    syns_.note(segment, now);
  const LastAck before = last_ack(flow->view);
  const flow::Acceptability found = take_note(segment, queued, *flow, now);
  outcome.flow = &flow->view;
  if (found != flow::Acceptability::acceptable)
  {
    outcome.why = found == flow::Acceptability::unknown ? "own numbers not known" : "outside the windows";
    return outcome;
  }
  if (flow->view.bypass != Bypass::none)
    outcome.why = name(flow->view.bypass);
  else if (left_alone(*flow))
  {
    outcome.why = "excluded";
    stats_.excluded += queued ? 1 : 0;
  }
  else if (worth(*flow, flow->begun) || uploaders(*flow) != 0)
  {
    if (options_.rest && !std::exchange(flow->rest_asked, true)) ask_rest(*flow, now);
    FlowView& view = flow->view;
    view.may_withhold =
        may_withhold(options_.release, view, links_[static_cast<std::size_t>(view.link)], now < flow->room_until, now);
    decide(segment, queued, before, *flow, outcome, now);
  }
  else if (queued)
    flow->quiet_until = {};

  if (segment.direction == Direction::ingress && segment.timestamps) tell_own_way(segment.timestamps->echo, *flow, now);

  // What no module decides about leaves as it is seen.
  if (!queued && segment.direction == Direction::egress && !segment.has(tcp_flag::syn) && !decided(flow->view))
    flow->tracker.left(segment, segment.ack, segment.window,
                       segment.timestamps ? segment.timestamps->value : TsClock {}, flow->view, now);
  if (queued && segment.direction == Direction::egress && outcome.verdict == Verdict::pass)
  {
    const Seq ack = outcome.edit.ack.value_or(segment.ack);
    const Link by = outcome.edit.route.value_or(flow->view.link);
    if (by == flow->view.link) end_wait(*flow);
    if (segment.has(tcp_flag::ack)) note_order(ack, outcome.edit.window.value_or(segment.window), by, now, *flow, now);
    outcome.before = known(flow->view);
    const TsClock value = outcome.edit.ts_value.value_or(segment.timestamps ? segment.timestamps->value : TsClock {});
    flow->tracker.left(segment, ack, { outcome.edit.window.value_or(segment.window), outcome.told_window }, value,
                       flow->view, now);
    if (outcome.edit.route == Link::cell) charge(outcome.routed_by, segment.bytes.size());
  }
  return outcome;
}

void Chain::unedited(const Segment& segment, const Outcome& outcome, Tick now)
{
  flow::Flow* flow = table_.find(segment.key);
  if (flow == nullptr || segment.direction != Direction::egress || outcome.verdict != Verdict::pass) return;
  FlowView& view = flow->view;
  restore(outcome.before, view);
  const TsClock own = segment.timestamps ? segment.timestamps->value : TsClock {};
  if (outcome.edit.ts_value) flow->tracker.not_left(*outcome.edit.ts_value, now);
  flow->tracker.left(segment, segment.ack, segment.window, own, view, now);
  flow->holds = {}; // the server was told all
  if (segment.timestamps && view.ts_reserved.free(own) != own)
  {
    view.ts_reserved = {};
    ++stats_.ts_spoiled;
  }
  if (outcome.edit.route == Link::cell)
  {
    stats_.cell_bytes -= segment.bytes.size();
    if (outcome.routed_by != no_slot) slots_[outcome.routed_by].stats.cell_bytes -= segment.bytes.size();
  }
  links_[static_cast<std::size_t>(Link::cell)].bytes_out = stats_.cell_bytes;
}

// Whether egress of the flow is queued for somebody's verdict: then what is queued tells what left, and with which
// TSval.
bool Chain::decided(const FlowView& flow) const
{
  return flow.link == Link::wifi && (interest().decide & traffic::egress) != 0;
}

void Chain::tell(std::size_t i, EventKind kind, flow::Flow& flow, Tick now, const FetchResult* result, bool speaks)
{
  if ((flow.begun >> i & 1) == 0 || (flow.excluded >> i & 1) != 0 || flow.view.bypass != Bypass::none) return;
  const Event event { .kind = kind, .now = now, .links = &links_, .seed = options_.seed, .fetched = result };
  Plan plan = ask(i, event, flow);
  if (!speaks) plan = { .wake = plan.wake };
  carry_out(i, plan, event, flow);
}

} // namespace tandem::chain
