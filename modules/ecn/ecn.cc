#include "modules/ecn/ecn.h"

#include <tandem/knob_table.h>

#include <algorithm>
#include <cmath>

namespace tandem::ecn
{

namespace
{

using namespace std::chrono_literals;

constexpr std::array<std::string_view, 3> strategies { "closed", "published", "on_off" };
constexpr std::array<std::string_view, 3> senders { "automatic", "coupled", "uncoupled" };
constexpr std::array<std::string_view, 3> pole_words { "cap", "formula", "nothing" };
constexpr std::array<std::string_view, 2> rtt_words { "least", "smoothed" };

constexpr std::array<KnobRow<Knobs>, 24> rows { {
    { { .name = "sender",
        .type = KnobType::choice,
        .maximum = static_cast<double>(senders.size() - 1),
        .help = "whether senders couple their subflows (LIA, OLIA), so that marks move load; automatic: MPTCP version "
                "0 does, version 1, Linux since 5.6, does not (measured)",
        .choices = senders },
      &Knobs::sender },
    { { .name = "threshold",
        .minimum = 1.01,
        .maximum = 100,
        .help = "a link is worse from so many times the best packet time on (Croitoru et al. 5.2: 1.2)" },
      &Knobs::threshold },
    { { .name = "release",
        .minimum = 1,
        .maximum = 100,
        .help = "a worse link is good again below so many times the best packet time" },
      &Knobs::release },
    { { .name = "hold",
        .type = KnobType::duration,
        .unit = "s",
        .minimum = 0,
        .maximum = 60,
        .help = "how long a packet time must say so before a link becomes worse, or good again" },
      &Knobs::hold },
    { { .name = "clear",
        .minimum = 1.01,
        .maximum = 100,
        .help = "a link is worse without waiting for hold from so many times the best packet time on" },
      &Knobs::clear },
    { { .name = "confidence",
        .maximum = 1,
        .help = "a packet time counts with at least so much confidence; until then the one before does, for two "
                "seconds of traffic" },
      &Knobs::confidence },
    { { .name = "remember",
        .type = KnobType::duration,
        .unit = "s",
        .minimum = 1,
        .maximum = 3600,
        .help = "how long the packet time of a link that is left out counts: nothing arrives there that could tell "
                "another one. It is looked at again earlier when the best packet time has grown clear times" },
      &Knobs::remember },
    { { .name = "cap", .minimum = 0, .maximum = 1, .help = "largest share of packets to mark (section 6.2.1: 0.05)" },
      &Knobs::cap },
    { { .name = "buffer",
        .unit = "packets",
        .minimum = 4,
        .maximum = 10000,
        .help = "assumed queue of an access point: BUF of equation 5 (section 5.2: 200)" },
      &Knobs::buffer },
    { { .name = "below_pole",
        .type = KnobType::choice,
        .maximum = static_cast<double>(pole_words.size() - 1),
        .help = "marks where the round-trip time is below BUF / 4 packet times and equation 5 has no meaning: the cap, "
                "what the formula gives as printed, or nothing",
        .choices = pole_words },
      &Knobs::below_pole },
    { { .name = "rtt",
        .type = KnobType::choice,
        .maximum = static_cast<double>(rtt_words.size() - 1),
        .help = "round-trip time for equation 5: the least of the last seconds, which a full queue does not hide, or "
                "the smoothed one",
        .choices = rtt_words },
      &Knobs::rtt },
    { { .name = "most_used",
        .type = KnobType::integer,
        .minimum = 1,
        .maximum = 8,
        .help = "access points used at the same time (section 6.2.1, figure 6c: not more than 3 or 4)" },
      &Knobs::most_used },
    { { .name = "settle",
        .type = KnobType::duration,
        .unit = "s",
        .minimum = 0.05,
        .maximum = 10,
        .help = "wait after a change before its effect is measured; at least two round-trip times" },
      &Knobs::settle },
    { { .name = "measure",
        .type = KnobType::duration,
        .unit = "s",
        .minimum = 0.2,
        .maximum = 5,
        .help = "how long a level's goodput is measured; three times as long when that leaves it open" },
      &Knobs::measure },
    { { .name = "gain", .minimum = 0, .maximum = 1, .help = "share of goodput that more links must bring" },
      &Knobs::gain },
    { { .name = "full",
        .minimum = 0.1,
        .maximum = 10,
        .help = "share of time in use, by anybody, from which on the air counts as full, where the driver's survey "
                "tells it" },
      &Knobs::full },

    { { .name = "retry",
        .type = KnobType::duration,
        .unit = "s",
        .minimum = 0.5,
        .maximum = 600,
        .help = "until a level that brought less is tried again; doubles with every time" },
      &Knobs::retry },
    { { .name = "retry_most",
        .type = KnobType::duration,
        .unit = "s",
        .minimum = 0.5,
        .maximum = 3600,
        .help = "longest of these times" },
      &Knobs::retry_most },
    { { .name = "cycle",
        .type = KnobType::duration,
        .unit = "s",
        .minimum = 0.02,
        .maximum = 5,
        .help = "cycle in which MP_PRIO opens and closes a link that is used part of the time (measured: 0.25 halves "
                "the rate)" },
      &Knobs::cycle },
    { { .name = "share", .minimum = 0.05, .maximum = 0.95, .help = "part of the cycle in which it is open" },
      &Knobs::share },
    { { .name = "on_off_cycle",
        .type = KnobType::duration,
        .unit = "s",
        .minimum = 0.02,
        .maximum = 5,
        .help = "strategy on_off: all slots together (section 7: at most 0.2, the least retransmission time-out)" },
      &Knobs::on_off_cycle },
    { { .name = "on_off_alpha",
        .minimum = 0,
        .maximum = 10,
        .help = "strategy on_off: slots go with this power of the link's rate (equation 6)" },
      &Knobs::on_off_alpha },
    { { .name = "on_off_least",
        .type = KnobType::duration,
        .unit = "s",
        .minimum = 0.001,
        .maximum = 1,
        .help = "strategy on_off: shortest slot (section 7: 0.01)" },
      &Knobs::on_off_least },
    { { .name = "leave_dead",
        .type = KnobType::boolean,
        .minimum = 0,
        .maximum = 1,
        .help = "take the endpoint of a link that is down away (REMOVE_ADDR by another link), and put it back when it "
                "is up; only endpoints that Tandem made" },
      &Knobs::leave_dead },
} };

constexpr Knob strategy_knob {
  .name = "strategy",
  .type = KnobType::choice,
  .maximum = static_cast<double>(strategies.size() - 1),
  .help = "closed: use the worse access points as far as the measured goodput gains by it; published: only mark, by "
          "equation 5; on_off: one "
          "access point at a time, in turn, for comparison",
  .choices = strategies,
};

constexpr auto all_knobs = knob_table(strategy_knob, rows);

constexpr Duration look_every = 100ms;
constexpr Duration tell_every = 2s;
constexpr Duration unsure_for = 5s;      // of traffic, without a packet time that can be believed
constexpr Duration radio_window = 500ms; // of an estimate (section 5.1)
constexpr Duration evidence_for = 4s;
constexpr Duration look_again = 5s;
constexpr Duration least_span = 5s;   // of one of the two spans that the least round-trip time is taken over
constexpr Duration markable_for = 2s; // after the last ECN-capable packet
constexpr double full_packet = 1500;  // bytes of the packet that T_i is about (equation 1: MSS)

constexpr std::size_t at(Link link)
{
  return static_cast<std::size_t>(link);
}

Duration least_of(const Path& path)
{
  const Duration least = std::min(path.least[0], path.least[1]);
  return least == Duration::max() ? path.smoothed : least;
}

} // namespace

State::~State()
{
  if (owner != nullptr) owner->left(*this);
}

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
`threshold` times the best one for `hold` (at once when it is `clear` times), and good again below `release` times. A link without a packet time, or with a stale one, is left alone;
so is everything when there is one access point only. Good links are used, up to `most_used`.

**How far it is used (strategy `closed`).** Level 0 uses the good links alone; level 1 the best of the worse ones for a `share` of every `cycle`; the
levels above use one, two .. of the worse links whole. The module holds a level and measures the goodput of all subflows together. Another level is
tried for a second or so when it has a chance: the air that is left over must carry `gain` more at the worse link's rate. It stays when it brings
that much (a lower one: when it brings no less). A level that lost is tried again after `retry`, then after twice that, up to `retry_most`; a
lasting drop of the goodput or another order of links forgets what was learned. So the slow access point is left out where it only wastes air, and
used where the fast one's uplink is the bottleneck, without being told which.

**Others on the air.** Where the driver's survey tells how busy the channel is, nothing is tried while the air is `full`, and a look at the good links
alone that finds it full without the worse ones decides for them: what the worse links would bring would be taken from others. A driver without
busy times leaves the module blind for that. Senders that couple their subflows are fair by themselves; for them the measured goodput decides on full air, too.

**By what means.** A link is left out by MP_PRIO: its MPTCP endpoint becomes a backup, and senders use it only when no other is there. That works with
every MPTCP sender. Marks work only where the sender couples its subflows (LIA, OLIA): there a worse link in use also gets CE marks at the
rate of equation 5, the largest that leaves the sender's idea of that path's throughput intact, by a rule in the kernel, on ECN-capable packets
of MPTCP only, and only while every connection on the link has a subflow on a better one. Linux since 5.6 does not couple: marks on one path starve the other as
well (measured: 57 Mb/s become 5 to 22), so version 1 of MPTCP gets none unless `sender` says otherwise. ECT(1) is never marked: its senders
answer marks in proportion (RFC 9331). With AccECN (RFC 9768) the marks are counted more exactly and answered alike; nothing differs.

**Equation 5** has a pole where the round-trip time is `buffer` / 4 packet times; below it the queue that the equation takes for granted
would be longer than the round trip. There the rate is `cap` (`below_pole`).

A link that is down while another one is up loses its endpoint (REMOVE_ADDR), so that the sender sends again by the other at once, and gets it back
when it is up (`leave_dead`). Tandem deletes only endpoints that it made itself, see `mptcp.setup` in docs/configuration.md.

`published` marks and does nothing else; `on_off` uses one access point at a time, in turn. Both are there for comparison.)";
}

std::span<const Knob> Ecn::knobs() const
{
  return all_knobs;
}

void Ecn::set(std::string_view knob, double value)
{
  if (knob == strategy_knob.name)
  {
    knobs_.strategy = value;
    loop_ = {};
  }
  set_knob(knobs_, rows, knob, value);
}

double Ecn::get(std::string_view knob) const
{
  return knob == strategy_knob.name ? knobs_.strategy : get_knob(knobs_, rows, knob);
}

Interest Ecn::interest() const
{
  return { .observe = traffic::egress_pure_ack | traffic::ingress_data, .radio = true, .every_link = true };
}

// ---- who is where
// ------------------------------------------------------------------------------------------------------------------

void Ecn::left(const State& state)
{
  --paths_[at(state.link)].flows;
  const auto connection = connections_.find(state.token);
  if (connection == connections_.end()) return;
  auto& flows = connection->second.flows;
  --flows[at(state.link)];
  if (std::all_of(flows.begin(), flows.end(), [](std::uint16_t n) { return n == 0; })) connections_.erase(connection);
}

void Ecn::account(const Event& event, const FlowView& flow, State& state)
{
  Path& path = paths_[at(flow.link)];
  if (state.owner == nullptr)
  {
    state.owner = this;
    state.link = flow.link;
    state.token = flow.mptcp_token;
    ++path.flows;
    Connection& connection = connections_[state.token];
    ++connection.flows[at(flow.link)];
    if (flow.mptcp_version) connection.version = flow.mptcp_version;
  }
  path.delivered += flow.bytes_delivered - state.counted;
  state.counted = flow.bytes_delivered;
  if (flow.rtt_smoothed > Duration {})
  {
    path.smoothed = flow.rtt_smoothed;
    if (event.now - path.least_from >= least_span)
    {
      path.least = { Duration::max(), path.least[0] };
      path.least_from = event.now;
    }
    if (flow.rtt_min > Duration {}) path.least[0] = std::min(path.least[0], flow.rtt_min);
  }
  // ECT(1) is what L4S senders use (RFC 9331), who answer marks in proportion: the equation is not about them.
  if (flow.ecn && event.kind == EventKind::segment && event.segment->direction == Direction::ingress
      && (flow.ecn_seen == tandem::Ecn::ect0 || flow.ecn_seen == tandem::Ecn::ce))
    path.markable_at = event.now;
}

// Whether some connection has subflows on this link and on another Wi-Fi link. `good_only`: whether all connections on
// this link have others on one that is not worse.
bool Ecn::siblings(Link link, bool good_only) const
{
  bool any = false;
  for (const auto& [token, connection] : connections_)
  {
    if (connection.flows[at(link)] == 0) continue;
    bool here = false;
    for (std::size_t i = 0; i < most_wifi; ++i)
      if (const Link other = wifi_link(i); other != link && connection.flows[at(other)] > 0)
        here = here || !good_only || !ranking_.worse(i);
    if (good_only && !here) return false;
    any = any || here;
  }
  return any;
}

bool Ecn::coupled(Link link) const
{
  const auto sender = static_cast<Sender>(static_cast<int>(knobs_.sender));
  if (sender != Sender::automatic) return sender == Sender::coupled;
  return std::all_of(connections_.begin(), connections_.end(),
                     [&](const auto& entry)
                     { return entry.second.flows[at(link)] == 0 || entry.second.version.value_or(1) == 0; });
}

// ---- what is to be done
// ------------------------------------------------------------------------------------------------------------

double Ecn::rate_for(Link link, const LinkState& state, Tick now) const
{
  const Path& path = paths_[at(link)];
  if (!state.radio || !state.radio->packet_time || path.markable_at == Tick {} || now - path.markable_at > markable_for
      || !coupled(link) || !siblings(link, true))
    return 0;
  const bool smoothed = static_cast<RttChoice>(static_cast<int>(knobs_.rtt)) == RttChoice::smoothed;
  return delta(times_[wifi_number(link)].value_or(*state.radio->packet_time), smoothed ? path.smoothed : least_of(path),
               { .buffer = knobs_.buffer,
                 .cap = knobs_.cap,
                 .below_pole = static_cast<BelowPole>(static_cast<int>(knobs_.below_pole)) });
}

// Returns when to look again.
Tick Ecn::treat(const LinkStates& links, Tick now)
{
  const bool closed = strategy() == Strategy::closed;
  const auto order = ranking_.order();
  const auto most = static_cast<std::size_t>(knobs_.most_used);
  const std::size_t good_used = std::min(ranking_.good(), most);
  const std::size_t level = closed ? loop_.level() : 1 + order.size();
  const bool unmarked = closed && marking_ && level + 1 == loop_levels_;
  Tick next = now + look_every;
  for (std::size_t i = 0; i < order.size(); ++i)
  {
    const Link link = wifi_link(order[i]);
    Treatment& treatment = wanted_[at(link)];
    if (i < ranking_.good())
    {
      treatment.backup = closed && i >= most;
      continue;
    }
    const std::size_t place = i - ranking_.good(); // among the worse ones
    if (closed && level == 1 && place == 0)
    {
      // Open in the first part of every cycle.
      const Duration cycle = from_seconds(knobs_.cycle), open = from_seconds(knobs_.cycle * knobs_.share);
      const Duration into = now.time_since_epoch() % cycle;
      treatment.backup = into >= open;
      next = std::min(next, now - into + (into < open ? open : cycle));
    }
    else
      treatment.backup = closed && (level < 2 || place >= level - 1 || good_used + place >= most);
    if (!treatment.backup && !unmarked) treatment.ce_rate = rate_for(link, links[at(link)], now);
  }
  return next;
}

// One access point at a time: slots by equation 6, the rate being what the packet times allow.
Tick Ecn::treat_in_turn(Tick now)
{
  const auto order = ranking_.order();
  std::array<double, most_wifi> slots {};
  double sum = 0;
  for (std::size_t i = 0; i < order.size(); ++i)
    sum += slots[i] = std::pow(seconds(*times_[order[i]]), -knobs_.on_off_alpha);
  double cycle = 0;
  for (std::size_t i = 0; i < order.size(); ++i)
    cycle += slots[i] = std::max(knobs_.on_off_least, slots[i] / sum * knobs_.on_off_cycle);
  double left = seconds(now.time_since_epoch() % from_seconds(cycle));
  Tick next = now + look_every;
  bool found = false;
  for (std::size_t i = 0; i < order.size(); ++i)
  {
    const bool now_on = !found && (left < slots[i] || i + 1 == order.size());
    wanted_[at(wifi_link(order[i]))].backup = !now_on;
    if (now_on) next = std::min(next, now + std::max<Duration>(1ms, from_seconds(slots[i] - left)));
    found = found || now_on;
    left -= slots[i];
  }
  return next;
}

// A link that gets few packets, because a slow one takes the air, says little at a time.
std::optional<Duration> Ecn::believe(Evidence& evidence, const RadioState& radio, Tick now, double least)
{
  if (radio.confidence >= least)
  {
    evidence = {};
    return radio.packet_time;
  }
  if (now - evidence.taken < radio_window) return {}; // the same frames
  if (now - evidence.from > evidence_for) evidence = { .from = now };
  evidence.taken = now;
  evidence.weight += radio.confidence;
  evidence.weighted_time += radio.confidence * seconds(*radio.packet_time);
  if (evidence.weight < least) return {};
  const Duration mean = from_seconds(evidence.weighted_time / evidence.weight);
  evidence = { .from = now, .taken = now };
  return mean;
}

// A link that is left out has no traffic by which its packet time could be told: the last one counts, as long as the
// radio says something of another link.
void Ecn::learn_times(const LinkStates& links, Tick now)
{
  std::uint64_t delivered = 0;
  for (const Path& path : paths_)
    delivered += path.delivered;
  if (delivered != delivered_) traffic_ += std::min<Duration>(now - learned_, unsure_for);
  delivered_ = delivered;
  learned_ = now;
  bool alive = false;
  const bool published = strategy() == Strategy::published;
  const double least = published ? 0 : knobs_.confidence;
  const auto sure = [&](const Memory& memory) { return traffic_ - memory.traffic_at <= unsure_for; };
  for (std::size_t i = 0; i < most_wifi; ++i)
  {
    const auto& radio = links[at(wifi_link(i))].radio;
    // Looking again costs a flood of a queue. It is worth it when the good links have become much worse since.
    if (memory_[i]
        && (now - memory_[i]->at > from_seconds(knobs_.remember)
            || (now - memory_[i]->at > look_again && memory_[i]->best_then > Duration {}
                && seconds(ranking_.best_time()) >= knobs_.clear * seconds(memory_[i]->best_then))))
      memory_[i].reset();
    if (radio && radio->packet_time && *radio->packet_time > Duration {})
      if (const auto believed = believe(evidence_[i], *radio, now, least))
        memory_[i] = { *believed, now, traffic_, ranking_.best_time() };
    alive = alive || (memory_[i] && !told_[at(wifi_link(i))].backup && sure(*memory_[i]));
  }
  for (std::size_t i = 0; i < most_wifi; ++i)
  {
    if (memory_[i] && alive && told_[at(wifi_link(i))].backup) memory_[i]->traffic_at = traffic_;
    times_[i].reset();
    if (memory_[i] && sure(*memory_[i])) times_[i] = memory_[i]->packet_time;
  }
}

void Ecn::tick(const Event& event)
{
  const LinkStates& links = *event.links;
  learn_times(links, event.now);
  std::array<Candidate, most_wifi> candidates {};
  bool other_up = false;
  for (std::size_t i = 0; i < most_wifi; ++i)
  {
    const Link link = wifi_link(i);
    const LinkState& state = links[at(link)];
    other_up = other_up || (state.up && paths_[at(link)].flows > 0);
    candidates[i] = { .usable = state.up && siblings(link, false),
                      .packet_time = times_[i],
                      .frequency = state.radio ? state.radio->frequency : 0 };
  }
  const bool changed = ranking_.update(candidates, event.now,
                                       { .threshold = knobs_.threshold,
                                         .release = std::min(knobs_.release, knobs_.threshold),
                                         .hold = from_seconds(knobs_.hold),
                                         .clear = knobs_.clear });
  const std::size_t worse = ranking_.order().size() - ranking_.good();
  const auto most = static_cast<std::size_t>(knobs_.most_used);
  const std::size_t usable = std::min(worse, most - std::min(ranking_.good(), most));
  Look look { .delivered = delivered_, .levels = usable == 0 ? 1 : usable + 2, .changed = changed };
  marking_ = false;
  if (usable > 0)
  {
    const Link first = wifi_link(ranking_.order()[ranking_.good()]);
    look.capacity = full_packet / seconds(ranking_.best_time());
    look.spare = full_packet / seconds(*times_[ranking_.order()[ranking_.good()]]);
    marking_ = rate_for(first, links[at(first)], event.now) > 0;
    look.levels += marking_ ? 1 : 0;
    // A coupled sender is fair to others by itself. Without the worse link it would take less than its part: LIA counts
    // the window of a subflow that lies idle.
    if (!coupled(first))
      for (const std::uint8_t one : ranking_.order())
        if (const auto& radio = links[at(wifi_link(one))].radio; radio && radio->busy)
          look.busy = std::max(look.busy.value_or(0), static_cast<double>(*radio->busy));
    // It moves by itself, too, and comes back slowly to a subflow that lay idle. But marks leave what stands in the
    // queue of a link that has just become slow, or is clearly slow: that one is left at once.
    look.first = marking_ && !ranking_.turned() && look.capacity < knobs_.clear * look.spare ? 2 : 0;
  }
  for (const Path& path : paths_)
  {
    if (path.flows == 0) continue;
    look.rtt = std::max(look.rtt, path.smoothed);
    look.rtt_least = std::max(look.rtt_least, least_of(path));
  }
  // Levels that nobody puts in force must not be judged.
  if (strategy() != Strategy::closed) look.levels = 1;
  loop_levels_ = look.levels;
  loop_.look(look, event.now,
             { .settle = from_seconds(knobs_.settle),
               .measure = from_seconds(knobs_.measure),
               .gain = knobs_.gain,
               .full = knobs_.full,
               .retry = from_seconds(knobs_.retry),
               .retry_most = from_seconds(std::max(knobs_.retry, knobs_.retry_most)) });

  wanted_ = {};
  next_ = event.now + look_every;
  if (ranking_.order().size() >= 2)
  {
    const bool in_turn = strategy() == Strategy::on_off;
    next_ = in_turn ? treat_in_turn(event.now) : treat(links, event.now);
    why_ = in_turn                          ? "ecn: one access point at a time"
           : worse == 0                     ? "ecn: all access points are good"
           : strategy() != Strategy::closed ? "ecn: marked as published"
           : loop_.trying()                 ? "ecn: another level is tried"
           : loop_.level() == 0             ? "ecn: the good access points alone"
           : loop_.level() == 1             ? "ecn: a worse access point part of the time"
                                            : "ecn: worse access points bring more";
  }
  else
  {
    const bool several =
        std::count_if(candidates.begin(), candidates.end(), [](const Candidate& c) { return c.usable; }) >= 2;
    why_ = several ? "ecn: packet times not known" : "ecn: one access point";
  }
  for (std::size_t i = 0; i < most_wifi && knobs_.leave_dead != 0; ++i)
  {
    const LinkState& state = links[at(wifi_link(i))];
    wanted_[at(wifi_link(i))].dead = other_up && state.present && !state.up && paths_[at(wifi_link(i))].flows > 0;
  }
}

// ---- the module
// --------------------------------------------------------------------------------------------------------------------

Plan Ecn::plan(const Event& event)
{
  Plan plan {};
  std::size_t count = 0;
  // Wishes are states. Who carries them out may have dropped some, with a link or after a fault.
  retell_ = retell_ || event.now - told_at_ >= tell_every;
  for (std::size_t i = 0; i < link_count; ++i)
  {
    const Link link = static_cast<Link>(i);
    if (wanted_[i].ce_rate != told_[i].ce_rate || (retell_ && wanted_[i].ce_rate > 0))
      wishes_[count++] = { .kind = WishKind::ce_rate, .link = link, .value = wanted_[i].ce_rate };
    if (wanted_[i].backup != told_[i].backup || (retell_ && wanted_[i].backup))
      wishes_[count++] = { .kind = WishKind::mptcp_backup, .link = link, .value = wanted_[i].backup ? 1.0 : 0.0 };
    if (wanted_[i].dead != told_[i].dead || (retell_ && wanted_[i].dead))
      wishes_[count++] = { .kind = WishKind::mptcp_endpoint, .link = link, .value = wanted_[i].dead ? 0.0 : 1.0 };
  }
  if (count > 0)
  {
    told_ = wanted_;
    if (retell_) told_at_ = event.now;
    retell_ = false;
    plan.wish = { wishes_.data(), count };
    plan.why = why_;
  }
  if (wake_ <= event.now || next_ < wake_) plan.wake = wake_ = next_;
  return plan;
}

Plan Ecn::decide(const Event& event, const FlowView& flow, State& state)
{
  if (event.kind == EventKind::switched_off)
  {
    // What was wished for lapses with the module. Idle flows get this event too.
    retell_ = true;
    return {};
  }
  if (!flow.mptcp || flow.mptcp_token == 0) return {};
  account(event, flow, state);
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
  facts.add("level", static_cast<double>(loop_.level()));
  facts.add("goodput", loop_.goodput() * 8e-6, "Mb/s");
  facts.add("levels tried", static_cast<double>(loop_.trials()));
  facts.add("levels won", static_cast<double>(loop_.moves()));
}

TANDEM_MODULE(Ecn);

} // namespace tandem::ecn
