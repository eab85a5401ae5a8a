// cap: keeps the window that this host advertises below a limit, so that one download cannot fill every queue on its
// way.
#include <tandem/module.h>

#include <algorithm>
#include <array>

namespace
{

using namespace tandem;

// What the module remembers of one flow: at most 448 bytes, default-constructed when the flow begins.
struct State
{
  std::uint64_t capped = 0;
};

constexpr std::array<Knob, 1> knob_table { { {
    .name = "limit",
    .type = KnobType::integer,
    .unit = "bytes",
    .minimum = 4096,
    .maximum = 1073741824,
    .initial = 262144,
    .help = "largest receive window to advertise",
} } };

class Cap final : public FlowModule<State>
{
public:
  std::string_view name() const override { return "cap"; }
  std::string_view summary() const override { return "Limits the receive window that downloads may use."; }
  std::string_view manual() const override { return "An ACK that advertises more than `limit` leaves with `limit`."; }

  std::span<const Knob> knobs() const override { return knob_table; }
  void set(std::string_view knob, double value) override
  {
    if (knob == "limit") limit_ = value;
  }
  double get(std::string_view knob) const override { return knob == "limit" ? limit_ : 0; }

  // Only pure ACKs are queued for this module; nothing needs to be observed.
  Interest interest() const override { return { .decide = traffic::egress_pure_ack }; }

  Plan decide(const Event& event, const FlowView& flow, State& state) override
  {
    // Guard first: whatever is not an ACK at hand passes as it is.
    if (event.kind != EventKind::segment || !event.queued || !event.segment->is_pure_ack()) return {};
    const double most = std::min(limit_ / static_cast<double>(1u << flow.local_window_scale), 65535.0);
    const auto window = static_cast<std::uint16_t>(most);
    if (event.segment->window <= window) return {};
    ++state.capped;
    return { .edit = { .window = window }, .why = "cap: window above the limit" };
  }

  void describe(const FlowView&, const State& state, Facts& facts) const override
  {
    facts.add("ACKs capped", static_cast<double>(state.capped));
  }

private:
  double limit_ = knob_table[0].initial;
};

} // namespace

TANDEM_MODULE(Cap);
