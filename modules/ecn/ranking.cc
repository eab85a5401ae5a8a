#include "modules/ecn/ranking.h"

#include <algorithm>

namespace tandem::ecn
{

namespace
{

// The frequency with the most usable links; links that do not know theirs are taken to share it.
std::uint32_t commonest(std::span<const Candidate, most_wifi> links)
{
  std::uint32_t best = 0;
  std::ptrdiff_t most = 0;
  for (const Candidate& one : links)
  {
    if (!one.usable || !one.packet_time || one.frequency == 0) continue;
    const auto same = std::count_if(links.begin(), links.end(),
                                    [&](const Candidate& other)
                                    { return other.usable && other.packet_time && other.frequency == one.frequency; });
    if (same > most)
    {
      most = same;
      best = one.frequency;
    }
  }
  return best;
}

} // namespace

// Who belongs to the group; returns who did already.
std::array<bool, most_wifi> Ranking::gather(std::span<const Candidate, most_wifi> links)
{
  const std::uint32_t frequency = commonest(links);
  Duration best = Duration::max();
  std::array<bool, most_wifi> known {};
  for (std::size_t i = 0; i < links.size(); ++i)
  {
    const Candidate& one = links[i];
    const bool in = one.usable && one.packet_time && *one.packet_time > Duration {}
                    && (one.frequency == 0 || one.frequency == frequency);
    // Who comes is judged at once, who is here only after a while.
    if (in && !member_[i]) doubted_[i] = Tick::min();
    known[i] = in && member_[i];
    member_[i] = in;
    if (in) best = std::min(best, *one.packet_time);
  }
  best_time_ = best == Duration::max() ? Duration {} : best;
  return known;
}

// Whether a member is worse, by its packet time. True when a known one became so.
bool Ranking::judge(std::size_t i, Duration packet_time, bool known, Tick now, const RankingSettings& settings)
{
  const double ratio = seconds(packet_time) / seconds(best_time_);
  const bool says_worse = worse_[i] ? ratio >= settings.release : ratio >= settings.threshold;
  const bool at_once = (doubted_[i] && *doubted_[i] == Tick::min()) || (says_worse && ratio >= settings.clear);
  if (says_worse == worse_[i])
    doubted_[i].reset();
  else if (at_once || (doubted_[i] && now - *doubted_[i] >= settings.hold))
  {
    worse_[i] = says_worse;
    doubted_[i].reset();
    return says_worse && known;
  }
  else if (!doubted_[i])
    doubted_[i] = now;
  return false;
}

// Puts the members in order. True when that, or who is worse, is other than before.
bool Ranking::arrange(std::span<const Candidate, most_wifi> links)
{
  const auto before = order_;
  const std::size_t count_before = count_, good_before = good_;
  std::array<std::uint8_t, most_wifi> fresh {};
  std::size_t count = 0;
  for (std::size_t i = 0; i < links.size(); ++i)
    if (member_[i]) fresh[count++] = static_cast<std::uint8_t>(i);
  const auto by_time = [&](std::uint8_t a, std::uint8_t b)
  {
    if (worse_[a] != worse_[b]) return !worse_[a];
    return *links[a].packet_time < *links[b].packet_time;
  };
  std::stable_sort(fresh.begin(), fresh.begin() + static_cast<std::ptrdiff_t>(count), by_time);
  good_ = static_cast<std::size_t>(std::count_if(fresh.begin(), fresh.begin() + static_cast<std::ptrdiff_t>(count),
                                                 [&](std::uint8_t i) { return !worse_[i]; }));
  order_ = fresh;
  count_ = count;
  if (count_ != count_before || good_ != good_before) return true;
  // Among the good ones the order means nothing: their packet times cross all the time.
  const auto same = [&](std::size_t from, std::size_t to)
  {
    return std::is_permutation(order_.begin() + static_cast<std::ptrdiff_t>(from),
                               order_.begin() + static_cast<std::ptrdiff_t>(to),
                               before.begin() + static_cast<std::ptrdiff_t>(from));
  };
  return !same(0, good_) || !same(good_, count_);
}

bool Ranking::update(std::span<const Candidate, most_wifi> links, Tick now, const RankingSettings& settings)
{
  const auto known = gather(links);
  turned_ = false;
  for (std::size_t i = 0; i < links.size(); ++i)
    if (member_[i])
      turned_ = judge(i, *links[i].packet_time, known[i], now, settings) || turned_;
    else
    {
      worse_[i] = false;
      doubted_[i].reset();
    }
  // Somebody must be good: at worst the best of this moment.
  bool any_good = false;
  for (std::size_t i = 0; i < links.size(); ++i)
    any_good = any_good || (member_[i] && !worse_[i]);
  for (std::size_t i = 0; i < links.size() && !any_good; ++i)
    if (member_[i] && *links[i].packet_time == best_time_) any_good = !(worse_[i] = false);
  return arrange(links);
}

} // namespace tandem::ecn
