// The module SDK: everything a module, also a third party's, needs. See docs/writing-a-module.md.
//
// A module is a function of (knobs, flow state, event) that returns a Plan. It reads no clock, opens nothing, throws
// nothing; the same events give the same plans, in a unit test, on a recorded trace, in the simulator and live.
#pragma once

#include <tandem/classify.h>
#include <tandem/flow.h>
#include <tandem/knobs.h>
#include <tandem/link.h>
#include <tandem/plan.h>
#include <tandem/segment.h>
#include <tandem/units.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <string_view>

namespace tandem
{

// Raised with every incompatible change of anything below include/tandem.
constexpr std::uint32_t module_abi_version = 22;

// What a module must see. Rules are generated from the union of the enabled modules' interests: nothing else is ever
// queued. Kinds of packets: tandem/classify.h; what becomes of each: tandem/admission.h.
struct Interest
{
  std::uint32_t decide = 0;  // traffic:: bits that are queued for this module's verdict, on the Wi-Fi link's addresses
  std::uint32_t observe = 0; // traffic:: bits of which copies are enough (sampled; no verdict, no delay, no risk)
  bool radio = false;        // wants radio events
  bool content = false;      // wants to fetch bytes a second time, see <tandem/fetch.h>
  // Wants copies (observe) of the flows of every link, not of Link::wifi alone: it compares links. Nothing of the other
  // links' flows is ever queued, edited or spoken for.
  bool every_link = false;
  // Wants what this host itself sent into a blackout to be sent again as soon as the Wi-Fi link is back (Chain::
  // unanswered), on flows on which the module acts.
  bool own_unanswered = false;
};

// What a link is now. Kept by src/links, handed in with every event.
struct LinkState
{
  bool present = false;  // the interface exists and has an address
  bool up = false;       // carrier, and not in a blackout
  bool route = false;    // an IPv4 route to the Internet by this link exists
  bool route_v6 = false; // likewise IPv6
  bool at_risk = false;  // a blackout is predicted
  // Of a Wi-Fi link: what flows found lately (Plan::frames_kept). True: its access point keeps the frames of a station
  // that is away, and sends them at link-up; false: it is not known to. Nothing: nobody knows which access point it is,
  // each flow has its own experience alone. While the link is away it is that of the last access point.
  std::optional<bool> keeps_frames {};
  Tick changed {}; // when `up` last changed
  std::uint32_t mtu = 1500;
  std::optional<RadioState> radio {}; // absent without a source of driver statistics, or when what it said is stale
  std::uint64_t bytes_out =
      0; // sent by Tandem's decisions over this link (edits of route and injected segments), since start
  // That Tandem's decisions may still send over this link: what is left of budget.cell_bytes. The guard refuses more.
  std::uint64_t bytes_left = std::numeric_limits<std::uint64_t>::max();
  // Bytes per second that the local TCP acknowledged on all flows of this link together, over about the last tenth of
  // a second with traffic; 0 until measured.
  double delivery_rate = 0;
};

using LinkStates = std::array<LinkState, link_count>;

// Whether packets of the flow can leave by the link now.
constexpr bool usable(Link link, const LinkStates& links, const FlowView& flow)
{
  const auto at = static_cast<std::size_t>(link);
  if (link == Link::cell && cell_denial(flow) != CellDenied::no) return false;
  return at < links.size() && links[at].up && (flow.key.local.v6 ? links[at].route_v6 : links[at].route);
}

enum class EventKind : std::uint8_t
{
  segment,      // a packet of the flow; `queued` says whether a verdict counts
  alarm,        // the wake asked for
  link,         // some LinkState changed
  radio,        // fresh driver statistics
  switched_off, // the module is being switched off, or the daemon stops: undo what is held for this flow, now
  fetched,      // the answer to a Fetch of this module on this flow
};

struct Event
{
  EventKind kind = EventKind::segment;
  Tick now {};
  const Segment* segment = nullptr;     // with EventKind::segment
  bool queued = false;                  // false: an observed copy, verdict and edit are ignored
  const LinkStates* links = nullptr;    // never null
  std::uint64_t seed = 0;               // for a decision that needs chance: the same in every replay
  const FetchResult* fetched = nullptr; // with EventKind::fetched
  const DamageLog* damage = nullptr;    // of the Wi-Fi link; null without a radio that listens
};

// Whether the flow hears that its link is down. It may be its address alone that is gone: nobody speaks in its name
// then, so that of the plan the wake alone counts, and what it asks of links is not carried out.
constexpr bool hears_of_loss(const Event& event, const FlowView& flow)
{
  return event.kind == EventKind::link && !(*event.links)[static_cast<std::size_t>(flow.link)].up;
}

// One line of what a module knows about a flow, for `tandem flows`.
class Facts
{
public:
  virtual ~Facts() = default;
  virtual void add(std::string_view key, std::string_view value) = 0;
  virtual void add(std::string_view key, double value, std::string_view unit = "") = 0;
};

// Bytes that a module may keep for each flow.
constexpr std::size_t largest_flow_state = 448;

class Module
{
public:
  virtual ~Module() = default;
  virtual std::string_view name() const = 0;    // as in `tandem module NAME on`
  virtual std::string_view summary() const = 0; // a sentence or two
  virtual std::string_view manual() const = 0;  // Markdown body of docs/modules/NAME.md, without the knob table
  virtual std::span<const Knob> knobs() const = 0;
  // Constants for everybody but tests, which reach a state sooner with other values: no configuration, command or
  // manual knows them.
  virtual std::span<const Knob> test_knobs() const { return {}; }
  // Names that were knobs in earlier releases.
  virtual std::span<const RetiredKnob> retired_knobs() const { return {}; }
  // Called with a value that was checked against the knob's range.
  virtual void set(std::string_view knob, double value) = 0;
  virtual double get(std::string_view knob) const = 0;
  // What is wrong with the knobs together, each of which is within its range: a sentence with names and values; empty:
  // nothing. A configuration or command that leads there is refused.
  virtual std::string complaint() const { return {}; }
  virtual Interest interest() const = 0;
  // Modules are asked in ascending order of this, equal ones by name; of two that want a route the first one gets it
  // (docs/decisions/0002). Whoever withholds or repairs speaks before whoever chooses a way: freeze 10, mirror 20,
  // offload 30, ecn 40, rate 50.
  virtual int priority() const { return 100; }
  // What a stretch of a download without the module costs carries over into the rest of it: what it gains is measured
  // by whole flows only (docs/evidence.md).
  virtual bool carries_over() const { return false; }

  // Per-flow state lives in the chain's flow table: bytes that the module constructs and destroys in place. At most
  // largest_flow_state.
  virtual std::size_t flow_state_size() const = 0;
  virtual void flow_begin(std::byte* state, const FlowView& flow) = 0;
  virtual void flow_end(std::byte* state) noexcept = 0;

  // Same knobs, state and event: same plan.
  virtual Plan decide(const Event& event, const FlowView& flow, std::byte* state) = 0;
  virtual void describe(const FlowView& flow, const std::byte* state, Facts& facts) const = 0;
  // What it decides for links rather than for a flow, for `tandem status`: what holds now, and why.
  virtual void report(Facts&) const {}
};

// Spares a module the bytes: derive from FlowModule<State>, implement the four functions below on State&.
template <class State>
class FlowModule : public Module
{
public:
  static_assert(sizeof(State) <= largest_flow_state, "per-flow state of a module is at most largest_flow_state bytes");
  static_assert(alignof(State) <= alignof(std::max_align_t));

  virtual Plan decide(const Event& event, const FlowView& flow, State& state) = 0;
  virtual void describe(const FlowView& flow, const State& state, Facts& facts) const = 0;

  std::size_t flow_state_size() const final { return sizeof(State); }
  void flow_begin(std::byte* state, const FlowView&) final { new (state) State {}; }
  void flow_end(std::byte* state) noexcept final { get_state(state).~State(); }
  Plan decide(const Event& event, const FlowView& flow, std::byte* state) final
  {
    return decide(event, flow, get_state(state));
  }
  void describe(const FlowView& flow, const std::byte* state, Facts& facts) const final
  {
    describe(flow, *std::launder(reinterpret_cast<const State*>(state)), facts);
  }

private:
  static State& get_state(std::byte* state) { return *std::launder(reinterpret_cast<State*>(state)); }
};

// What a module's shared library exports, under the name `tandem_module`.
struct ModuleEntry
{
  std::uint32_t abi_version = module_abi_version;
  std::uint32_t segment_size = sizeof(Segment); // catches a module built against other headers
  std::uint32_t plan_size = sizeof(Plan);
  std::uint32_t flow_size = sizeof(FlowView);
  Module* (*create)() = nullptr;
  void (*destroy)(Module*) noexcept = nullptr;
};

} // namespace tandem

// In one source file of the module: TANDEM_MODULE(MyModule); at namespace scope. Compiled into nothing when the source
// is linked statically (tests, simulator).
#ifdef TANDEM_MODULE_EXPORT
#define TANDEM_MODULE(Class)                                                                                           \
  extern "C" __attribute__((visibility("default"))) const ::tandem::ModuleEntry tandem_module;                         \
  extern "C" const ::tandem::ModuleEntry tandem_module                                                                 \
  {                                                                                                                    \
    .create = []() -> ::tandem::Module* { return new Class {}; },                                                      \
    .destroy = [](::tandem::Module* m) noexcept { delete m; },                                                         \
  }
#else
#define TANDEM_MODULE(Class) static_assert(true)
#endif
