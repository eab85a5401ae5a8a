// What was put on the cellular link in each day and month, by whom. Pure: the time is handed in.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace tandem::daemon
{

// The day and the month that it is now, counted on in the machine's time zone.
struct Calendar
{
  std::int64_t day = 0;   // since 1970-01-01
  std::int64_t month = 0; // since year 0
  bool operator==(const Calendar&) const = default;
};

Calendar calendar_of(const std::tm& local);

// Bytes by the name of a module, or of another part of Tandem.
using Spent = std::map<std::string, std::uint64_t, std::less<>>;

class BudgetBook
{
public:
  // A clock that is set back never makes room: what was spent in what is the future now counts for now. Either the
  // clock was ahead, or it is behind, as one without a battery is until it is set. So nothing is moved, and what is
  // spent goes to the latest day and month, until the clock has passed them; one that goes on by itself over some days
  // is believed.
  void move(const Calendar& now);
  void spend(std::string_view who, std::uint64_t bytes); // in the day and the month of the last move(), or later
  void add(const BudgetBook& other);                     // what is in there was spent, too

  Spent today() const;
  Spent this_month() const;

  // Its state as text, and back. `open`: it will go on being changed, so that what is there may be less than was spent.
  std::string text(bool open) const;
  struct Read
  {
    std::string wrong {}; // empty: all of it was read
    bool open = false;
  };
  Read read(std::string_view text); // what was there before is forgotten; with something wrong the book is empty

private:
  using Periods = std::map<std::int64_t, Spent>;
  static void fold(Periods& periods, std::int64_t now);
  static Spent since(const Periods& periods, std::int64_t first);
  bool behind() const;

  Calendar now_ {};
  Periods days_ {}, months_ {};
  std::set<std::int64_t> days_behind_ {}; // that the clock was at, with later ones known
};

std::uint64_t sum(const Spent& spent);

constexpr std::size_t longest_budget_text = 1u << 18;

} // namespace tandem::daemon
