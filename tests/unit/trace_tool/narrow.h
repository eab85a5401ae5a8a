// A module that decides something, for the tests of replay.
#pragma once

#include <tandem/module.h>

#include <array>
#include <memory>
#include <vector>

namespace tandem::trace_tool::test
{

using namespace tandem::literals;

struct NarrowState
{
  int acks = 0;
  bool woken = false;
};

inline constexpr std::array<Knob, 2> knob_table { {
    { .name = "from", .type = KnobType::integer, .minimum = 0, .maximum = 1000, .initial = 4, .help = "first ACK" },
    { .name = "inject", .type = KnobType::boolean, .maximum = 1, .initial = 0, .help = "an ACK by an alarm" },
} };

// Lowers the window of every ACK from a certain one on; on demand sends one of its own, 5 ms later.
class Narrow final : public FlowModule<NarrowState>
{
public:
  explicit Narrow(std::uint16_t window = 400) : window_ { window } {}
  std::string_view name() const override { return "narrow"; }
  std::string_view summary() const override { return "For tests."; }
  std::string_view manual() const override { return ""; }
  std::span<const Knob> knobs() const override { return knob_table; }
  void set(std::string_view knob, double value) override { (knob == "from" ? from_ : inject_) = value; }
  double get(std::string_view knob) const override { return knob == "from" ? from_ : inject_; }
  Interest interest() const override { return { .decide = traffic::egress_pure_ack }; }

  Plan decide(const Event& event, const FlowView& flow, NarrowState& state) override
  {
    if (event.kind == EventKind::alarm && !state.woken)
    {
      state.woken = true;
      injected_ = { .seq = flow.snd_nxt, .ack = flow.sent_ack, .window = 300 };
      injected_.timestamps = Timestamps { flow.sent_ts_value, flow.ts_recent };
      return { .inject = { &injected_, 1 }, .why = "narrow: by itself" };
    }
    if (event.kind != EventKind::segment || !event.queued || !event.segment->is_pure_ack()) return {};
    Plan plan { .why = "narrow: waits" };
    if (++state.acks > from_) plan = { .edit = { .window = window_ }, .why = "narrow: lower window" };
    if (inject_ != 0 && state.acks == 2) plan.wake = event.now + 5ms;
    return plan;
  }
  void describe(const FlowView&, const NarrowState&, Facts&) const override {}

private:
  double from_ = knob_table[0].initial, inject_ = 0;
  std::uint16_t window_;
  InjectedSegment injected_ {};
};

inline std::vector<std::shared_ptr<Module>> narrow()
{
  return { std::make_shared<Narrow>() };
}

} // namespace tandem::trace_tool::test
