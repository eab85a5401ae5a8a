#include "modules/ecn/ecn.h"

#include <tandem/knob_table.h>

#include <algorithm>

namespace tandem::ecn
{

namespace
{

using namespace std::chrono_literals;

constexpr std::array<std::string_view, 3> strategy_words { "closed", "published", "on_off" };

constexpr Knob strategy_knob {
  .name = "strategy",
  .type = KnobType::choice,
  .maximum = static_cast<double>(strategy_words.size() - 1),
  .help = "closed: use the worse access points as far as the measured goodput gains by it; published: only mark, by "
          "equation 5; on_off: one "
          "access point at a time, in turn, for comparison",
  .choices = strategy_words,
};

constexpr std::array<KnobRow<Knobs>, 1> rows { {
    { { .name = "leave_dead",
        .type = KnobType::boolean,
        .minimum = 0,
        .maximum = 1,
        .help = "take the endpoint of a link that is down away (REMOVE_ADDR by another link), and put it back when it "
                "is up; only endpoints that Tandem made" },
      &Knobs::leave_dead },
} };

// The module's own knobs and those of its parts.
constexpr auto all_knobs = []
{
  std::array<Knob, 1 + Marking::rows.size() + ClosedLoop::rows.size() + rows.size()> all { strategy_knob };
  std::size_t count = 1;
  const auto add = [&]<class Part, std::size_t size>(const std::array<KnobRow<Part>, size>& part)
  {
    for (const KnobRow<Part>& row : part)
    {
      all[count] = row.knob;
      all[count++].initial = Part {}.*row.field;
    }
  };
  add(Marking::rows);
  add(ClosedLoop::rows);
  add(rows);
  return all;
}();

constexpr std::array<RetiredKnob, 19> retired { {
    { .name = "threshold", .now = "is a constant now: 1.2 (section 5.2)" },
    { .name = "release", .now = "is a constant now: 1.1" },
    { .name = "hold", .now = "is a constant now: 500 ms" },
    { .name = "clear", .now = "is a constant now: 2" },
    { .name = "confidence", .now = "is a constant now: 0.2" },
    { .name = "remember", .now = "is a constant now: 600 s" },
    { .name = "cap", .now = "is a constant now: 0.05 (section 6.2.1)" },
    { .name = "buffer", .now = "is a constant now: 200 packets (section 5.2)" },
    { .name = "settle", .now = "is a constant now: 500 ms" },
    { .name = "measure", .now = "is a constant now: 1 s" },
    { .name = "gain", .now = "is a constant now: 0.05" },
    { .name = "full", .now = "is a constant now: 0.75" },
    { .name = "retry", .now = "is a constant now: 10 s" },
    { .name = "retry_most", .now = "is a constant now: 160 s" },
    { .name = "cycle", .now = "is a constant now: 250 ms" },
    { .name = "share", .now = "is a constant now: 0.5" },
    { .name = "on_off_cycle", .now = "is a constant now: 200 ms (section 7)" },
    { .name = "on_off_alpha", .now = "is a constant now: 2 (equation 6)" },
    { .name = "on_off_least", .now = "is a constant now: 10 ms (section 7)" },
} };

constexpr Duration tell_every = 2s;

} // namespace

std::string_view Ecn::summary() const
{
  return "Steers MPTCP downloads away from access points that waste the air of their channel, by CE marks or MP_PRIO, "
         "as "
         "far as the measured goodput gains by it.";
}

std::string_view Ecn::manual() const
{
  return R"(A laptop that is connected to two access points on one channel shares one air with both. The access points take turns packet by packet, so
one with a slow radio takes most of the air and delivers little, and an MPTCP sender cannot see that: both subflows look equally congested.
`ecn` compares the packet times T_i that the radio source gives for each link (`docs/radio.md`), and keeps the worse access points out as far as
the download gains by it.

**Who is worse.** Links of one frequency on which MPTCP connections have subflows are ranked by T_i. A link is worse when its packet time is at least
1.2 times the best one (section 5.2) for half a second (at once when it is twice), and good again below 1.1 times. A link without a packet time, or with a stale one, gets nothing;
so is everything when there is one access point only. Links of another channel take none of this air and are left alone. Good links are used, up to `most_used`. With more than eight Wi-Fi links MPTCP is left alone: what is kept off one
link might go to a worse one that nobody sees.

**Who is tried again.** Of a link that is left out nothing arrives but beacons; its last packet time counts. It is tried again when its beacons are heard at least
3 dB better than when that packet time was measured and are, by their trend, about to be the stronger ones; when the best link takes twice as long as then,
unless it is itself heard 3 dB worse; and after ten minutes. What a try finds counts from then on, so one that brought nothing is repeated only after another 3 dB.
A sender that couples its subflows is marked on the link that carries the download while the other is tried, and for up to 3 s before that link is left, unless that is twice as slow: OLIA
otherwise keeps the new one at a packet for many seconds.

**How far it is used (strategy `closed`).** Level 0 uses the good links alone; level 1 the best of the worse ones for half of every 250 ms; the
levels above use one, two .. of the worse links whole. The module holds a level and measures the goodput of all subflows together. Another level is
tried for a second or so when it has a chance: the air that is left over must carry 5 % more at the worse link's rate. While the good links alone bring half of what the worse one could,
they have six seconds first, and longer as long as they gain: beside others at a bottleneck a download comes to its part slowly. The other level stays when it brings
that much (a lower one: when it brings no less). A level that lost is tried again after 10 s, then after twice that, up to 160 s; a
lasting drop of the goodput or another order of links forgets what was learned. So the slow access point is left out where it only wastes air, and
used where the fast one's uplink is the bottleneck, without being told which.

**Others on the air.** Where the driver's survey tells how busy the channel is, nothing is tried while 75 % of its time is in use, and a look at the good links
alone that finds it full without the worse ones decides for them: what the worse links would bring would be taken from others. A driver without
busy times leaves the module blind for that. Senders that couple their subflows are fair by themselves; for them the measured goodput decides on full air, too.

**By what means.** A link is left out by MP_PRIO: its MPTCP endpoint becomes a backup, and senders use it only when no other is there. That works with
every MPTCP sender. Marks work only where the sender couples its subflows (LIA, OLIA): there a worse link in use also gets CE marks at the
rate of equation 5, the largest that leaves the sender's idea of that path's throughput intact, by a rule in the kernel, on ECN-capable packets
of MPTCP only, and only while every connection on the link has a subflow on a better one. Linux since 5.6 does not couple: marks on one path starve the other as
well (measured: 57 Mb/s become 5 to 22), so version 1 of MPTCP gets none unless `sender` says otherwise. ECT(1) is never marked: its senders
answer marks in proportion (RFC 9331). With AccECN (RFC 9768) the marks are counted more exactly and answered alike; nothing differs.

**Equation 5** has a pole where the round-trip time is BUF / 4 packet times (a queue of 200 packets is assumed, section 5.2); below it the queue that the equation takes for granted
would be longer than the round trip. There the rate is the largest, 5 % (section 6.2.1; `below_pole`).

A link that is down while another one is up loses its endpoint (REMOVE_ADDR), so that the sender sends again by the other at once, and gets it back
when it is up (`leave_dead`); but not before every connection on it goes on by another Wi-Fi link, since one that has lost its last subflow ends. Tandem deletes only endpoints that it made itself, see `mptcp.setup` in docs/configuration.md.

`published` marks and does nothing else; `on_off` uses one access point at a time, in turn. Both are there for comparison.

**Senders.** Which kind of TCP sends (`tandem flows`) is not asked: nothing here rests on how a sender takes a loss. What counts is MPTCP, and whether it couples its subflows:

| sender | what is done |
|---|---|
| any kind, plain TCP | nothing |
| any kind, MPTCP | a link is left out by MP_PRIO as far as the measured goodput gains by it, which is the judge whatever the kind; the endpoint of a dead link is taken away |
| loss-based or unknown, coupled (MPTCP version 0, or as `sender` says) | CE marks, too |
| loss-based or unknown, not coupled (version 1) | no marks |
| rate-based (BBR) | marks by the same rule; Linux's BBR does not answer them, so they move nothing and cost nothing |
| unresponsive: not Linux's TCP | marks by the same rule, answered as by any TCP that negotiated ECN (RFC 3168). No such stack that speaks MPTCP was tried |)";
}

std::span<const Knob> Ecn::knobs() const
{
  return all_knobs;
}

std::span<const RetiredKnob> Ecn::retired_knobs() const
{
  return retired;
}

void Ecn::set(std::string_view knob, double value)
{
  if (knob == strategy_knob.name)
  {
    chosen_ = std::min(static_cast<std::size_t>(value), strategies_.size() - 1);
    strategy().restart();
  }
  set_knob(knobs_, rows, knob, value);
  set_knob(marking_.knobs, Marking::rows, knob, value);
  set_knob(closed_loop_.knobs, ClosedLoop::rows, knob, value);
}

double Ecn::get(std::string_view knob) const
{
  if (knob == strategy_knob.name) return static_cast<double>(chosen_);
  // Each name is in one of them; the others return 0.
  return get_knob(knobs_, rows, knob) + get_knob(marking_.knobs, Marking::rows, knob)
         + get_knob(closed_loop_.knobs, ClosedLoop::rows, knob);
}

Interest Ecn::interest() const
{
  return { .observe = traffic::egress_pure_ack | traffic::ingress_data, .radio = true, .every_link = true };
}

void Ecn::tick(const Event& event)
{
  const LinkStates& links = *event.links;
  LeftOut left_out {};
  for (std::size_t i = 0; i < most_wifi; ++i)
    left_out[i] = told_[at(wifi_link(i))].backup;
  times_.learn(links, left_out, subflows_.delivered(), strategy().least_confidence(), ranking_.best_time(), event.now);
  std::array<Candidate, most_wifi> candidates {};
  bool other_up = false;
  for (std::size_t i = 0; i < most_wifi; ++i)
  {
    const Link link = wifi_link(i);
    const LinkState& state = links[at(link)];
    other_up = other_up || (state.up && subflows_.path(link).flows > 0);
    candidates[i] = { .usable = state.up && subflows_.siblings(link),
                      .packet_time = times_.now()[i],
                      .frequency = state.radio ? state.radio->frequency : 0 };
  }
  const bool changed = ranking_.update(candidates, event.now, {});
  const View view { event.now, links, subflows_, ranking_, times_.now(), times_.sought(), changed };
  strategy().look(view);

  wanted_ = {};
  next_ = event.now + look_every;
  const auto& sought = times_.sought();
  if (links[at(Link::other)].present)
    // What is kept off one link goes to the others, and the worst of them may be one that nobody sees.
    why_ = "ecn: more access points than are seen";
  else if (ranking_.order().size() + static_cast<std::size_t>(std::count(sought.begin(), sought.end(), true)) >= 2)
  {
    next_ = strategy().treat(view, wanted_);
    why_ = strategy().why(view);
  }
  else
  {
    const auto count = [&](bool timed)
    {
      return std::count_if(candidates.begin(), candidates.end(),
                           [timed](const Candidate& c) { return c.usable && (!timed || c.packet_time); });
    };
    // What one takes of its air costs the other nothing there; the card's turns choose between them.
    why_ = count(true) >= 2    ? "ecn: access points of several channels"
           : count(false) >= 2 ? "ecn: packet times not known"
                               : "ecn: one access point";
  }
  for (std::size_t i = 0; i < most_wifi && knobs_.leave_dead != 0; ++i)
  {
    const Link link = wifi_link(i);
    const LinkState& state = links[at(link)];
    // Its subflows go with its endpoint; until it is up a new one would be tried in vain. No connection may lose the
    // last one that works: the kernel gives it no other (mptcp_nl_add_subflow_or_signal_addr), and ends it.
    const bool leave = told_[at(link)].dead || subflows_.all_go_on_without(link, links);
    wanted_[at(link)].dead = other_up && state.present && !state.up && leave;
  }
}

Plan Ecn::plan(const Event& event)
{
  Plan plan {};
  std::size_t count = 0;
  // LinkRequests are states. Who carries them out may have dropped some, with a link or after a fault.
  retell_ = retell_ || event.now - told_at_ >= tell_every;
  for (std::size_t i = 0; i < link_count; ++i)
  {
    const Link link = static_cast<Link>(i);
    if (wanted_[i].ce_rate != told_[i].ce_rate || (retell_ && wanted_[i].ce_rate > 0))
      requests_[count++] = { .kind = RequestKind::ce_rate, .link = link, .value = wanted_[i].ce_rate };
    if (wanted_[i].backup != told_[i].backup || (retell_ && wanted_[i].backup))
      requests_[count++] = { .kind = RequestKind::mptcp_backup, .link = link, .value = wanted_[i].backup ? 1.0 : 0.0 };
    if (wanted_[i].dead != told_[i].dead || (retell_ && wanted_[i].dead))
      requests_[count++] = { .kind = RequestKind::mptcp_endpoint, .link = link, .value = wanted_[i].dead ? 0.0 : 1.0 };
  }
  if (count > 0)
  {
    told_ = wanted_;
    if (retell_) told_at_ = event.now;
    retell_ = false;
    plan.request = { requests_.data(), count };
    plan.why = why_;
  }
  if (wake_ <= event.now || next_ < wake_) plan.wake = wake_ = next_;
  return plan;
}

Plan Ecn::decide(const Event& event, const FlowView& flow, State& state)
{
  if (event.kind == EventKind::switched_off)
  {
    // What was requested for lapses with the module. Idle flows get this event too.
    retell_ = true;
    return {};
  }
  if (!flow.mptcp || flow.mptcp_token == 0) return {};
  subflows_.account(event, flow, state);
  if (hears_of_loss(event, flow)) return {}; // the next event of another flow requests it
  if (event.now < next_ && event.kind != EventKind::link && event.kind != EventKind::radio)
    return wake_ <= event.now ? plan(event) : Plan {};
  tick(event);
  return plan(event);
}

void Ecn::describe(const FlowView& flow, const State& state, Facts& facts) const
{
  if (state.owner == nullptr)
  {
    facts.add("state", flow.mptcp ? "the connection's token is not known" : "not MPTCP");
    return;
  }
  facts.add("state", why_);
  const Treatment& treatment = told_[at(flow.link)];
  facts.add("link", treatment.dead ? "down, endpoint taken away" : treatment.backup ? "backup" : "in use");
  facts.add("ce_rate", treatment.ce_rate);
  strategy().describe(facts);
}

TANDEM_MODULE(Ecn);

} // namespace tandem::ecn
