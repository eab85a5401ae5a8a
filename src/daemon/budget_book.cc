#include "src/daemon/budget_book.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <iterator>
#include <system_error>
#include <utility>
#include <vector>

namespace tandem::daemon
{

namespace
{

constexpr std::size_t days_kept = 62, months_kept = 24; // so far back a clock may be set without making room
constexpr std::string_view heading = "tandem-budget 1";
constexpr std::size_t most_names = 16; // of a period
// Days at which a clock that is behind is believed. One that is not set for want of a battery begins anew at one day
// with each start of the machine, and is put right as soon as there is a network.
constexpr std::size_t days_until_believed = 3;
// In whose name the text says that the clock was at a day with later ones known; of no bytes.
constexpr std::string_view clock_name = "clock";

// The words of a line.
std::vector<std::string_view> words(std::string_view line)
{
  std::vector<std::string_view> all {};
  while (!line.empty())
  {
    const std::size_t end = std::min(line.find(' '), line.size());
    if (end > 0) all.push_back(line.substr(0, end));
    line.remove_prefix(std::min(end + 1, line.size()));
  }
  return all;
}

template <class Number>
std::optional<Number> number(std::string_view word)
{
  Number value = 0;
  const auto [end, fault] = std::from_chars(word.data(), word.data() + word.size(), value);
  if (fault != std::errc {} || end != word.data() + word.size()) return {};
  return value;
}

bool is_name(std::string_view name)
{
  return !name.empty() && name.size() <= 32
         && name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789_") == std::string_view::npos;
}

} // namespace

Calendar calendar_of(const std::tm& local)
{
  const int year = local.tm_year + 1900;
  const std::chrono::sys_days day { std::chrono::year { year }
                                    / std::chrono::month { static_cast<unsigned>(local.tm_mon + 1) }
                                    / std::chrono::day { static_cast<unsigned>(local.tm_mday) } };
  return { day.time_since_epoch().count(), std::int64_t { year } * 12 + local.tm_mon };
}

std::uint64_t sum(const Spent& spent)
{
  std::uint64_t all = 0;
  for (const auto& [name, bytes] : spent)
    all = bytes > UINT64_MAX - all ? UINT64_MAX : all + bytes;
  return all;
}

// What is ahead of now is of now.
void BudgetBook::fold(Periods& periods, std::int64_t now)
{
  while (!periods.empty() && periods.rbegin()->first > now)
  {
    for (const auto& [name, bytes] : periods.rbegin()->second)
      periods[now][name] += bytes;
    periods.erase(std::prev(periods.end()));
  }
}

Spent BudgetBook::since(const Periods& periods, std::int64_t first)
{
  Spent all {};
  for (auto one = periods.lower_bound(first); one != periods.end(); ++one)
    for (const auto& [name, bytes] : one->second)
      all[name] += bytes;
  return all;
}

bool BudgetBook::behind() const
{
  return (!days_.empty() && days_.rbegin()->first > now_.day)
         || (!months_.empty() && months_.rbegin()->first > now_.month);
}

void BudgetBook::move(const Calendar& now)
{
  now_ = now;
  if (behind()) days_behind_.insert(now.day);
  if (days_behind_.size() >= days_until_believed)
  {
    fold(days_, now.day);
    fold(months_, now.month);
  }
  if (!behind()) days_behind_.clear();
  for (const auto& [periods, keep] : { std::pair { &days_, days_kept }, std::pair { &months_, months_kept } })
    while (periods->size() > keep)
      periods->erase(periods->begin());
}

void BudgetBook::spend(std::string_view who, std::uint64_t bytes)
{
  if (bytes == 0) return;
  const auto latest = [](Periods& periods, std::int64_t now) -> Spent&
  { return periods[periods.empty() ? now : std::max(now, periods.rbegin()->first)]; };
  latest(days_, now_.day)[std::string { who }] += bytes;
  latest(months_, now_.month)[std::string { who }] += bytes;
}

void BudgetBook::add(const BudgetBook& other)
{
  for (const auto& [mine, others] : { std::pair { &days_, &other.days_ }, std::pair { &months_, &other.months_ } })
    for (const auto& [index, spent] : *others)
      for (const auto& [name, bytes] : spent)
        (*mine)[index][name] += bytes;
  days_behind_.insert(other.days_behind_.begin(), other.days_behind_.end());
  move(now_);
}

Spent BudgetBook::today() const
{
  return since(days_, now_.day);
}

Spent BudgetBook::this_month() const
{
  return since(months_, now_.month);
}

std::string BudgetBook::text(bool open) const
{
  std::string out { heading };
  out += open ? " open\n" : " closed\n";
  for (const auto& [what, periods] : { std::pair { "day", &days_ }, std::pair { "month", &months_ } })
    for (const auto& [index, spent] : *periods)
      for (const auto& [name, bytes] : spent)
        out += std::string { what } + ' ' + std::to_string(index) + ' ' + name + ' ' + std::to_string(bytes) + '\n';
  for (const std::int64_t day : days_behind_)
    out += "day " + std::to_string(day) + ' ' + std::string { clock_name } + " 0\n";
  return out + "end\n";
}

BudgetBook::Read BudgetBook::read(std::string_view text)
{
  const auto forget = [this]
  {
    days_.clear();
    months_.clear();
    days_behind_.clear();
  };
  forget();
  Read result {};
  const auto refuse = [&](std::string why) -> Read
  {
    forget();
    return { .wrong = std::move(why) };
  };
  bool ended = false;
  for (int line = 1; !text.empty(); ++line)
  {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos || ended) break; // cut, or more than was written
    const std::string_view one = text.substr(0, end);
    text.remove_prefix(end + 1);
    const auto where = "line " + std::to_string(line) + ": ";
    if (line == 1)
    {
      if (!one.starts_with(heading)) return refuse("is not of this version of Tandem");
      const std::string_view rest = one.substr(heading.size());
      if (rest != " open" && rest != " closed") return refuse("is not of this version of Tandem");
      result.open = rest == " open";
      continue;
    }
    if (one == "end")
    {
      ended = true;
      continue;
    }
    const auto all = words(one);
    if (all.size() != 4 || (all[0] != "day" && all[0] != "month") || !is_name(all[2]))
      return refuse(where + "is none that Tandem writes");
    const auto index = number<std::int64_t>(all[1]);
    const auto bytes = number<std::uint64_t>(all[3]);
    Periods& periods = all[0] == "day" ? days_ : months_;
    const bool full = periods.size() > days_kept + 1; // a day that was spent on since the last move() came on top
    // A clock that is not set may stand at the day before the first one of 1970, by local time.
    if (!index || !bytes || *index < -1 || *index > 10'000'000 || *bytes > 1ull << 60 || full)
      return refuse(where + "a number is out of range");
    if (all[0] == "day" && all[2] == clock_name && *bytes == 0)
    {
      days_behind_.insert(*index);
      continue;
    }
    if (periods[*index].size() >= most_names) return refuse(where + "there are too many names");
    periods[*index][std::string { all[2] }] = *bytes;
  }
  return ended && text.empty() ? result : refuse("is not whole");
}

} // namespace tandem::daemon
