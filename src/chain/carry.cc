// What a plan asks for beside its segment: injected segments, requests, fetches, alarms, now and at their times.
#include "src/chain/chain.h"
#include "src/chain/guard_fetch.h"
#include "src/chain/holds.h"

#include <algorithm>
#include <utility>

namespace tandem::chain
{

namespace
{

constexpr std::size_t max_delayed = 4096;
constexpr Duration shortest_wake = std::chrono::microseconds { 100 };

bool later_alarm(const auto& a, const auto& b)
{
  return a.at > b.at;
}

} // namespace

// Whatever happens to module `i`: an ACK that it left out is followed by one that acknowledges at least as much, at
// once and by the flow's own link, as far as no other module withholds it.
void Chain::flush_withheld(std::size_t i, flow::Flow& flow, Tick now)
{
  const FlowView& view = flow.view;
  // Nobody speaks in its name now: links() has this done once its address is back.
  if (view.bypass == Bypass::not_home) return;
  flow.holds[i] = {};
  if (!view.sent_any || view.bypass != Bypass::none) return;
  InjectedSegment ack { .by = view.link, .seq = view.snd_nxt, .ack = view.rcv_nxt, .window = view.last_window };
  if (view.timestamps_ok) ack.timestamps = Timestamps { view.last_ts_value, view.ts_recent };
  keep_holds(i, ack, flow);
  if (ack.ack.after(view.sent_ack) || ack.window > view.sent_window)
    send(i, flow, ack, "chain: ACK that a module withheld", now);
}

// Everything of a plan but verdict and edit.
void Chain::carry_out(std::size_t i, const Plan& plan, const Event& event, flow::Flow& flow)
{
  // What is given back no longer binds the segments that acknowledge it.
  if (plan.reserve) reserve(i, *plan.reserve, flow);
  if (plan.cell_path) output_.paths.push_back({ flow.view.key.local, flow.view.key.remote, *plan.cell_path });
  if (plan.frames_kept) output_.kept.push_back({ flow.view.link, *plan.frames_kept });
  for (const InjectedSegment& injected : plan.inject)
  {
    if (injected.at <= event.now)
      send(i, flow, injected, plan.why, event.now);
    else if (delayed_.size() < max_delayed)
    {
      delayed_.push_back(
          { injected.at, delayed_order_++, flow.view.id, static_cast<std::uint8_t>(i), injected, plan.why });
      std::push_heap(delayed_.begin(), delayed_.end(), leaves_later<Delayed, Delayed>);
    }
    else
      ++stats_.injected_refused;
  }
  for (const LinkRequest& request : plan.request)
  {
    if (request.link == Link::cell && request.kind == RequestKind::mptcp_backup)
      cell_subflows_ = static_cast<std::uint8_t>(i);
    output_.requests.push_back({ request, static_cast<std::uint8_t>(i), plan.why });
  }
  // Of the injected segments it is not known yet.
  if (plan.cell_path && plan.cell_path->added_delay) begin_elsewhere(flow.view).added = *plan.cell_path->added_delay;
  if (plan.pace) output_.paces.push_back({ flow.view.key, *plan.pace, static_cast<std::uint8_t>(i) });
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
  unfetched_.push_back({ request.flow,
                         request.slot,
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

// Spent by a module, or by the chain itself.
void Chain::charge(std::uint8_t slot, std::uint64_t cell_bytes)
{
  if (slot != no_slot) slots_[slot].stats.cell_bytes += cell_bytes;
  spent(cell_bytes);
}

// What a subflow carried since it had carried `payload_before`, for the module by whose request it is used, or stands
// by, on the cellular link. Its packets are seen as copies, and not all of them: the payload is counted by sequence
// numbers, what is around it reckoned. A packet has 20 (IPv4) or 40 bytes of IP, 20 of TCP, 12 of timestamps and 20 of
// a DSS option; every second one is answered by an ACK of as much.
void Chain::charge_subflow(const FlowView& flow, std::uint64_t payload_before)
{
  const std::uint64_t payload = flow.bytes_delivered + flow.bytes_sent - payload_before;
  if (payload == 0) return;
  const std::uint64_t around = (flow.key.local.v6 ? 40u : 20u) + 52u;
  const std::uint64_t each = std::max<std::uint64_t>(flow.mss, 1);
  charge(cell_subflows_, payload + (payload * around * 3 / 2 + each - 1) / each);
}

void Chain::fetched(std::uint64_t id, std::uint8_t slot, const FetchResult& result, std::uint64_t cell_bytes, Tick now)
{
  fetching_bytes_ -= std::min(fetching_bytes_, fetch_cost(result.from, result.to));
  charge(slot, cell_bytes);
  if (result.ok) ++stats_.fetched;
  flow::Flow* flow = table_.by_id(id);
  if (flow != nullptr && slots_[slot].enabled) tell(slot, EventKind::fetched, *flow, now, &result);
}

Known Chain::known(const FlowView& flow)
{
  return { .ack = flow.sent_ack,
           .ts_value = flow.sent_ts_value,
           .window = flow.sent_window,
           .told = flow.told_window,
           .any = flow.sent_any };
}

void Chain::restore(const Known& known, FlowView& flow)
{
  flow.sent_ack = known.ack;
  flow.sent_ts_value = known.ts_value;
  flow.sent_window = known.window;
  flow.told_window = known.told;
  flow.sent_any = known.any;
}

// The server is taken to know what is handed to the caller; sent() takes it back when it could not be sent.
void Chain::send(std::size_t i, flow::Flow& flow, InjectedSegment segment, std::string_view why, Tick now)
{
  keep_holds(i, segment, flow);
  send(flow, segment, segment.by != flow.view.link && i == flow.ts_owner, why, now, 0, static_cast<std::uint8_t>(i));
}

// `reserved`: its TSval may be one that is reserved. `own`: as in leaves_at(). `slot`: of the module that asked for it.
void Chain::send(flow::Flow& flow, InjectedSegment segment, bool reserved, std::string_view why, Tick now,
                 std::uint32_t own, std::uint8_t slot)
{
  FlowView& view = flow.view;
  // Data of this host that nobody saw leave, but the peer acknowledge: an older number lies before its window.
  if (segment.kind == InjectedKind::ack && flow.tracker.una_known() && view.snd_una.after(view.snd_nxt))
    segment.seq = segment.seq + static_cast<std::uint32_t>(view.snd_una - view.snd_nxt);
  if (segment.kind == InjectedKind::ack) segment.flags = injected_flags(segment.flags, view);
  if (segment.kind == InjectedKind::ack && segment.timestamps && !reserved)
  {
    const TsClock free = view.ts_reserved.free(segment.timestamps->value);
    if (free != segment.timestamps->value) ++stats_.ts_lowered;
    segment.timestamps->value = free;
  }
  Injection injection { view.id, view.key, segment, why, known(view), slot, flow.ip_class };
  const bool is_ack = segment.kind == InjectedKind::ack;
  const Tick at = is_ack && segment.by == view.link ? leaves_at(segment.ack, own, flow, now) : now;
  if (at > now)
    wait(std::move(injection), at);
  else
  {
    if (is_ack && segment.by == view.link) end_wait(flow);
    output_.segments.push_back(std::move(injection));
  }
  if (!is_ack) return;
  note_order(segment.ack, segment.window, segment.by, at, flow, now);
  Segment as_sent {};
  as_sent.flags = segment.flags;
  as_sent.timestamps = segment.timestamps;
  const std::uint16_t told = segment.window_waits ? view.last_window : segment.window;
  flow.tracker.left(as_sent, segment.ack, { segment.window, told },
                    segment.timestamps ? segment.timestamps->value : TsClock {}, view, now);
}

void Chain::sent(const Injection& injection, std::size_t bytes)
{
  const InjectedSegment& segment = injection.segment;
  if (bytes > 0)
  {
    ++stats_.injected;
    if (segment.by == Link::cell) charge(injection.slot, bytes);
    if (segment.kind == InjectedKind::fill) ++stats_.fills;
    return;
  }
  ++stats_.injected_failed;
  flow::Flow* flow = table_.by_id(injection.flow);
  if (flow == nullptr || segment.kind != InjectedKind::ack) return;
  Elsewhere* const other = segment.by == flow->view.link ? elsewhere(injection.flow) : nullptr;
  if (other != nullptr) other->added = {}; // no ACK waits for a copy that cannot be sent
  // Unless something left since that acknowledged more.
  FlowView& view = flow->view;
  Known said { .ack = segment.ack,
               .ts_value = injection.before.ts_value,
               .window = segment.window,
               .told = view.told_window,
               .any = true };
  if (injection.before.any) said.ack = later(said.ack, injection.before.ack);
  if (segment.timestamps && (!injection.before.any || segment.timestamps->value.after(said.ts_value)))
    said.ts_value = segment.timestamps->value;
  if (known(view) != said) return;
  restore(injection.before, view);
}

void Chain::send_delayed(Tick now)
{
  while (!delayed_.empty() && delayed_.front().at <= now)
  {
    const Delayed due = delayed_.front();
    std::pop_heap(delayed_.begin(), delayed_.end(), leaves_later<Delayed, Delayed>);
    delayed_.pop_back();
    flow::Flow* flow = table_.by_id(due.flow);
    if (flow == nullptr || !acts(due.slot, *flow)) continue;
    // Allowed when it was asked for is not allowed now: the flow, its address, its links and the budget went on.
    if (flow->view.bypass != Bypass::none || check(due.segment, links_, flow->view, budget_left()) != Violation::none)
      ++stats_.injected_outdated;
    else
      send(due.slot, *flow, due.segment, due.why, now);
  }
}

// An alarm that is due.
void Chain::ring(std::size_t i, flow::Flow& flow, Tick now)
{
  flow.wake[i] = Tick::max();
  if (slots_[i].enabled) tell(i, EventKind::alarm, flow, now);
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
    // Nobody is told of a flow while its address is away. links() does once it is back.
    if (flow->view.bypass == Bypass::not_home) continue;
    ring(alarm.slot, *flow, now);
  }
  // A module may ask again at once; that is for the next time.
  for (const Unfetched& one : std::exchange(unfetched_, {}))
    if (flow::Flow* flow = table_.by_id(one.flow); flow != nullptr && slots_[one.slot].enabled)
      tell(one.slot, EventKind::fetched, *flow, now, &one.result);
  send_delayed(now);
  send_waiting(now);
  for (int forgotten = 0; forgotten < 64; ++forgotten)
  {
    flow::Flow* old = overdue(now);
    if (old == nullptr) break;
    forget(*old, now);
  }
  // Idle flows are looked for once a second at most.
  Tick next = std::max(now + std::chrono::seconds { 1 }, table_.next_expiry());
  if (!alarms_.empty()) next = std::min(next, alarms_.front().at);
  if (!delayed_.empty()) next = std::min(next, delayed_.front().at);
  if (!waiting_.empty()) next = std::min(next, waiting_.front().at);
  if (!unfetched_.empty()) next = std::min(next, now + shortest_wake);
  return next;
}

} // namespace tandem::chain
