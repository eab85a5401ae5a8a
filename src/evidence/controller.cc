#include "src/evidence/controller.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

namespace tandem::evidence
{

namespace
{

using namespace std::chrono_literals;

constexpr int stretch_rtts = 50;      // what a window does takes some tens of round trips
constexpr Duration usual_rtt = 100ms; // no module may need what it is measured by
constexpr int washout_rtts = 4;       // after a change, which count for neither
constexpr Duration least_washout = 200ms;
constexpr Duration pause = 1s;            // between one transfer and the next
constexpr Duration settled = 2s;          // since the link came back
constexpr Duration engagement = 1s;       // what a module is about is waited for, but not longer
constexpr Duration opening_longest = 10s; // of a flow that is compared with another
constexpr Duration pair_lasts = 10min;    // between the two
constexpr double opening_weight = 0.5;    // two flows differ by more than their modules
constexpr double most_of_time = 1.0 / 3;  // while a module seems to harm
constexpr std::uint64_t least_opening = 64'000, least_stretch = 32'000; // bytes that are worth a comparison
constexpr Duration shortest_opening = 50ms;
// Packets for so long behind the last progress: a server's timer (RTO) has fired.
constexpr Duration least_stall = 200ms;

constexpr Modules bit(std::size_t i)
{
  return static_cast<Modules>(1u << i);
}

constexpr Modules without(Modules all, Modules some)
{
  return static_cast<Modules>(all & ~some);
}

// The finaliser of splitmix64.
constexpr std::uint64_t mix(std::uint64_t h)
{
  h += 0x9e3779b97f4a7c15ull;
  h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9ull;
  h = (h ^ (h >> 27)) * 0x94d049bb133111ebull;
  return h ^ (h >> 31);
}

// Whether modules may be switched: nothing is at hand that one of them may be dealing with.
bool calm(const FlowSeen& seen, const Surroundings& now, Tick at, Duration waited)
{
  if (!now.up || now.at_risk || at - now.changed < settled || seen.hole) return false;
  return !seen.engaged || waited >= engagement;
}

} // namespace

Controller::Controller(Settings settings, std::vector<std::string> modules, Memory memory)
    : settings_ { settings }, modules_ { std::move(modules) }, memory_ { std::move(memory) }
{
  if (modules_.size() > most_modules) modules_.resize(most_modules);
}

void Controller::move(const NetworkSigns& network, const std::string& cell, WallTime wall)
{
  // An SSID has 32 bytes at most; nothing that is kept is longer than this.
  constexpr std::size_t longest = 64;
  const NetworkSigns signs { network.ssid.substr(0, longest), network.gateway.substr(0, longest), network.unique };
  const std::uint32_t known = memory_.recognize(signs, wall);
  if (known == network_ && cell == cell_) return;
  network_ = known;
  cell_ = cell;
  ++stay_;
  stats_.given_up += pairs_.size();
  pairs_.clear();
}

// The same seed and flows: the same draws.
double Controller::draw(std::uint64_t id, Flow& flow) const
{
  const std::uint64_t bits = mix(settings_.seed ^ mix(id ^ mix(flow.draws++)));
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

std::string Controller::name_of(Modules modules) const
{
  std::string name;
  for (std::size_t i = 0; i < modules_.size(); ++i)
    if ((modules & bit(i)) != 0) name += (name.empty() ? "" : "+") + modules_[i];
  return name;
}

// Looked up when something was learnt since, else once a second: a rest may be over.
Modules Controller::at_rest(Flow& flow, Modules comparable, const Now& at)
{
  if (flow.resting_known == memory_.changes() && flow.resting_of == comparable && flow.resting_at != Tick {}
      && at.tick - flow.resting_at < 1s)
    return flow.resting;
  flow.resting = 0;
  for (std::size_t i = 0; i < modules_.size(); ++i)
    if ((comparable & bit(i)) != 0 && memory_.standing(flow.place, modules_[i], at.wall) != Standing::acting)
      flow.resting |= bit(i);
  flow.resting_known = memory_.changes();
  flow.resting_of = comparable;
  flow.resting_at = at.tick;
  return flow.resting;
}

// What is compared next, if anything: all that act against none, one against the rest, or what rests on trial. Each as
// often as it is worth; on average the share of the time is without something.
std::optional<Controller::Comparison> Controller::draw_comparison(std::uint64_t id, Flow& flow, Modules comparable,
                                                                  const Now& at)
{
  const Modules resting = at_rest(flow, comparable, at);
  const Modules acting = without(comparable, resting);
  std::array<std::pair<Modules, double>, most_modules + 1> worth {};
  std::size_t count = 0;
  double sum = 0;
  const auto add = [&](Modules toggled)
  {
    const double urgency = memory_.urgency(flow.place, name_of(toggled), at.wall);
    if (urgency <= 0) return;
    worth[count++] = { toggled, urgency };
    sum += urgency;
  };
  if (std::popcount(acting) > 1) add(acting);
  for (std::size_t i = 0; i < modules_.size(); ++i)
    if ((comparable & bit(i)) != 0) add(bit(i));
  if (count == 0) return {};

  // Of two stretches one is without: with the chance q of a comparison q / (1 + q) of the time is.
  const double usual = settings_.share / (1 - std::min(settings_.share, 0.5));
  const double chance = std::min(usual * sum / static_cast<double>(count), std::max(usual, most_of_time));
  if (draw(id, flow) >= chance) return {};
  double left = draw(id, flow) * sum;
  std::size_t chosen = 0;
  while (chosen + 1 < count && left >= worth[chosen].second)
    left -= worth[chosen++].second;
  return Comparison { .toggled = worth[chosen].first, .without_first = draw(id, flow) < 0.5 };
}

Duration Controller::stretch_of(Duration rtt) const
{
  return std::clamp(stretch_rtts * (rtt > Duration {} ? rtt : usual_rtt), settings_.shortest, settings_.longest);
}

// ---- openings: whole flows, as most are short ----

Ruling Controller::begin(const FlowSeen& seen, const Surroundings& now, const Now& at)
{
  if (settings_.share <= 0 || network_ == 0) return {};
  Flow& flow = flows_[seen.id] = { .place = { network_, cell_, prefix_of(seen.server) },
                                   .stay = stay_,
                                   .begun = at.tick,
                                   .bytes = seen.delivered,
                                   .next_draw = at.tick,
                                   .delivered = seen.delivered,
                                   .progress = at.tick,
                                   .busy_since = at.tick,
                                   .seen = true };
  flow.ruling = { at_rest(flow, now.comparable, at), false };
  if (!now.too_fast && now.up) open(seen.id, flow, now, at);
  return flow.ruling;
}

void Controller::open(std::uint64_t id, Flow& flow, const Surroundings& now, const Now& at)
{
  auto found = pairs_.find(flow.place);
  if (found != pairs_.end()
      && (at.tick - found->second.begun > pair_lasts || without(found->second.comparison.toggled, now.comparable) != 0))
  {
    ++stats_.given_up;
    pairs_.erase(found);
    found = pairs_.end();
  }
  if (found == pairs_.end())
  {
    // Most servers are asked once and not again: the flow that would have been the second one does not come.
    if (pairs_.size() >= most_pairs)
      stats_.given_up +=
          std::erase_if(pairs_, [&](const auto& one) { return at.tick - one.second.begun > pair_lasts; });
    if (pairs_.size() >= most_pairs) return;
    auto drawn = draw_comparison(id, flow, now.comparable, at);
    if (!drawn) return;
    drawn->weight = opening_weight;
    found = pairs_.emplace(flow.place, Pair { .id = next_pair_++, .comparison = *drawn, .begun = at.tick }).first;
    ++stats_.begun;
  }
  Pair& pair = found->second;
  if (pair.flows == pair.rates.size()) return;
  flow.pair = pair.id;
  flow.half = pair.flows++;
  flow.comparison = pair.comparison;
  const bool is_without = (flow.half == 0) == pair.comparison.without_first;
  const Modules toggled = pair.comparison.toggled;
  flow.ruling.rests =
      is_without ? static_cast<Modules>(flow.ruling.rests | toggled) : without(flow.ruling.rests, toggled);
  flow.ruling.watched = true;
  flow.bare = is_without && without(now.comparable, flow.ruling.rests) == 0;
  flow.phase = Phase::opening;
}

void Controller::opening(const FlowSeen& seen, Flow& flow, const Surroundings& now, const Now& at)
{
  if (now.at_risk)
  {
    // A blackout is foreseen: whoever prepares for it is needed now.
    flow.ruling.rests = at_rest(flow, now.comparable, at);
    flow.delivered = flow.bytes;
    flow.stalled = false;
  }
  else if (!seen.closed)
    flow.stalled = stalled(seen, flow, now);
  const bool paused = flow.delivered > flow.bytes && !flow.stalled && at.tick - flow.progress >= pause;
  if (!seen.closed && !paused && !now.at_risk && at.tick - flow.begun < opening_longest) return;
  end_opening(flow, at);
  flow.phase = flow.bare && !now.at_risk ? Phase::plain : Phase::ending;
  flow.begun = at.tick;
  if (flow.phase == Phase::plain) plain(seen, flow, now, at);
}

// A module that carries over is not cut out of long flows, so that only those show what a download is wholly without
// the modules. It is measured no more: nothing of it needs to be seen.
void Controller::plain(const FlowSeen& seen, Flow& flow, const Surroundings& now, const Now& at)
{
  flow.ruling = { now.comparable, false };
  if (!now.at_risk && !now.too_fast && flow.stay == stay_) return;
  // As in an opening.
  flow.phase = Phase::ending;
  flow.begun = at.tick;
  if (now.at_risk)
    flow.ruling.rests = at_rest(flow, now.comparable, at);
  else
    usual(seen, flow, now, at);
}

// A server that has said all, or a reader that waits, is no stall, nor is what this host says meanwhile. One is where
// data beyond a hole has come, where what comes is nothing new, and where the link has gone in the middle. It lasts
// until the next progress. The first two are stalls before anything has come, too: who stops a flow at once would never
// be found out otherwise.
bool Controller::stalled(const FlowSeen& seen, const Flow& flow, const Surroundings& now)
{
  if (seen.unread) return false;
  const bool again = seen.last_seen - flow.progress >= least_stall && seen.sent == flow.sent;
  const bool link_went = !now.up && now.changed - flow.progress < pause && flow.delivered > flow.bytes;
  return flow.stalled || seen.hole || again || link_went;
}

void Controller::end_opening(Flow& flow, const Now& at)
{
  const auto found = pairs_.find(flow.place);
  if (found == pairs_.end() || found->second.id != flow.pair) return;
  Pair& pair = found->second;
  const std::uint64_t bytes = flow.delivered - flow.bytes;
  if (bytes < least_opening && !flow.stalled)
  {
    // Too short to say anything: no matter what the other one did.
    ++stats_.empty;
    pairs_.erase(found);
    return;
  }
  // A module that stalls a transfer is not judged by what came before.
  const Tick end = flow.stalled ? at.tick : flow.progress;
  pair.rates[flow.half] =
      static_cast<double>(bytes) / seconds(std::max(end - flow.begun, Duration { shortest_opening }));
  if (!pair.rates[0] || !pair.rates[1]) return;
  const bool first_without = pair.comparison.without_first;
  ++stats_.done;
  learn(flow.place, pair.comparison, *pair.rates[first_without ? 1 : 0], *pair.rates[first_without ? 0 : 1], at.wall);
  pairs_.erase(found);
}

// ---- stretches within a long flow ----

Ruling Controller::look(const FlowSeen& seen, const Surroundings& now, const Now& at)
{
  if (settings_.share <= 0 || network_ == 0) return {};
  auto found = flows_.find(seen.id);
  if (found == flows_.end())
  {
    // Older than what is known of the network, or its address was away.
    found = flows_.emplace(seen.id, Flow { .place = { network_, cell_, prefix_of(seen.server) }, .stay = stay_ }).first;
    found->second.begun = found->second.progress = found->second.busy_since = found->second.next_draw = at.tick;
    found->second.delivered = seen.delivered;
    // What rests here does not begin meanwhile; what has begun lets go at a calm moment.
    found->second.ruling.rests = without(at_rest(found->second, now.comparable, at), seen.acting);
  }
  Flow& flow = found->second;
  flow.seen = true;
  follow(seen, flow);
  switch (flow.phase)
  {
  case Phase::opening:
    opening(seen, flow, now, at);
    break;
  case Phase::plain:
    plain(seen, flow, now, at);
    break;
  case Phase::usual:
    usual(seen, flow, now, at);
    break;
  case Phase::wanted:
    if (calm(seen, now, at.tick, at.tick - flow.begun) && may_compare(seen, flow, now, at.tick))
      begin_stretch(seen, flow, Phase::first, now, at);
    else if (at.tick - flow.begun >= flow.length + engagement)
      give_up(flow, Phase::usual, at.tick);
    break;
  case Phase::first:
  case Phase::second:
    stretch(seen, flow, now, at);
    break;
  case Phase::ending:
    usual(seen, flow, now, at);
    break;
  }
  return flow.ruling;
}

// Takes note of what the flow has done since the last look.
void Controller::follow(const FlowSeen& seen, Flow& flow)
{
  if (seen.delivered <= flow.delivered) return;
  if (seen.last_seen - flow.progress >= pause) flow.busy_since = seen.last_seen;
  flow.progress = seen.last_seen;
  flow.delivered = seen.delivered;
  flow.sent = seen.sent;
  flow.stalled = false;
}

// A flow that was busy for so long will most likely be for as long again.
bool Controller::may_compare(const FlowSeen& seen, const Flow& flow, const Surroundings& now, Tick at) const
{
  return flow.stay == stay_ && seen.needed && !seen.closed && !now.too_fast && at - flow.progress < pause
         && at - flow.busy_since >= 2 * stretch_of(seen.rtt);
}

// All that is permitted acts; now and then a comparison is drawn.
void Controller::usual(const FlowSeen& seen, Flow& flow, const Surroundings& now, const Now& at)
{
  const Modules resting = at_rest(flow, now.comparable, at);
  const Ruling wanted { resting, false };
  if (flow.ruling != wanted)
  {
    // In a blackout nothing is switched; a loss episode that never ends is not waited for for ever.
    const Duration waited = at.tick - flow.begun;
    if (!calm(seen, now, at.tick, waited) && (!now.up || waited < settings_.longest)) return;
    flow.ruling = wanted;
  }
  flow.phase = Phase::usual;
  flow.begun = at.tick;
  if (at.tick < flow.next_draw || !may_compare(seen, flow, now, at.tick)) return;
  flow.length = stretch_of(seen.rtt);
  flow.next_draw = at.tick + flow.length;
  // What never began on this flow, or was taken out of it, has nothing to show.
  const auto comparable = without(static_cast<Modules>(now.comparable & (seen.acting | resting)), now.carrying_over);
  const auto drawn = draw_comparison(seen.id, flow, comparable, at);
  if (!drawn) return;
  flow.comparison = *drawn;
  flow.comparison.weight = seconds(flow.length) / 4;
  flow.phase = Phase::wanted;
  ++stats_.begun;
}

void Controller::begin_stretch(const FlowSeen& seen, Flow& flow, Phase phase, const Surroundings& now, const Now& at)
{
  const Modules resting = at_rest(flow, now.comparable, at);
  const bool is_without = (phase == Phase::first) == flow.comparison.without_first;
  flow.ruling = { is_without ? static_cast<Modules>(resting | flow.comparison.toggled)
                             : without(resting, flow.comparison.toggled),
                  true };
  flow.phase = phase;
  flow.begun = at.tick;
  const Duration washout = std::max(washout_rtts * (seen.rtt > Duration {} ? seen.rtt : usual_rtt), least_washout);
  flow.counted = at.tick + std::min(washout, flow.length / 4);
  flow.counting = false;
}

void Controller::stretch(const FlowSeen& seen, Flow& flow, const Surroundings& now, const Now& at)
{
  if (seen.closed || now.too_fast || flow.stay != stay_) return give_up(flow, Phase::ending, at.tick);
  if (now.at_risk)
  {
    // As in an opening.
    flow.ruling.rests = at_rest(flow, now.comparable, at);
    return give_up(flow, Phase::ending, at.tick);
  }
  if (!flow.counting && at.tick >= flow.counted)
  {
    flow.counting = true;
    flow.counted = at.tick;
    flow.bytes = flow.delivered;
  }
  const Duration over = at.tick - flow.begun - flow.length;
  if (over < Duration {}) return;
  // A blackout counts, and what comes after it; a change in it would not be one of modules alone.
  if (calm(seen, now, at.tick, over)) end_stretch(seen, flow, now, at);
  // A loss episode that does not end is not waited for for ever; but a module that stalls the flow is not spared by it.
  else if (now.up && at.tick - now.changed >= settled && over >= flow.length + engagement
           && at.tick - flow.progress < pause)
    give_up(flow, Phase::ending, at.tick);
}

void Controller::end_stretch(const FlowSeen& seen, Flow& flow, const Surroundings& now, const Now& at)
{
  const double rate = static_cast<double>(flow.delivered - flow.bytes) / seconds(at.tick - flow.counted);
  if (flow.phase == Phase::first)
  {
    flow.rate = rate;
    return begin_stretch(seen, flow, Phase::second, now, at);
  }
  const double least = static_cast<double>(least_stretch) / seconds(flow.length);
  const double with = flow.comparison.without_first ? rate : *flow.rate;
  const double bare = flow.comparison.without_first ? *flow.rate : rate;
  if (std::max(with, bare) < least)
    ++stats_.empty;
  else
  {
    ++stats_.done;
    learn(flow.place, flow.comparison, with, bare, at.wall);
  }
  flow.phase = Phase::ending;
  flow.begun = at.tick;
  flow.next_draw = at.tick + flow.length;
  usual(seen, flow, now, at);
}

void Controller::give_up(Flow& flow, Phase next, Tick at)
{
  ++stats_.given_up;
  flow.phase = next;
  flow.begun = at;
  flow.next_draw = at + flow.length;
}

void Controller::sweep(const Now& at)
{
  for (auto one = flows_.begin(); one != flows_.end();)
  {
    Flow& flow = one->second;
    if (std::exchange(flow.seen, false))
    {
      ++one;
      continue;
    }
    if (flow.phase == Phase::opening)
      end_opening(flow, at);
    else if (flow.phase == Phase::first || flow.phase == Phase::second || flow.phase == Phase::wanted)
      ++stats_.given_up;
    one = flows_.erase(one);
  }
}

// ---- what follows ----

void Controller::learn(const Place& place, const Comparison& comparison, double with, double without, WallTime wall)
{
  // Nothing at all is as far as a comparison goes, see Sequence::most.
  const double least = std::max(with, without) * 1e-3;
  const double difference = std::log(std::max(with, least) / std::max(without, least));
  const std::string what = name_of(comparison.toggled);
  const auto rests = [&](const Place& where)
  {
    const Tally* tally = memory_.find(where, what);
    return tally != nullptr && tally->standing == Standing::resting;
  };
  const bool rested_here = rests(place), rested_everywhere = rests(place.everywhere());
  if (!memory_.add(place, what, difference, comparison.weight, wall)) return;
  // These servers may speak for themselves, and say something else than the network does with their help.
  const bool everywhere = !rested_everywhere && rests(place.everywhere());
  const bool found = everywhere || (!rested_here && rests(place));
  ++(found ? stats_.rested : stats_.back);
  if (found && std::popcount(comparison.toggled) > 1)
    blame(everywhere ? place.everywhere() : place, comparison.toggled, wall);
}

// Together they harm at a place: whichever looks worst there rests, or all when none does.
void Controller::blame(const Place& where, Modules together, WallTime wall)
{
  Modules guilty = together;
  double worst = 0;
  for (std::size_t i = 0; i < modules_.size(); ++i)
  {
    if ((together & bit(i)) == 0) continue;
    const Tally* tally = memory_.find(where, modules_[i]);
    if (tally == nullptr || tally->gains.count() == 0 || tally->gains.mean() >= worst) continue;
    worst = tally->gains.mean();
    guilty = bit(i);
  }
  for (std::size_t i = 0; i < modules_.size(); ++i)
    if ((guilty & bit(i)) != 0) memory_.rest(where, modules_[i], wall);
}

} // namespace tandem::evidence
