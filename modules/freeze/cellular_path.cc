#include "modules/freeze/cellular_path.h"

#include <algorithm>

namespace tandem::freeze
{

namespace
{

using namespace std::chrono_literals;

// A validation counts this long, and is renewed after half of it.
constexpr Duration lasts = 30s;
constexpr unsigned copies = 6;
// Back-off after one that failed, in seconds.
constexpr double first_back_off = 1;
constexpr double longest_back_off = 300;
constexpr Duration longest_unstill = 1s; // that a window which moves is waited for

} // namespace

bool CellularPath::fresh(Tick now) const
{
  return validated() && now - validated_at_ < lasts;
}

void CellularPath::end(Tick next, std::string_view why, Plan& plan)
{
  running_ = false;
  next_ = next;
  plan.reserve = TsReservation {};
  plan.why = why;
}

void CellularPath::consider(const Event& event, const FlowView& flow, bool wanted, Plan& plan)
{
  if (event.now < next_ || !wanted || flow.cell_path_failed || !event.segment->timestamps
      || !usable(Link::cell, *event.links, flow))
    return;
  if (validated() && event.now - validated_at_ < lasts / 2) return;
  if (wanted_at_ == Tick {}) wanted_at_ = event.now;
  if (still_ < PathValidation::still_acks && event.now - wanted_at_ < longest_unstill) return;
  if (!PathValidation::possible(flow)) return;
  wanted_at_ = Tick {};
  running_ = true;
  path_.begin(event.segment->timestamps->value, still_, event.now);
  plan.reserve = path_.reservation();
  data_edge_ = flow.snd_nxt;
}

Tick CellularPath::due(const FlowView& flow) const
{
  return running_ && path_.copies > 0 ? path_.begun_at + PathValidation::timeout(flow.rtt_smoothed) : Tick::max();
}

// Whether an echo would prove nothing any more, nor its absence.
bool CellularPath::spoiled(const Event& event, const FlowView& flow, Plan& plan)
{
  if (flow.snd_nxt != data_edge_)
    end(event.now + 100ms, "freeze: path validation spoiled by upload data", plan);
  else if (!path_.holds(flow))
    end(event.now + 1s, "freeze: path validation spoiled", plan);
  return !running_;
}

void CellularPath::overdue(const Event& event, const FlowView& flow, Plan& plan)
{
  if (spoiled(event, flow, plan)) return;
  // Where the data ended before an echo could come this says nothing of the path.
  if (path_.copies > 0 && !path_.echo_due) return end(event.now + 1s, "freeze: the data ended before an echo", plan);
  validated_at_ = Tick {};
  if (path_.copies > 0 && path_.failed()) plan.cell_path = CellPath { CellPath::Is::failed };
  end(event.now + from_seconds(PathValidation::back_off(failures_, first_back_off, longest_back_off)),
      "freeze: cellular path not validated (filtered, NAT or too slow)", plan);
}

void CellularPath::acknowledged(const Event& event, const FlowView& flow, bool clear, bool wanted,
                                InjectedSegment& scratch, Plan& plan)
{
  const Segment& segment = *event.segment;
  path_.window_moved = path_.window_moved || segment.window != window_;
  still_ = segment.window != window_ ? std::uint8_t { 0 }
                                     : static_cast<std::uint8_t>(std::min<int>(still_ + 1, PathValidation::still_acks));
  window_ = segment.window;
  if (!running_) return consider(event, flow, clear && wanted, plan);
  if (!clear) return end(event.now + 1s, "freeze: path validation given up, the link changed", plan);
  if (spoiled(event, flow, plan)) return;
  if (path_.expired(event.now, flow.rtt_smoothed)) return overdue(event, flow, plan);
  if (plan.verdict == Verdict::drop || !segment.timestamps || !segment.timestamps->value.after(path_.frozen)) return;
  plan.edit.ts_value = path_.frozen;
  if (plan.why.empty()) plan.why = "freeze: TSval kept while probing";
  if (!usable(Link::cell, *event.links, flow) || !path_.due(event.now, copies, flow.rtt_smoothed)) return;
  scratch = path_.copy(segment, plan.edit.ack.value_or(segment.ack), Link::cell, event.now);
  plan.inject = { &scratch, 1 };
  plan.why = "freeze: path probe by cellular";
}

Plan CellularPath::arrived(const Event& event, const FlowView& flow)
{
  const Segment& segment = *event.segment;
  if (!running_ || !segment.timestamps || !segment.has(tcp_flag::ack) || !path_.holds(flow)
      || flow.snd_nxt != data_edge_)
    return {};
  if (!path_.confirmed_by(segment.timestamps->echo))
  {
    path_.unconfirmed(event.now, flow.rtt_smoothed);
    return {};
  }
  running_ = false;
  path_.unechoed = false;
  failures_ = 0;
  validated_at_ = event.now;
  return { .reserve = TsReservation {},
           .cell_path = CellPath { CellPath::Is::validated },
           .why = "freeze: cellular path validated" };
}

} // namespace tandem::freeze
