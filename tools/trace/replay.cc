#include "tools/trace/replay.h"

#include "src/wire/text.h"
#include "tools/trace/event.h"

#include <algorithm>
#include <deque>
#include <set>
#include <utility>

namespace tandem::trace_tool
{
namespace
{

using Against = ReplayOptions::Against;

// What was done, as an edit of the packet as it came.
Decision recorded_decision(const Event& event, std::string_view why)
{
  Decision decision { .why = why };
  if (event.disposition() == trace::Disposition::dropped) decision.what = Decision::What::dropped;
  if (event.disposition() == trace::Disposition::injected)
  {
    decision.what = Decision::What::injected;
    decision.bytes = event.packet.bytes;
    decision.by = event.packet.link;
  }
  if (!event.after) return decision;
  const wire::Parsed before = parse(event.packet), after = parse(*event.after);
  if (before.ok() && after.ok())
  {
    const Segment &from = before.segment, &to = after.segment;
    if (from.ack != to.ack) decision.edit.ack = to.ack;
    if (from.window != to.window) decision.edit.window = to.window;
    if (from.ecn != to.ecn) decision.edit.ecn = to.ecn;
    if (from.timestamps && to.timestamps && from.timestamps->value != to.timestamps->value)
      decision.edit.ts_value = to.timestamps->value;
    if (from.timestamps && to.timestamps && from.timestamps->echo != to.timestamps->echo)
      decision.edit.ts_echo = to.timestamps->echo;
  }
  if (event.packet.link != event.after->link) decision.edit.route = event.after->link;
  return decision;
}

// An edit that writes what is there already is none: nothing else is seen in a recording of it.
void leave_out_unchanged(Decision& decision, const Segment& segment)
{
  Edit& edit = decision.edit;
  if (edit.ack == segment.ack) edit.ack.reset();
  if (edit.window == segment.window) edit.window.reset();
  if (edit.ecn == segment.ecn) edit.ecn.reset();
  if (segment.timestamps && edit.ts_value == segment.timestamps->value) edit.ts_value.reset();
  if (segment.timestamps && edit.ts_echo == segment.timestamps->echo) edit.ts_echo.reset();
  if (edit.route == segment.link) edit.route.reset();
}

class Comparison
{
public:
  Comparison(const ReplayOptions& options, const ModuleMaker& make)
      : options_ { options }, with_ { options.with, make() }, book_ { options.locals }
  {
    if (options.against == Against::settings) without_ = std::make_unique<Player>(options.without, make());
  }

  Replay run()
  {
    EventReader reader { options_.file };
    try
    {
      while (auto event = reader.next())
        take(*event);
    }
    catch (const trace::BadFile& bad)
    {
      if (result_.packets == 0) throw;
      result_.fault = bad.what();
    }
    result_.heading = reader.heading();
    for (std::size_t i = 0; i < result_.flows.size(); ++i)
      result_.flows[i].flow = book_.flows()[i];
    return std::move(result_);
  }

private:
  // Injected segments of one flow that the other side has not shown yet.
  struct Pending
  {
    std::deque<Decision> before {}, after {};
  };

  void take(const Event& event)
  {
    const trace::Recorded& packet = event.packet;
    if (result_.packets++ == 0) result_.first_ns = packet.time_ns, now_ = tick(packet.time_ns);
    if (tick(packet.time_ns) < now_) ++result_.out_of_order;
    now_ = std::max(now_, tick(packet.time_ns));
    result_.last_ns = std::max(result_.last_ns, packet.time_ns);
    number_ = packet.number;
    time_ns_ = packet.time_ns;

    FlowBook::Found found = book_.take(packet);
    if (found.flow == nullptr) return;
    ++result_.segments;
    if (result_.flows.size() < found.flow->number)
      result_.flows.resize(found.flow->number), pending_.resize(found.flow->number);
    const std::size_t index = found.flow->number - 1;
    Segment& segment = found.parsed.segment;
    segment.link = Link::wifi;

    if (event.disposition() == trace::Disposition::injected)
    {
      // Not the sender's doing: made anew by the modules, or not.
      if (options_.against == Against::recording && !packet.bytes.empty())
        pending_[index].before.push_back(recorded_decision(event, keep(event.why())));
      return;
    }
    ReplayedFlow& flow = result_.flows[index];
    ++flow.packets;
    if (segment.direction == Direction::ingress) flow.bytes += segment.payload_length;

    const bool known = event.disposition().has_value();
    // A recording of Tandem's says what was queued; of another capture the modules are shown what they would be shown.
    const bool copied = event.disposition() == trace::Disposition::observed;
    const Admission recorded = copied ? Admission::observed : Admission::queued;
    const Admission admission = known ? recorded : with_.admit(segment);
    Decision after = decide(with_, segment, admission, false);
    Decision before {};
    if (options_.against == Against::settings)
      before = decide(*without_, segment, known ? recorded : without_->admit(segment), true);
    else if (options_.against == Against::recording)
      before = recorded_decision(event, keep(event.why()));
    compare(index, segment, before, after);
  }

  Decision decide(Player& player, Segment& segment, Admission admission, bool is_before)
  {
    const Player::Injected injected = [this, is_before](const FlowKey& key, Tick, Decision decision)
    { inject(key, std::move(decision), is_before); };
    player.run(now_, injected);
    if (admission == Admission::unseen) return {};
    Decision decision = player.segment(segment, admission == Admission::queued, now_, injected);
    leave_out_unchanged(decision, segment);
    if (admission != Admission::queued) decision = {};
    return decision;
  }

  void inject(const FlowKey& key, Decision decision, bool is_before)
  {
    const BookedFlow* flow = book_.find(key);
    if (flow == nullptr) return;
    Pending& pending = pending_[flow->number - 1];
    (is_before ? pending.before : pending.after).push_back(std::move(decision));
  }

  void compare(std::size_t index, const Segment& segment, const Decision& before, const Decision& after)
  {
    ReplayedFlow& flow = result_.flows[index];
    Pending& pending = pending_[index];
    if (flow.first)
    {
      pending = {};
      return;
    }
    while (!flow.first && (!pending.before.empty() || !pending.after.empty()))
    {
      const bool both = !pending.before.empty() && !pending.after.empty();
      if (both)
        judge(flow, nullptr, pending.before.front(), pending.after.front());
      else
        note(flow, { .before = pending.before.empty() ? "nothing injected" : pending.before.front().text(),
                     .after = pending.after.empty() ? "nothing injected" : pending.after.front().text(),
                     .leaves = true });
      if (!pending.before.empty()) pending.before.pop_front();
      if (!pending.after.empty()) pending.after.pop_front();
    }
    if (!flow.first) judge(flow, &segment, before, after);
  }

  void judge(ReplayedFlow& flow, const Segment* segment, const Decision& before, const Decision& after)
  {
    if (before.sends_the_same(after) && !after.why.empty()) count(flow, after.why);
    if (before == after) return;
    const bool leaves = !before.sends_the_same(after);
    // Against nothing at all every reason differs.
    if (!leaves && options_.against == Against::nothing) return;
    note(flow, { .segment = segment == nullptr ? "" : wire::describe(*segment),
                 .before = before.text(),
                 .after = after.text(),
                 .leaves = leaves });
  }

  void note(ReplayedFlow& flow, Difference difference)
  {
    difference.packet = number_;
    difference.time_ns = time_ns_;
    if (difference.leaves)
      flow.first = std::move(difference);
    else if (flow.differences.size() < options_.most_differences)
      flow.differences.push_back(std::move(difference));
  }

  static void count(ReplayedFlow& flow, std::string_view why)
  {
    const auto at = flow.decisions.find(why);
    if (at != flow.decisions.end())
      ++at->second;
    else
      flow.decisions.emplace(why, 1);
  }

  // Reasons of the recording are few; decisions that wait for their counterpart refer to them.
  std::string_view keep(const std::string& why) { return *reasons_.insert(why).first; }

  static Tick tick(std::int64_t time_ns) { return Tick { Duration { time_ns } }; }

  const ReplayOptions& options_;
  Player with_;
  std::unique_ptr<Player> without_ {};
  FlowBook book_;
  Replay result_ {};
  std::vector<Pending> pending_ {};
  std::set<std::string, std::less<>> reasons_ {};
  Tick now_ {};
  std::uint64_t number_ = 0;
  std::int64_t time_ns_ = 0;
};

} // namespace

Replay replay(const ReplayOptions& options, const ModuleMaker& make)
{
  return Comparison { options, make }.run();
}

} // namespace tandem::trace_tool
