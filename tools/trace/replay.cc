#include "tools/trace/replay.h"

#include "src/wire/text.h"
#include "tools/trace/event.h"

#include <algorithm>
#include <set>
#include <type_traits>
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
      for (Event event; reader.next(event);)
        take(event);
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
  // Beside each flow of the result.
  struct Beside
  {
    std::vector<Decision> before {}, after {}; // injected segments that the other side has not shown yet
    // The reason of its latest decision and how often it was given, in ReplayedFlow::decisions: they come in rows.
    std::string_view why {};
    std::uint64_t* count = nullptr;
  };
  static_assert(std::is_nothrow_move_constructible_v<ReplayedFlow>); // what `count` points to stays where it is

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
    result_.unread.take(packet, found.parsed);
    if (found.flow == nullptr) return;
    ++result_.segments;
    if (result_.flows.size() < found.flow->number)
    {
      result_.flows.resize(found.flow->number);
      beside_.resize(found.flow->number);
    }
    const std::size_t index = found.flow->number - 1;
    Segment& segment = found.parsed.segment;
    segment.link = Link::wifi;

    if (event.disposition() == trace::Disposition::injected)
    {
      // Not the sender's doing: made anew by the modules, or not.
      if (options_.against == Against::recording && !packet.bytes.empty())
        beside_[index].before.push_back(recorded_decision(event, keep(event.why())));
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
    Beside& beside = beside_[flow->number - 1];
    (is_before ? beside.before : beside.after).push_back(std::move(decision));
  }

  void compare(std::size_t index, const Segment& segment, const Decision& before, const Decision& after)
  {
    ReplayedFlow& flow = result_.flows[index];
    Beside& beside = beside_[index];
    if (!beside.before.empty() || !beside.after.empty()) compare_injected(index);
    if (!flow.first) judge(index, &segment, before, after);
  }

  void compare_injected(std::size_t index)
  {
    ReplayedFlow& flow = result_.flows[index];
    const auto befores = std::exchange(beside_[index].before, {}), afters = std::exchange(beside_[index].after, {});
    for (std::size_t i = 0; !flow.first && i < std::max(befores.size(), afters.size()); ++i)
      if (i < befores.size() && i < afters.size())
        judge(index, nullptr, befores[i], afters[i]);
      else
        note(flow, { .before = i < befores.size() ? befores[i].text() : "nothing injected",
                     .after = i < afters.size() ? afters[i].text() : "nothing injected",
                     .leaves = true });
  }

  void judge(std::size_t index, const Segment* segment, const Decision& before, const Decision& after)
  {
    const bool leaves = !before.sends_the_same(after);
    if (!leaves && !after.why.empty()) count(index, after.why);
    if (!leaves && before.why == after.why) return;
    // Against nothing at all every reason differs.
    if (!leaves && options_.against == Against::nothing) return;
    note(result_.flows[index], { .segment = segment == nullptr ? "" : wire::describe(*segment),
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

  // A reason is a literal, or kept in reasons_: where it lies says which it is, mostly.
  void count(std::size_t index, std::string_view why)
  {
    Beside& beside = beside_[index];
    if (beside.why.data() != why.data() || beside.why.size() != why.size())
    {
      auto& decisions = result_.flows[index].decisions;
      auto at = decisions.find(why);
      if (at == decisions.end()) at = decisions.emplace(why, 0).first;
      beside.why = why;
      beside.count = &at->second;
    }
    ++*beside.count;
  }

  // Reasons of the recording are few; decisions that wait for their counterpart refer to them.
  std::string_view keep(const std::string& why) { return *reasons_.insert(why).first; }

  static Tick tick(std::int64_t time_ns) { return Tick { Duration { time_ns } }; }

  const ReplayOptions& options_;
  Player with_;
  std::unique_ptr<Player> without_ {};
  FlowBook book_;
  Replay result_ {};
  std::vector<Beside> beside_ {};
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
