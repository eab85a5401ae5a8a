#include "modules/rate/rate.h"

#include <tandem/knob_table.h>
#include <tandem/pure_ack.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace tandem::rate
{
namespace
{

using namespace std::chrono_literals;

constexpr Duration look_every = 100ms;
// LinkRequests are states. Who carries them out may have dropped one, with a link or after a fault.
constexpr Duration tell_every = 2s;
// While Wi-Fi is away for hours a connection may live on in silence: then a look a repetition suffices.
constexpr Duration silent_after = 10s;
// Times the bandwidth-delay product: room to find out that there is more, and none once the card leaves. With 1.2,
// which promise.h has for steady links, a download lost a sixth of its rate while the rate control came down.
constexpr double headroom = 1.5, headroom_at_handoff = 1.0;
// Of an upload at a handoff: with none it would follow its own rate downwards, which fades (paced_upload.cc).
constexpr double upload_headroom_at_handoff = 1.1;
// From a look to the last packet that came by cellular because of the one before: a look, the keeper's turn, MP_PRIO's
// way, and a round trip.
constexpr Duration overshoot = 500ms;
constexpr std::uint64_t next_to_nothing = 1'500'000; // bytes: a budget of which no more is left counts as spent
// Of R0, over the last second: cellular is kept for later.
constexpr double at_rest = 0.1;

constexpr auto all_knobs = []
{
  std::array<Knob, knob_rows.size()> all {};
  for (std::size_t i = 0; i < all.size(); ++i)
  {
    all[i] = knob_rows[i].knob;
    all[i].initial = Knobs {}.*knob_rows[i].field;
  }
  return all;
}();

const LinkState& of(const LinkStates& links, Link link)
{
  return links[static_cast<std::size_t>(link)];
}

// What has no subflow but the cellular one goes on there when a budget is spent: nobody ends a connection's last one
// (docs/decisions/0010). So a budget can only be kept while the Wi-Fi subflow is there, dead as it is.
bool without_limit(const LinkState& cell)
{
  return cell.bytes_left > std::numeric_limits<std::uint64_t>::max() / 2;
}

} // namespace

std::string_view RatePolicy::summary() const
{
  return "Keeps the queue at a Wi-Fi access point short before the card leaves it, and keeps MPTCP downloads at R0 by "
         "as "
         "little cellular as that takes.";
}

std::string_view RatePolicy::manual() const
{
  return R"(A card that leaves an access point loses what waits there for it, and stays silent until the sender has found out. Sinky, Hamdaoui and Guizani (CLA-MPTCP)
set both subflows' congestion windows by the signal; that takes a sender of theirs. `rate` does what the client alone can.

It is off until it is switched on: measured in the lab (docs/decisions/0023), not yet on many networks. Without the promise its windows are compared with
plain ones while it runs, and rest where they harm (docs/evidence.md); with it they are not, since it compares links.

**Stages.** S1 is the signal of the access point over `noise`, S2 that of the best other access point: of the same network, as a scan has found it
(docs/radio.md), or of another Wi-Fi link of this laptop. *Pre-handoff* is from S1 < delta0 + delta2 / 2 on, unless S2 is more than delta1 weaker; *handoff* when S1 < delta0 and S2 > S1 + delta2 / 2, or when a blackout is foreseen. With none to hear, a
candidate as good as the scan trigger is assumed: handoff below delta0 - delta2. A stage ends when the signal has been 3 dB better for a second. Without a signal (docs/radio.md) everything is stationary.

**Plain TCP downloads.** In pre-handoff the advertised window is bounded to 1.5 bandwidth-delay products (measured rate times least round trip; at a
handoff to one), at least ten segments. The right edge never moves back (RFC 9293): what was offered stays offered, and the bound takes hold once the download has eaten it up. In
the stationary stage, and after the handoff, windows leave as they are. An ACK that is bounded is not left out by `offload`.

**Uploads** (`uploads`). In the same stages the pace of this laptop's own uploads by Wi-Fi is bounded, of each MPTCP subflow by itself: to about what its path carries, less while the round trip is longer than 1.5 times
the least one (at a handoff 1.1; with `published` not above the rate of algorithm 2), at least ten segments a round trip. The kernel's TCP paces, under whichever congestion control it has; the bound is taken away when the stage or the link ends, and the application's own is put back.
BPF does it on the socket, where the service is allowed to use it (docs/confinement.md) and the kernel is Linux 6.4 or later; else HTB at the interface does, unless somebody has chosen a queueing discipline there. `tandem doctor` says which.

**The promise** (`promise`). All MPTCP downloads together are kept at `r0`. The cellular subflow is a backup while Wi-Fi brings R0; while it does not, MP_PRIO makes it regular for as
much of the time as the difference takes: what is missing is an account in bytes, at most a second of R0, and cellular is used while something is owed. A first second
below R0 is waited for. When cellular adds nothing within two seconds, and no queue or weak signal says that Wi-Fi is the limit, the server or the application is:
cellular rests for 10 s, then for twice that, up to 160 s. With `r0_up` all MPTCP uploads together are kept at that rate by an account of
their own; a connection uploads once it has sent 256 KiB on a subflow, and more than came there. Of an upload this host is the sender: the cellular subflow stays regular while Wi-Fi does not bring R0, and is paced at the difference, by the same means
as under *Uploads* and whether or not `uploads` is on. Each break would let the scheduler queue megabytes on slow Wi-Fi, for which the peer has to wait. What was queued there when Wi-Fi became slow comes first all the same:
until then the peer gets what Wi-Fi carries. Where nothing can be paced cellular comes and goes as for downloads.

**Roaming** (`roam`). In the handoff stage, before its link is lost, the card is asked to move to the strongest other access point of its network, when a scan has heard one that is delta2 / 2 stronger; windows and cellular are ready then
as at any handoff. wpa_supplicant does it; Tandem sees to it that the card does not go to and fro, and that it stays in its network (docs/aps.md). `tandem status` says what was asked, and what became of it.

**Taking over.** In the handoff stage cellular is regular before R0 is missing, since MP_PRIO takes a round trip and the sender's first windows some more; a rest ends. Until the warning is over
or Wi-Fi is back, for 10 s at most and once in 20 s; then the account decides again.

**Wi-Fi is gone.** When the link goes down and cellular carries next to nothing yet, or is down for 300 ms, the Wi-Fi address loses its MPTCP endpoint: the kernel resets that subflow and tells the server by cellular (REMOVE_ADDR), which sends again by cellular
at once what was under way by Wi-Fi. Else the stream waits for the server's timer. Where cellular carries already, what stands in its queue comes before, and is sent twice, which only a longer absence is worth. The endpoint is there again as soon as Wi-Fi is. All that the download gets meanwhile comes by cellular, as fast as that is, also where R0 is less. Only an endpoint of
Tandem's making is taken away, and none by which some connection has its only subflow. Without the promise it stays, where cellular must not be used, and while a budget limits cellular: a download that has no other subflow would go on there when that is spent.

Both ends must speak MPTCP, and the cellular address needs an endpoint: `mptcp.setup`, or `mptcp.foreign` for one made by others (docs/configuration.md).

`strategy = "published"` carries out the rates of algorithms 1 and 2 instead, for comparison: cellular for the share R2 / C2 of every half second, and windows for R1.

**What it costs.** What MPTCP subflows carry by cellular while the promise is on counts against `[budget]`, which is 10 MB a day unless it is raised: five seconds of 18 Mb/s. A warning
without a handoff costs what comes by cellular until it is over. With the budget spent, roaming or metered and `never`, nothing is asked of cellular, and the endpoint that Tandem made there is taken away. While a connection to a private peer is open, cellular is left alone, too: an endpoint is all
connections'.

**What cannot be held** is said: `r0` or `r0_up` above `c1` + `c2` is refused; `tandem status` shows what is held at a handoff (R1h + C2), for how long what is left of the budget makes up for a Wi-Fi that is gone, whether R0 is held now, and why not.

**Senders** (`tandem flows` says which kind a flow faces). All are treated alike, as every TCP obeys a window; what they gain differs:

| sender | what is done |
|---|---|
| loss-based, unknown | all of the above. Such a sender fills the queue at the access point, and that is what the bound takes away |
| rate-based (BBR) | all of the above. By itself it has up to two bandwidth-delay products in flight, so 1.5 leave it its pipe and the probing for more, and one at a handoff leaves it its pipe. Measured before handoffs in the lab (docs/results/roaming.md, three pairs): a round trip of 39 ms for 75, as with CUBIC (43 for 68), at 0.996 of the goodput of the walk, though 15.4 for 16.5 Mb/s in the last two seconds |
| unresponsive: not Linux's TCP | all of the above: a window asks for no undo. Not measured |

Of uploads the sender is this laptop, and its pace is bounded under CUBIC as under BBR (docs/results/uploads.md). The promise needs a sender that speaks MPTCP and heeds MP_PRIO, of whichever kind.)";
}

std::span<const Knob> RatePolicy::knobs() const
{
  return all_knobs;
}

void RatePolicy::set(std::string_view knob, double value)
{
  set_knob(knobs_, knob_rows, knob, value);
  wrong_.clear();
  try
  {
    const ClaParameters given = parameters(knobs_);
    check(given);
    check_carried(given, knobs_.r0_up, "R0 of uploads");
  }
  catch (const BadInput& bad)
  {
    wrong_ = bad.what();
  }
}

double RatePolicy::get(std::string_view knob) const
{
  return get_knob(knobs_, knob_rows, knob);
}

Interest RatePolicy::interest() const
{
  const std::uint32_t uploads =
      knobs_.uploads != 0 || promises_uploads() ? traffic::egress_data | traffic::ingress_ack : traffic::none;
  // Without the promise all it does is done to one flow, and its gain can be measured flow by flow.
  if (!promises())
    return { .decide = traffic::egress_pure_ack, .observe = traffic::ingress_data | uploads, .radio = true };
  return { .decide = traffic::egress_pure_ack,
           .observe = traffic::egress_pure_ack | traffic::ingress_data | uploads,
           .radio = true,
           .every_link = true };
}

// The stage, from what the radio tells of all Wi-Fi links.
void RatePolicy::hear(const Event& event)
{
  signals_ = { .now = event.now, .at_risk = of(*event.links, Link::wifi).at_risk };
  const LinkState& cell = of(*event.links, Link::cell);
  budget_ = without_limit(cell) ? std::nullopt : std::optional { cell.bytes_left };
  const auto hear_other = [this](float dbm)
  {
    const double signal = static_cast<double>(dbm) - knobs_.noise;
    signals_.S2 = std::max(signals_.S2.value_or(signal), signal);
  };
  for (std::size_t i = 0; i < most_wifi; ++i)
  {
    const LinkState& link = of(*event.links, wifi_link(i));
    if (!link.radio || !link.radio->signal) continue;
    if (i == 0)
      signals_.S1 = static_cast<double>(*link.radio->signal) - knobs_.noise;
    else
      hear_other(*link.radio->signal);
  }
  // Where this card may go. The candidates of other cards are theirs.
  if (const auto& radio = of(*event.links, Link::wifi).radio; radio && radio->candidate)
  {
    hear_other(*radio->candidate);
    signals_.candidate = static_cast<double>(*radio->candidate) - knobs_.noise;
  }
  roam_.look(parameters(knobs_), signals_, stages_.look(parameters(knobs_), signals_));
}

Plan RatePolicy::bound(const Event& event, const FlowView& flow, State& state)
{
  if (flow.link != Link::wifi) return {};
  const bool up = of(*event.links, Link::wifi).up;
  // Another access point may have another path behind it.
  if (up != state.up) state.window.forget();
  state.up = up;
  if (event.kind != EventKind::segment) return {};
  state.window.measure(flow, event.now);
  if (!event.queued || !event.segment->is_pure_ack() || event.segment->direction != Direction::egress) return {};
  if (stages_.now() == Stage::stationary || !up)
  {
    state.window.open();
    return {};
  }
  if (published()) return bound_as_published(event, flow, state);
  const bool handoff = stages_.now() == Stage::handoff;
  const auto window = state.window.bound(*event.segment, flow, event.now, handoff ? headroom_at_handoff : headroom);
  if (!window) return {};
  return { .edit = { .window = window },
           .why = handoff ? "rate: window bounded at a handoff" : "rate: window bounded before a handoff" };
}

// Of an MPTCP connection each subflow by Wi-Fi by itself: each is a socket.
void RatePolicy::bound_upload(const Event& event, const FlowView& flow, State& state, Plan& plan)
{
  if (flow.link != Link::wifi || plan.quiet) return;
  const bool up = of(*event.links, Link::wifi).up;
  const bool changed = up != std::exchange(state.upload_up, up);
  const bool stationary = stages_.now() == Stage::stationary;
  const auto limit = published() ? published_rate(state.upload.best()) : std::optional { 0.0 };
  if (knobs_.uploads == 0 || !up || changed || stationary || !limit)
  {
    if (state.upload.open()) plan.pace = Pace {};
    if (plan.pace && plan.why.empty()) plan.why = "rate: upload as fast as it likes again";
    if (changed) state.upload.forget();
    if ((knobs_.uploads != 0 || promises_uploads()) && up) state.upload.measure(event.segment, flow, event.now);
    return;
  }
  state.upload.measure(event.segment, flow, event.now);
  const bool handoff = stages_.now() == Stage::handoff;
  const double times = published() ? 1 : handoff ? upload_headroom_at_handoff : headroom;
  const auto pace = state.upload.pace(flow, event.now, times, *limit);
  if (!pace) return;
  plan.pace = Pace { *pace };
  if (plan.why.empty()) plan.why = handoff ? "rate: upload paced at a handoff" : "rate: upload paced before a handoff";
}

// Of what is missing of the uploads' R0 each subflow by cellular gets an equal share. Sent all at once it would wait in
// cellular's queue and, at the peer, for what is on its way by Wi-Fi.
void RatePolicy::share_cellular(const Event& event, const FlowView& flow, State& state, Plan& plan)
{
  if (flow.link != Link::cell || !flow.mptcp) return;
  const std::optional<double> pace = promises_uploads() && !difference_.used() ? uploads_.pace() : std::nullopt;
  if (!pace || !state.subflow.uploads(flow, event.now))
  {
    if (state.by_cell.open()) plan.pace = Pace {};
    return;
  }
  const std::uint32_t sharing = std::max(subflows_.by_cell.count(event.now), 1u);
  const auto told = state.by_cell.tell(with_headers * *pace / sharing, event.now);
  if (!told) return;
  plan.pace = Pace { *told };
  if (plan.why.empty()) plan.why = "rate: upload by cellular as fast as R0 takes";
}

// What algorithms 1 to 3 ask for. Without a signal no handoff is near.
ClaState RatePolicy::state_of(double wifi_rate, double cell_rate) const
{
  constexpr double strong = 100; // dB
  return { .S1 = signals_.S1.value_or(strong), .S2 = signals_.S2, .R1 = wifi_rate, .R2 = cell_rate };
}

// R_1^1 of algorithm 2, bits/s; nothing where it asks for none. Never 0, which would be no limit.
std::optional<double> RatePolicy::published_rate(double wifi_rate) const
{
  const ClaParameters p = parameters(knobs_);
  const ClaState now = state_of(wifi_rate, 0);
  if (stage(p, now) != ClaStage::pre_handoff) return {};
  return std::max(1.0, pre_handoff(p, now).wifi);
}

Plan RatePolicy::bound_as_published(const Event& event, const FlowView& flow, State& state)
{
  const auto rate = published_rate(flow.delivery_rate * 8);
  if (!rate)
  {
    state.window.open();
    return {};
  }
  const auto window = state.window.bound(*event.segment, flow, event.now, 1, *rate);
  return window ? Plan { .edit = { .window = window }, .why = "rate: window as published" } : Plan {};
}

// Why nothing may be asked of the cellular link; empty: it may.
std::string_view RatePolicy::hindered(const LinkStates& links) const
{
  if (!wrong_.empty()) return "rate: the knobs do not fit together";
  const LinkState& cell = of(links, Link::cell);
  if (!cell.present || !cell.up) return "rate: no cellular link is up";
  if (!cell.route && !cell.route_v6) return "rate: the cellular link must not be used, or leads nowhere";
  if (static_cast<double>(cell.bytes_left) < knobs_.c2 / 8 * seconds(overshoot))
    return cell.bytes_left < next_to_nothing
               ? "rate: the cellular budget is spent"
               : "rate: less is left of the cellular budget than half a second at c2 takes";
  if (subflows_.denied > 0) return "rate: a private peer's connection is open, cellular is left alone";
  return {};
}

Plan RatePolicy::keep(const Event& event, const FlowView& flow)
{
  const bool told_of_links = event.kind == EventKind::link && event.now != looked_at_;
  if (event.now < next_ && !told_of_links) return say_again(event, flow);
  looked_at_ = event.now;
  next_ = event.now + look_every;
  const std::string_view hindrance = hindered(*event.links);
  const auto look = [&](Difference& one, double r0, const Carried& carried, bool paced)
  {
    return one.look({ .now = event.now,
                      .R0 = r0,
                      .wifi = carried.wifi,
                      .cell = carried.cell,
                      .wifi_up = of(*event.links, Link::wifi).up,
                      .limited = stages_.now() != Stage::stationary || event.now - carried.queue_at < 1s,
                      .leaving = stages_.now() == Stage::handoff,
                      .paced = paced,
                      .hindered = hindrance });
  };
  used_ = look(difference_, knobs_.r0, subflows_.down, false);
  // MP_PRIO holds for both directions, so what the one gets the other has, too.
  if (promises_uploads())
    used_ = look(uploads_, knobs_.r0_up, subflows_.up, !difference_.used()) || used_;
  else if (!uploads_.idle())
    uploads_ = of_uploads(); // what they were does not count any more
  std::string_view why =
      promises_uploads() && uploads_.used() && !difference_.used() ? uploads_.why() : difference_.why();
  if (published())
  {
    const bool may = !difference_.idle() && hindrance.empty();
    used_ = may && share_.look(event.now, parameters(knobs_), state_of(difference_.wifi(), difference_.cell()));
    if (may) why = "rate: cellular for the published share of time";
  }
  const LinkState& cell = of(*event.links, Link::cell);
  const bool away = wifi_endpoint_.look({ .now = event.now,
                                          .up = of(*event.links, Link::wifi).up,
                                          .carried = subflows_.on_wifi > 0,
                                          .cellular = hindrance.empty() && !published() && without_limit(cell)
                                                      && (difference_.needed() || uploads_.needed()),
                                          .rested = difference_.cell() + uploads_.cell() < at_rest * knobs_.r0 });
  Plan plan {};
  // Without data there is nothing to look at: the next packet asks again.
  const Tick moved = std::max({ difference_.moved(), uploads_.moved(), of(*event.links, Link::wifi).changed });
  const bool silent = event.now - moved >= silent_after;
  if (transfers()) plan.wake = silent ? event.now + tell_every : next_;
  const bool same = (requests_[0].value == 0) == used_ && away == told_away_;
  if (told_ && told_at_ + tell_every > event.now && same) return plan;
  if (away && !told_away_) why = "rate: Wi-Fi is gone, cellular carries what was under way there";
  tell(event.now, away, plan);
  if (hears_of_loss(event, flow)) told_at_ = {};
  plan.why = why;
  return plan;
}

// What was asked when Wi-Fi went, if nobody may have heard it: by the next flow that hears of it.
Plan RatePolicy::say_again(const Event& event, const FlowView& flow)
{
  const bool heard = !told_ || told_at_ != Tick {};
  if (heard || of(*event.links, Link::wifi).up || hears_of_loss(event, flow)) return {};
  Plan plan { .why = difference_.why() };
  tell(event.now, told_away_, plan);
  return plan;
}

void RatePolicy::tell(Tick now, bool away, Plan& plan)
{
  told_ = true;
  told_at_ = now;
  requests_[0] = { .kind = RequestKind::mptcp_backup, .link = Link::cell, .value = used_ ? 0.0 : 1.0 };
  requests_[1] = { .kind = RequestKind::mptcp_endpoint, .link = Link::wifi, .value = away ? 0.0 : 1.0 };
  // Nothing is asked about an endpoint that was never taken away: `ecn` may have asked.
  plan.request = { requests_.data(), away || told_away_ ? 2u : 1u };
  told_away_ = away;
}

// The promise was switched off, and what was requested for it does not lapse with a knob.
Plan RatePolicy::take_back()
{
  if (!told_) return {};
  used_ = false;
  difference_ = Difference {};
  uploads_ = of_uploads();
  wifi_endpoint_ = {};
  Plan plan { .why = "rate: no promise any more" };
  tell({}, false, plan);
  told_ = false;
  return plan;
}

// With a plan that asks for nothing else, so that the reason is its own: the radio is heard ten times a second.
void RatePolicy::ask_for_roam(const Event& event, const FlowView& flow, Plan& plan)
{
  const Tick now = event.now;
  if (hears_of_loss(event, flow)) return;
  const bool wanted = knobs_.roam != 0 && roam_.now();
  if (!plan.why.empty() || !plan.request.empty() || (!wanted && !roam_told_)) return;
  if (wanted && roam_told_ && now < roam_told_at_ + tell_every) return;
  roam_told_ = wanted;
  roam_told_at_ = now;
  roam_requests_[0] = { .kind = RequestKind::roam, .link = Link::wifi, .value = wanted ? 1.0 : 0.0 };
  plan.request = roam_requests_;
  plan.why = knobs_.roam != 0 ? roam_.why() : "rate: roaming is switched off";
}

// Of plain TCP. When Wi-Fi comes back no MPTCP flow may be left that would take back what was asked for it: a silent
// connection is forgotten, but lives on.
Plan RatePolicy::decide_plain(const Event& event, const FlowView& flow, State& state)
{
  if (faster_than_wifi(flow, *event.links)) return { .quiet = event.now + look_again };
  Plan plan = bound(event, flow, state);
  const bool up = of(*event.links, Link::wifi).up && !hears_of_loss(event, flow);
  if (!told_ || !up || (event.kind != EventKind::link && event.kind != EventKind::alarm)) return plan;
  return promises() ? keep(event, flow) : take_back();
}

Plan RatePolicy::decide_flow(const Event& event, const FlowView& flow, State& state)
{
  if (!flow.mptcp) return decide_plain(event, flow, state);
  // One subflow's window bounds nothing: a Linux sender raises it to the connection's.
  if (!promises())
  {
    state.subflow.pass_over(flow);
    return hears_of_loss(event, flow) ? Plan {} : take_back();
  }
  state.subflow.account(flow, event.now, state.upload.queue(), subflows_);
  return keep(event, flow);
}

Plan RatePolicy::decide(const Event& event, const FlowView& flow, State& state)
{
  if (event.kind == EventKind::switched_off)
  {
    // The chain lets the window open. What was requested lapses with the module, but idle flows get this event, too,
    // and then it stands: it is asked for again, and has to be taken back.
    told_at_ = roam_told_at_ = {};
    state.window.open();
    state.upload.open();
    state.by_cell.open();
    return {};
  }
  hear(event);
  Plan plan = decide_flow(event, flow, state);
  bound_upload(event, flow, state, plan);
  share_cellular(event, flow, state, plan);
  ask_for_roam(event, flow, plan);
  return plan;
}

void RatePolicy::describe(const FlowView& flow, const State& state, Facts& facts) const
{
  if (const double pace = std::max(state.upload.paced(), state.by_cell.rate()); pace > 0)
    facts.add("upload paced at", pace * 1e-6, "Mb/s");
  if (flow.mptcp)
  {
    facts.add("state", promises() ? difference_.why() : "rate: MPTCP, and no promise");
    return;
  }
  facts.add("state", rate::name(stages_.now()));
  if (!state.window.bounding()) return;
  facts.add("window", state.window.bytes(), "bytes");
  facts.add("least round trip", milliseconds(state.window.least_round_trip()), "ms");
}

void RatePolicy::report(Facts& facts) const
{
  facts.add("stage", rate::name(stages_.now()));
  if (signals_.S1) facts.add("S1", *signals_.S1, "dB");
  if (signals_.S2) facts.add("S2", *signals_.S2, "dB");
  if (knobs_.roam != 0) facts.add("roam", roam_.now() ? "asked for" : roam_.why());
  if (!promises()) return;
  if (!wrong_.empty())
  {
    facts.add("promise", wrong_);
    return;
  }
  facts.add("promise", difference_.why());
  facts.add("R0", knobs_.r0 * 1e-6, "Mb/s");
  facts.add("R0 held", difference_.idle() ? "nothing to hold" : difference_.held() ? "yes" : "no");
  if (const double held = held_at_handoff(parameters(knobs_)); held < knobs_.r0)
    facts.add("held at a handoff", held * 1e-6, "Mb/s");
  if (budget_) facts.add("without Wi-Fi the budget lasts", static_cast<double>(*budget_) * 8 / knobs_.r0, "s");
  if (!difference_.idle())
  {
    facts.add("R1", difference_.wifi() * 1e-6, "Mb/s");
    facts.add("R2", difference_.cell() * 1e-6, "Mb/s");
  }
  if (promises_uploads())
  {
    facts.add("promise for uploads", uploads_.why());
    facts.add("R0 of uploads", knobs_.r0_up * 1e-6, "Mb/s");
    facts.add("R0 of uploads held", uploads_.idle() ? "nothing to hold" : uploads_.held() ? "yes" : "no");
    if (!uploads_.idle())
    {
      facts.add("R1 of uploads", uploads_.wifi() * 1e-6, "Mb/s");
      facts.add("R2 of uploads", uploads_.cell() * 1e-6, "Mb/s");
    }
  }
  if (transfers()) facts.add("cellular", used_ ? "used" : "backup");
}

TANDEM_MODULE(RatePolicy);

} // namespace tandem::rate
