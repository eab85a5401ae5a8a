#include "tools/trace/stall_cause.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>
#include <map>
#include <optional>
#include <utility>

namespace tandem::trace_tool
{
namespace
{

constexpr std::int64_t ms = 1'000'000;
constexpr std::int64_t shortest_timeout = 200 * ms; // Linux' TCP_RTO_MIN; RFC 6298 says 1 s
constexpr std::uint64_t segment_bytes = 1200;       // less room than this, and most servers send nothing
constexpr std::size_t slow_start = 3;               // segments of a first round after a timeout, at most
constexpr std::size_t goes_on = 7;                  // of it and the next three, when there was more to say

std::string ms_text(std::int64_t ns)
{
  std::array<char, 32> text {};
  std::snprintf(text.data(), text.size(), "%.0f ms", static_cast<double>(ns) / ms);
  return text.data();
}

// When the server sent what arrived, by its timestamps: their tick, and the shortest way of any segment.
class ServerClock
{
public:
  explicit ServerClock(const std::vector<Arrival>& in)
  {
    const Arrival *first = nullptr, *last = nullptr;
    for (const Arrival& one : in)
      if (one.has_ts) (first == nullptr ? first : last) = &one;
    if (first == nullptr || last == nullptr || last->ts == first->ts) return;
    // Clocks that are in use tick in 1, 4 or 10 ms; the nearest to what was seen.
    const double seen = static_cast<double>(last->at - first->at) / static_cast<std::int32_t>(last->ts - first->ts);
    double nearest = std::numeric_limits<double>::max();
    for (const std::int64_t tick : { 1 * ms, 4 * ms, 10 * ms })
      if (const double off = std::abs(std::log(seen / static_cast<double>(tick))); seen > 0 && off < nearest)
        nearest = off, tick_ = tick;
    if (nearest > 0.4)
    {
      tick_ = 0; // none of these
      return;
    }
    origin_ = first->ts;
    shortest_ = std::numeric_limits<std::int64_t>::max();
    for (const Arrival& one : in)
      if (one.has_ts) shortest_ = std::min(shortest_, one.at - tick_ * static_cast<std::int32_t>(one.ts - origin_));
  }

  bool known() const { return tick_ != 0; }
  // How much longer than the shortest way it took; to a tick.
  std::int64_t delay(const Arrival& one) const
  {
    return one.at - tick_ * static_cast<std::int32_t>(one.ts - origin_) - shortest_;
  }
  std::int64_t tick() const { return tick_; }

private:
  std::int64_t tick_ = 0, shortest_ = 0;
  std::uint32_t origin_ = 0;
};

// What is held beyond the byte that is waited for: from -> behind, with when it came and its sender's time.
struct Held
{
  std::uint64_t end = 0;
  const Arrival* by = nullptr;
};

class Finder
{
public:
  Finder(StalledFlow& flow, const std::vector<std::int64_t>& arrivals, std::int64_t shortest)
      : flow_ { flow }, arrivals_ { arrivals }, clock_ { flow.in }, shortest_ { shortest }
  {
    for (const Departure& out : flow.out)
      if (out.length > 0) requests_.push_back(&out);
  }

  void run()
  {
    if (flow_.in.empty()) return;
    next_ = first_byte();
    start_ = next_;
    const Arrival* before = nullptr;
    for (std::size_t i = 0; i < flow_.in.size(); ++i)
    {
      const Arrival& one = flow_.in[i];
      const std::uint64_t end = one.seq + one.length;
      if (end <= next_)
        ++flow_.story.repeated;
      else if (one.seq > next_)
        hold(one);
      else
      {
        progress(i, before);
        next_ = end;
        take_held();
        progressed_ = one.at;
        before = &one;
      }
      previous_ = one.at;
    }
    flow_.story.bytes_in = next_ - start_;
  }

private:
  std::uint64_t first_byte() const
  {
    if (flow_.story.flow.syn_ack)
      return std::min_element(flow_.in.begin(), flow_.in.end(),
                              [](const auto& a, const auto& b) { return a.seq < b.seq; })
          ->seq;
    return flow_.in.front().seq;
  }

  void hold(const Arrival& one)
  {
    if (held_.empty()) hole_since_ = one.at;
    Held& held = held_[one.seq];
    if (held.by == nullptr) held.by = &one;
    held.end = std::max(held.end, one.seq + one.length);
  }

  void take_held()
  {
    while (!held_.empty() && held_.begin()->first <= next_)
    {
      next_ = std::max(next_, held_.begin()->second.end);
      held_.erase(held_.begin());
    }
  }

  // What the laptop asked for last, up to `until`; the answer is not late before it was asked for.
  const Departure* asked(std::int64_t until) const
  {
    const auto after = std::upper_bound(requests_.begin(), requests_.end(), until,
                                        [](std::int64_t at, const Departure* out) { return at < out->at; });
    return after == requests_.begin() ? nullptr : *std::prev(after);
  }

  // The last thing said to the server by `until`.
  const Departure* told(std::int64_t until) const
  {
    const auto after = std::upper_bound(flow_.out.begin(), flow_.out.end(), until,
                                        [](std::int64_t at, const Departure& out) { return at < out.at; });
    return after == flow_.out.begin() ? nullptr : &*std::prev(after);
  }

  // Packets of anything that arrived in (from, to).
  std::size_t heard(std::int64_t from, std::int64_t to) const
  {
    const auto first = std::upper_bound(arrivals_.begin(), arrivals_.end(), from);
    const auto last = std::lower_bound(arrivals_.begin(), arrivals_.end(), to);
    return last > first ? static_cast<std::size_t>(last - first) : 0;
  }

  // The longest time in [from, to] without an arrival of anything.
  std::int64_t longest_silence(std::int64_t from, std::int64_t to) const
  {
    std::int64_t longest = 0, last = from;
    for (auto at = std::upper_bound(arrivals_.begin(), arrivals_.end(), from); at != arrivals_.end() && *at < to; ++at)
      longest = std::max(longest, *at - std::exchange(last, *at));
    return std::max(longest, to - last);
  }

  // flow_.in[i] hands something new on. Was it waited for too long?
  void progress(std::size_t i, const Arrival* before)
  {
    const Arrival& one = flow_.in[i];
    std::int64_t begin = progressed_;
    const Departure* request = asked(one.at);
    if (request != nullptr && request->at > begin && held_.empty()) begin = request->at;
    if (begin == 0) begin = flow_.story.first_ns;
    const std::int64_t lasted = one.at - begin;
    if (lasted < std::max(shortest_, 2 * flow_.story.rtt_ns)) return;
    Stall stall { .begin_ns = begin, .end_ns = one.at, .after_bytes = next_ - start_ };
    const auto resumed = end_of_silence(i, begin);
    if (resumed || held_.empty())
      judge_silence(resumed.value_or(i), before, request, stall);
    else
      judge_hole(one, stall);
    flow_.story.stalls.push_back(std::move(stall));
  }

  // The arrival of this flow that ended a silence of more than half of the time from `begin` to the i-th. It need not
  // be what was waited for: the server may begin with what it sent last, or repeat what arrived long ago.
  std::optional<std::size_t> end_of_silence(std::size_t i, std::int64_t begin) const
  {
    const std::int64_t half = (flow_.in[i].at - begin) / 2;
    for (std::size_t k = i;; --k)
    {
      if (flow_.in[k].at <= begin) return {};
      const std::int64_t last = k == 0 ? begin : std::max(begin, flow_.in[k - 1].at);
      if (flow_.in[k].at - last > half) return k;
      if (k == 0) return {};
    }
  }

  void judge_silence(std::size_t i, const Arrival* before, const Departure* request, Stall& stall)
  {
    if (blocked(stall)) return;
    const Arrival& one = flow_.in[i];
    const std::size_t others = heard(stall.begin_ns, one.at);
    const std::int64_t lasted = one.at - stall.begin_ns;
    if (clock_.known() && one.has_ts && clock_.delay(one) >= lasted / 2 - clock_.tick())
    {
      delayed(one, others, stall);
      return;
    }
    const std::size_t round = segments_from(i, 1);
    // After its timeout a server begins with a segment or two and doubles, while it has more to say. An application
    // that has said all it wanted ends with PSH (and Linux sets it now and then in the middle); a flight that was lost
    // ends anywhere.
    const bool under_way = before != nullptr && (request == nullptr || request->at < stall.begin_ns);
    // What comes above a hole says so itself: something before it was lost.
    const bool cut =
        under_way && (one.seq > next_ || (round <= slow_start && (!before->push || segments_from(i, 4) >= goes_on)));
    if (cut)
      flight_lost(one, others, round, stall);
    else
      idle(one, before, request, round, stall);
  }

  // Nothing more could be sent: the window, or ACKs that Tandem kept.
  bool blocked(Stall& stall)
  {
    const std::int64_t rtt = std::max(flow_.story.rtt_ns, ms);
    // What was said up to shortly before the end: the answer takes a round trip.
    const std::int64_t middle = std::max(stall.begin_ns, stall.end_ns - 2 * rtt - (stall.end_ns - stall.begin_ns) / 4);
    const Departure* out = told(middle);
    if (out == nullptr) return false;
    // Without the scale a window is known to be full only when it is closed altogether.
    const auto is_full = [&](std::uint64_t ack, std::uint64_t edge)
    { return flow_.shift ? edge < next_ + segment_bytes : edge == ack; };
    const bool full = is_full(out->ack, out->edge);
    const bool own_full = is_full(out->own_ack, out->own_edge);
    const std::uint64_t withheld = out->own_ack - std::min(out->own_ack, out->ack);
    if (full && own_full)
    {
      stall.cause = Cause::receive_window;
      stall.evidence.push_back("the laptop's TCP offered a window of "
                               + std::to_string(out->own_edge - std::min(out->own_edge, next_))
                               + " bytes beyond what it had: its application did not read");
    }
    else if (full || withheld > 0)
    {
      stall.cause = Cause::tandem;
      stall.evidence.push_back(full ? "the laptop's TCP offered "
                                          + std::to_string(out->own_edge - std::min(out->own_edge, next_))
                                          + " bytes of window, Tandem let the server see "
                                          + std::to_string(out->edge - std::min(out->edge, next_))
                                    : "Tandem withheld the acknowledgement of " + std::to_string(withheld) + " bytes");
    }
    else
      return false;
    const Departure* last = told(stall.end_ns);
    if (last != nullptr && last->at > middle && last->edge > out->edge)
      stall.evidence.push_back("it went on " + ms_text(stall.end_ns - last->at) + " after the window was opened");
    return true;
  }

  void delayed(const Arrival& one, std::size_t others, Stall& stall)
  {
    stall.evidence.push_back("the server's timestamp says that it sent the next segment " + ms_text(clock_.delay(one))
                             + " earlier than one that finds the way free");
    const std::int64_t silence = longest_silence(stall.begin_ns, one.at);
    if (silence > (one.at - stall.begin_ns) * 3 / 4)
    {
      stall.cause = Cause::radio_silent;
      stall.evidence.push_back("meanwhile nothing arrived of anything for " + ms_text(silence));
      return;
    }
    stall.cause = Cause::queue;
    stall.evidence.push_back(std::to_string(others)
                             + " packets of others arrived meanwhile: it waited in a queue on the way");
  }

  // Segments that arrive within so many round trips from the i-th on.
  std::size_t segments_from(std::size_t i, std::int64_t rounds) const
  {
    const std::int64_t rtt = std::max(flow_.story.rtt_ns, 7 * ms);
    const std::int64_t until = flow_.in[i].at + rtt * (4 * rounds - 1) / 4;
    std::size_t count = 0;
    for (; i < flow_.in.size() && flow_.in[i].at < until; ++i)
      count += (flow_.in[i].length + 1459) / 1460; // merged ones count as many
    return count;
  }

  void flight_lost(const Arrival& one, std::size_t others, std::size_t round, Stall& stall)
  {
    if (clock_.known() && one.has_ts)
      stall.evidence.push_back("the server's timestamp says that it sent the next segment only "
                               + ms_text(std::max<std::int64_t>(0, clock_.delay(one)))
                               + " before a free way would have brought it");
    stall.evidence.push_back("the stream had stopped in the middle of what the server had to say");
    if (one.seq < next_)
      stall.evidence.push_back("what came first had arrived before: its acknowledgement was lost, the server's timer "
                               "repeated it");
    else if (one.seq > next_)
      stall.evidence.push_back("what came first lies " + std::to_string(one.seq - next_)
                               + " bytes further on: these were lost");
    else
      stall.evidence.push_back("the server began anew with " + std::to_string(round)
                               + (round == 1 ? " segment" : " segments") + " in a round trip, as after its timeout");
    if (others == 0)
    {
      stall.cause = Cause::radio_silent;
      stall.evidence.push_back(
          "nothing arrived of anything: all that was on its way was lost together; the last part of "
          "the stall may be the server's timeout, backed off");
      return;
    }
    stall.cause = Cause::server_timeout;
    stall.evidence.push_back(std::to_string(others) + " packets of others arrived meanwhile: the radio was there");
  }

  void idle(const Arrival& one, const Arrival* before, const Departure* request, std::size_t round, Stall& stall)
  {
    if (clock_.known() && one.has_ts)
      stall.evidence.push_back("the server's timestamp says that the next segment was sent when it was due to arrive: "
                               "it was on its way for "
                               + ms_text(std::max<std::int64_t>(0, clock_.delay(one))) + " longer than the fastest");
    else
    {
      stall.evidence.push_back("without the server's timestamps it is not known when it sent the next segment");
      stall.cause = Cause::unknown;
      if (before == nullptr || !before->push) return;
    }
    stall.cause = Cause::server_idle;
    if (request != nullptr && request->at == stall.begin_ns)
      stall.evidence.push_back("it was asked at the beginning of the stall");
    else if (before != nullptr && before->push)
      stall.evidence.push_back("its last segment before ended what its application had to say (PSH)");
    if (round > slow_start)
      stall.evidence.push_back("it went on with " + std::to_string(round)
                               + " segments in a round trip, not as after a timeout");
  }

  // What was waited for fills a hole.
  void judge_hole(const Arrival& one, Stall& stall)
  {
    const Arrival* above = nullptr; // the first that came over it
    for (const auto& [from, held] : held_)
      if (above == nullptr || held.by->at < above->at) above = held.by;
    const std::int64_t waited = one.at - hole_since_;
    if (one.has_ts && above->has_ts && static_cast<std::int32_t>(one.ts - above->ts) <= 0)
    {
      stall.cause = Cause::reordering;
      stall.evidence.push_back(std::to_string(held_.size())
                               + " segments arrived before one that the server sent no later (TSval "
                               + std::to_string(one.ts) + ", theirs " + std::to_string(above->ts) + ")");
      stall.evidence.push_back("it came " + ms_text(waited)
                               + " after the first of them, and is no retransmission: "
                                 "reordered on the last way, mostly by the own card");
      return;
    }
    const std::int64_t silent = one.at - previous_;
    stall.evidence.push_back("a segment was lost; its retransmission came " + ms_text(waited)
                             + " after the laptop saw the hole");
    if (silent >= shortest_timeout * 3 / 4 && silent > 2 * flow_.story.rtt_ns)
    {
      const bool silence = heard(previous_, one.at) == 0
                           && longest_silence(stall.begin_ns, stall.end_ns) > (stall.end_ns - stall.begin_ns) * 3 / 4;
      stall.cause = Cause::server_timeout;
      stall.evidence.push_back("before it the server was silent for " + ms_text(silent)
                               + ": its timer repaired the loss");
      if (silence)
        stall.evidence.push_back("nothing of others arrived meanwhile either: the radio may have been silent as well");
      return;
    }
    stall.cause = Cause::loss;
    stall.evidence.push_back("segments above it kept arriving: the retransmission was lost too, or waited in a queue");
  }

  StalledFlow& flow_;
  const std::vector<std::int64_t>& arrivals_;
  ServerClock clock_;
  std::int64_t shortest_;
  std::vector<const Departure*> requests_ {}; // those with payload: asked for with every segment that arrives
  std::uint64_t next_ = 0, start_ = 0;        // the byte that is waited for, the first one
  std::map<std::uint64_t, Held> held_ {};
  std::int64_t progressed_ = 0, previous_ = 0, hole_since_ = 0;
};

} // namespace

void find_stalls(StalledFlow& flow, const std::vector<std::int64_t>& arrivals, std::int64_t shortest_ns)
{
  Finder { flow, arrivals, shortest_ns }.run();
}

} // namespace tandem::trace_tool
