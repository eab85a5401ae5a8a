#include "modules/ecn/closed_loop.h"

#include <algorithm>

namespace tandem::ecn
{

namespace
{

using namespace std::chrono_literals;

constexpr double full_packet = 1500; // bytes of the packet that T_i is about (equation 1: MSS)
// A link that is used part of the time is opened and closed by MP_PRIO in this cycle; so long halves its rate
// (measured).
constexpr Duration cycle = 250ms;
constexpr Duration open_for = cycle / 2;

} // namespace

// What the loop is to judge by.
Look ClosedLoop::seen(const View& view)
{
  const auto order = view.ranking.order();
  const auto most = static_cast<std::size_t>(knobs.most_used);
  const std::size_t usable = std::min(view.worse(), most - std::min(view.ranking.good(), most));
  Look look { .delivered = view.subflows.delivered(), .levels = usable == 0 ? 1 : usable + 2, .changed = view.changed };
  marks_ = false;
  if (usable > 0)
  {
    const std::size_t worse = order[view.ranking.good()];
    const Link first = wifi_link(worse);
    look.capacity = full_packet / seconds(view.ranking.best_time());
    look.spare = full_packet / seconds(*view.times[worse]);
    marks_ = marking_.rate(first, view) > 0;
    look.levels += marks_ ? 1 : 0;
    // A coupled sender is fair to others by itself. Without the worse link it would take less than its part: LIA counts
    // the window of a subflow that lies idle.
    if (!marking_.coupled(first, view.subflows))
      for (const std::uint8_t one : order)
        if (const auto& radio = view.links[at(wifi_link(one))].radio; radio && radio->busy)
          look.busy = std::max(look.busy.value_or(0), static_cast<double>(*radio->busy));
    // It moves by itself, too, and comes back slowly to a subflow that lay idle. But marks leave what is in the
    // queue of a link that has just become slow, or is clearly slow: that one is left at once.
    const bool clearly = look.capacity >= RankingSettings {}.clear * look.spare;
    look.first = marks_ && !view.ranking.turned() && !clearly ? 2 : 0;
  }
  for (const Path& path : view.subflows.paths())
  {
    if (path.flows == 0) continue;
    look.rtt = std::max(look.rtt, path.smoothed);
    look.rtt_least = std::max(look.rtt_least, path.least_rtt());
  }
  return look;
}

void ClosedLoop::look(const View& view)
{
  const Look what = seen(view);
  levels_ = what.levels;
  loop_.look(what, view.now, {});
  std::array<std::uint64_t, most_wifi> delivered {};
  for (std::size_t i = 0; i < most_wifi; ++i)
    delivered[i] = view.subflows.path(wifi_link(i)).delivered;
  leaving_.look(delivered, view.now);
}

// Open in the first part of every cycle. Returns when that changes.
Tick ClosedLoop::part_time(Tick now, bool& open) const
{
  const Duration into = now.time_since_epoch() % cycle;
  open = into < open_for;
  return now - into + (open ? open_for : cycle);
}

Tick ClosedLoop::treat(const View& view, Treatments& wanted)
{
  const auto order = view.ranking.order();
  const auto most = static_cast<std::size_t>(knobs.most_used);
  const std::size_t good_used = std::min(view.ranking.good(), most);
  const std::size_t level = loop_.level();
  const bool unmarked = marks_ && level + 1 == levels_;
  Tick next = view.now + look_every;
  for (std::size_t i = 0; i < order.size(); ++i)
  {
    const Link link = wifi_link(order[i]);
    Treatment& treatment = wanted[at(link)];
    if (i < view.ranking.good())
    {
      treatment.backup = i >= most;
      continue;
    }
    const std::size_t place = i - view.ranking.good(); // among the worse ones
    if (level == 1 && place == 0)
    {
      bool open = false;
      next = std::min(next, part_time(view.now, open));
      treatment.backup = !open;
    }
    else
      treatment.backup = level < 2 || place >= level - 1 || good_used + place >= most;
    if (!treatment.backup && !unmarked) treatment.ce_rate = marking_.rate(link, view);
  }
  // Of a coupled sender's subflows the one that is to carry the download grows only as far as the window of the one
  // that is left allows: that one is marked down first. Not one that is clearly slow, which would cost more air than
  // that is worth.
  Leaving::Links wanted_links {}, good {};
  for (std::size_t i = 0; i < order.size(); ++i)
  {
    wanted_links[order[i]] = !wanted[at(wifi_link(order[i]))].backup;
    good[order[i]] = i < view.ranking.good();
  }
  Leaving::Links used = wanted_links;
  left_later_ = false;
  for (const std::uint8_t one : order)
    if (const Link link = wifi_link(one);
        seconds(*view.times[one]) < RankingSettings {}.clear * seconds(view.ranking.best_time())
        && marking_.rate(link, view) > 0 && leaving_.later(one, wanted_links, view.now))
    {
      wanted[at(link)] = { .ce_rate = DeltaSettings {}.cap };
      used[one] = left_later_ = true;
    }
  // So are those that carry the download while one that is heard better is tried: it would not show what it can bring.
  const bool sought = std::any_of(view.sought.begin(), view.sought.end(), [](bool one) { return one; });
  for (const std::uint8_t one : order)
    if (const Link link = wifi_link(one);
        sought && used[one] && marking_.rate(link, view) > 0 && leaving_.carries_more(one, view.sought))
      wanted[at(link)].ce_rate = DeltaSettings {}.cap;
  leaving_.told(used, good, view.now);
  return next;
}

std::string_view ClosedLoop::why(const View& view) const
{
  return view.worse() == 0    ? "ecn: all access points are good"
         : left_later_        ? "ecn: an access point is marked before it is left"
         : loop_.trying()     ? "ecn: another level is tried"
         : loop_.level() == 0 ? "ecn: the good access points alone"
         : loop_.level() == 1 ? "ecn: a worse access point part of the time"
                              : "ecn: worse access points bring more";
}

void ClosedLoop::describe(Facts& facts) const
{
  facts.add("level", static_cast<double>(loop_.level()));
  facts.add("goodput", loop_.goodput() * 8e-6, "Mb/s");
  facts.add("levels tried", static_cast<double>(loop_.trials()));
  facts.add("levels won", static_cast<double>(loop_.moves()));
}

} // namespace tandem::ecn
