// tail: sends the last ACK of a burst once more, since the loss of that one is noticed by nobody; and asks for CE marks
// while the queue on the way grows.
#include <tandem/module.h>
#include <tandem/pure_ack.h>

#include <array>

namespace
{

using namespace tandem;
using namespace std::chrono_literals;

struct State
{
  Seq repeated {}; // the ACK number that was sent twice
  bool marking = false;
};

class Tail final : public FlowModule<State>
{
public:
  std::string_view name() const override { return "tail"; }
  std::string_view summary() const override { return "Repeats the last ACK of a burst."; }
  std::string_view manual() const override { return "One ACK more for each pause of a download."; }

  std::span<const Knob> knobs() const override { return {}; }
  void set(std::string_view, double) override {}
  double get(std::string_view) const override { return 0; }

  // What is to be repeated must be seen as it left, so ACKs are decided; arriving data is only measured.
  Interest interest() const override
  {
    return { .decide = traffic::egress_pure_ack, .observe = traffic::ingress_data };
  }

  Plan decide(const Event& event, const FlowView& flow, State& state) override
  {
    switch (event.kind)
    {
    case EventKind::segment:
      if (!event.queued || !event.segment->is_pure_ack()) return {};
      return mark(flow, state, { .wake = event.now + 2 * flow.rtt_smoothed + 10ms });
    case EventKind::alarm:
      return repeat(flow, state);
    case EventKind::switched_off:
      return stop_marking(state);
    default:
      return {};
    }
  }

  void describe(const FlowView&, const State& state, Facts& facts) const override
  {
    facts.add("marking", state.marking ? "on" : "off");
  }

private:
  // An injected segment: it leaves by a named link at a time, here at once. Each number has its limits; latest_ack()
  // is what the local TCP sent last.
  Plan repeat(const FlowView& flow, State& state)
  {
    if (state.repeated == flow.rcv_nxt || flow.fin_sent || flow.acc_ecn) return {};
    state.repeated = flow.rcv_nxt;
    ack_[0] = latest_ack(flow, flow.link);
    return { .inject = ack_, .why = "tail: last ACK repeated" };
  }

  // A request to a link is a state, not an event: it holds until another value is asked for.
  Plan mark(const FlowView& flow, State& state, Plan plan)
  {
    const bool queue_grows = flow.rtt_smoothed > 2 * flow.rtt_min;
    if (queue_grows == state.marking) return plan;
    state.marking = queue_grows;
    request_[0] = { .kind = RequestKind::ce_rate, .link = flow.link, .value = queue_grows ? 0.02 : 0.0 };
    plan.request = request_;
    plan.why = "tail: marks follow the queue";
    return plan;
  }

  Plan stop_marking(State& state)
  {
    if (!state.marking) return {};
    state.marking = false;
    request_[0] = { .kind = RequestKind::ce_rate, .value = 0 };
    return { .request = request_, .why = "tail: switched off" };
  }

  // A plan refers to these: they stay as they are until the module is called again.
  std::array<InjectedSegment, 1> ack_ {};
  std::array<LinkRequest, 1> request_ {};
};

} // namespace

TANDEM_MODULE(Tail);
