#include "modules/rate/difference.h"

#include <algorithm>
#include <utility>

namespace tandem::rate
{
namespace
{

using namespace std::chrono_literals;

constexpr double spare = 1.03;     // of R0, so that measuring noise does not undercut it (promise.h)
constexpr double most_missing = 1; // seconds of R0: what could not be held is not made up for later
constexpr double most_ahead = 0.5; // likewise, saved up
constexpr double most_saved = 0.4; // of a paced one, saved up before it stops
constexpr double begin_missing = 0.05;
constexpr double most_tail = 0.5; // likewise, of what comes by cellular after its last use
// With a pace: the time in which what is owed or saved up is made up for, long against what the pace takes to show; and
// of R0 the slowest that is asked for.
constexpr double repaid = 3; // seconds
constexpr double slowest = 0.05;
constexpr Duration shortest_use = 200ms; // two looks: less may be over before it was told
constexpr double rising = 1.1;           // over half a second: slow start goes on
constexpr std::size_t longest_rise = 30; // looks
constexpr Duration paused = 300ms;       // without data: the application wants none
constexpr Duration trial = 2s;           // after which cellular must have brought something
constexpr double least_gain = 0.3;       // of what came by cellular: the rest was taken from Wi-Fi
constexpr Duration shortest_rest = 10s, longest_rest = 160s;
constexpr Duration saved_after = 2s; // without cellular: Wi-Fi suffices
// With a handoff. One that is not over by then is the account's again, and a warning that comes and goes must not cost
// what a handoff does each time.
constexpr Duration longest_ahead = 10s, between_ahead = 20s;

} // namespace

double Difference::rate(std::uint64_t Sample::*link, std::size_t looks, std::size_t ago) const
{
  const std::size_t known = std::min(count_, samples_.size());
  if (known <= ago + 1) return 0;
  const Sample& last = sample(ago);
  const Sample& first = sample(std::min(ago + looks, known - 1));
  const double time = seconds(last.at - first.at);
  return time > 0 ? static_cast<double>(last.*link - first.*link) / time : 0;
}

void Difference::begin(const Input& input)
{
  needed_ = true;
  judged_ = false;
  began_ = used_at_ = switched_at_ = input.now;
  cell_at_begin_ = cell_at_stop_ = input.cell;
  wifi_at_begin_ = input.wifi;
  tail_ = 0;
  before_ = std::min(both(span), both(span / 2)); // Wi-Fi may have become slow in this second
  missing_ = begin_missing * input.R0 / 8;
  short_since_ = Tick::max();
}

// From the warning on, before R0 is missing: MP_PRIO takes a round trip, the sender's first windows by cellular some
// more. A backup that is all there is waits until the sender has given the Wi-Fi subflow up.
bool Difference::takes_over(const Input& input)
{
  const bool warned = input.leaving && !leaving_;
  leaving_ = input.leaving;
  if (!input.leaving && input.wifi_up) ahead_until_ = {}; // while it is down the handoff is under way
  if (warned && input.now >= next_ahead_)
  {
    ahead_until_ = input.now + longest_ahead;
    next_ahead_ = input.now + between_ahead;
  }
  return input.now < ahead_until_;
}

// At a handoff cellular comes instead of Wi-Fi rather than beside it: what it adds shows afterwards. Who took R0 before
// needs no trial.
void Difference::put_off_trial(const Input& input)
{
  judged_ = judged_ || 8 * before_ >= input.R0;
  began_ = input.now;
  cell_at_begin_ = input.cell;
  wifi_at_begin_ = input.wifi;
}

// Where the server or the application is what limits a download, cellular only takes from Wi-Fi.
void Difference::judge(const Input& input)
{
  if (judged_ || input.now - began_ < trial) return;
  judged_ = true;
  // Over all of the trial: cellular comes and goes.
  const double time = seconds(input.now - began_);
  const double by_cell = static_cast<double>(input.cell - cell_at_begin_) / time;
  const double all = by_cell + static_cast<double>(input.wifi - wifi_at_begin_) / time;
  const bool gained = all > before_ + least_gain * by_cell;
  if (by_cell > 0 && (gained || input.limited))
  {
    rest_ = {};
    return;
  }
  rest_ = std::clamp(2 * rest_, shortest_rest, longest_rest);
  rest_until_ = input.now + rest_;
  rest_without_wifi_ = !input.wifi_up;
  needed_ = used_ = false;
  why_ = by_cell > 0 ? "rate: cellular adds nothing, the server or the application limits"
                     : "rate: nothing comes by cellular; has MPTCP a subflow there (mptcp.setup)?";
}

// Books what came since the last look against R0. `ahead`: cellular is used whatever is owed.
bool Difference::account(const Input& input, bool ahead)
{
  const double second = input.R0 / 8;
  const Sample& now = sample(0);
  const Sample& last = sample(1);
  const double came = static_cast<double>(now.wifi - last.wifi) + static_cast<double>(now.cell - last.cell);
  missing_ += spare * second * std::min(seconds(now.at - last.at), 1.0) - came;
  missing_ = std::clamp(missing_, -most_ahead * second, most_missing * second);
  // Cellular goes on for a while after it was told to stop, and that is booked ahead.
  const double tail = std::min(tail_, most_tail * second);
  // Nothing is saved up that would stop cellular at the end of it.
  if (ahead) missing_ = std::max(missing_, tail + begin_missing * second);
  // Each stop of a paced one lets the sender fill Wi-Fi with all that it has. It ends by itself where Wi-Fi suffices.
  const double stop = input.paced ? -most_saved * second : tail;
  const bool owed =
      used_ ? missing_ > stop || input.now - switched_at_ < shortest_use : missing_ > begin_missing * second;
  const bool use = ahead || owed;
  if (use == used_) return use;
  if (use)
    tail_ += 0.5 * (static_cast<double>(input.cell - cell_at_stop_) - tail_);
  else
    cell_at_stop_ = input.cell;
  switched_at_ = input.now;
  return use;
}

// Of R0, by cellular while it is used, bits/s.
double Difference::share(const Input& input) const
{
  return std::max(slowest * input.R0, spare * input.R0 - wifi() + 8 * missing_ / repaid);
}

bool Difference::look(const Input& input)
{
  pace_.reset();
  const bool ahead = takes_over(input);
  const bool first = count_ == 0;
  const bool came = first || input.wifi != sample(0).wifi || input.cell != sample(0).cell;
  if (came) moved_ = input.now;
  idle_ = input.wifi_up && input.now - moved_ >= paused;
  if (idle_)
  {
    count_ = 0;
    needed_ = used_ = false;
    held_ = true;
    why_ = none_;
    samples_[0] = { input.now, input.wifi, input.cell };
    count_ = 1;
    return false;
  }
  samples_[count_++ % samples_.size()] = { input.now, input.wifi, input.cell };
  if (count_ < 2) return used_;

  // It rests since no more is wanted than Wi-Fi brings, which is about to be nothing.
  if (ahead) rest_until_ = {};
  // Without Wi-Fi the trial was of a download that was silent, or of one that cellular did not carry.
  if (input.wifi_up && std::exchange(rest_without_wifi_, false)) rest_until_ = {}, rest_ = {};
  if (!input.hindered.empty() || input.now < rest_until_)
  {
    if (!input.hindered.empty()) why_ = input.hindered;
    used_ = needed_ = false;
    held_ = both(span) * 8 >= input.R0;
    return false;
  }
  const bool slow_start = count_ <= longest_rise && both(5) > rising * both(5, 5);
  // While nothing comes the application may be pausing: that is known soon.
  const bool too_little = came && count_ > span && both(span) * 8 < input.R0 && !slow_start;
  if (!needed_ && (ahead || !input.wifi_up || too_little)) begin(input);
  if (!needed_)
  {
    held_ = true;
    why_ = "rate: Wi-Fi suffices, cellular is saved";
    return used_ = false;
  }
  used_ = account(input, ahead);
  if (used_) used_at_ = input.now;
  if (ahead || (!input.wifi_up && input.cell != cell_at_begin_))
    put_off_trial(input);
  else
    judge(input);
  if (!needed_) return false;
  if (used_ && input.paced && !ahead && input.wifi_up) pace_ = share(input);
  if (input.now - used_at_ >= saved_after) needed_ = false;
  const bool all = missing_ >= 0.99 * most_missing * input.R0 / 8;
  short_since_ = !all ? Tick::max() : std::min(short_since_, input.now);
  held_ = input.now < short_since_ || input.now - short_since_ < 1s;
  why_ = ahead    ? "rate: cellular takes over at a handoff"
         : !held_ ? "rate: R0 is more than Wi-Fi and cellular carry now"
                  : "rate: cellular carries the difference to R0";
  return used_;
}

} // namespace tandem::rate
