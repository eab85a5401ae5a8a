#include "src/links/attempt_odds.h"

#include <algorithm>
#include <cmath>

namespace tandem::links
{

namespace
{

using namespace std::chrono_literals;

constexpr double memory = 128; // attempts: half a second of a download, and p to a twentieth
constexpr int access_memory = 16;
constexpr Duration access_least = 100us; // an exchange takes no less
constexpr unsigned most_doublings = 6;   // contention windows of 15 to 1023 slots
constexpr Duration run_longest = 250ms;  // a longer one may have been a blackout that nobody looked into
constexpr double caution_most = 4;
constexpr Duration caution_half_life = 10s;

} // namespace

void AttemptOdds::waiting(Tick at)
{
  if (waiting_ != Tick {}) return;
  waiting_ = at;
  others_ = false;
  tries_ = 0;
}

void AttemptOdds::attempted(Tick at, bool again)
{
  // After a failure only a retry is known to have waited all the time. Of a long backoff among others only a part of
  // the wait has doubled: what is learned from it would be too short for a first attempt.
  if (waiting_ != Tick {} && (again || run_ == 0) && (!others_ || tries_ <= 1))
  {
    // A wait that does not fit what is known, as over a blackout that nobody looked into, counts a little.
    Duration& mean = access_[others_ ? 1 : 0];
    const Duration wait = std::min<Duration>((at - waiting_) / doublings(others_), 8 * mean + 1ms);
    mean = std::max<Duration>(mean + (wait - mean) / access_memory, access_least);
  }
  tries_ = again ? tries_ + 1 : 1;
  waiting_ = at;
  others_ = false;
  if (run_++ == 0) run_since_ = at;
  ++unheard_;
}

void AttemptOdds::acknowledged(Tick at)
{
  if (run_ > 0 && at - run_since_ <= run_longest) count(run_, run_ - 1);
  was_away();
}

void AttemptOdds::heard(Tick at)
{
  unheard_ = 0;
  if (waiting_ == Tick {}) return;
  waiting_ = std::max(waiting_, at);
  others_ = false;
}

double AttemptOdds::surprise(bool shared, Tick now) const
{
  const double failed = unheard_ * -std::log(failing());
  if (waiting_ == Tick {}) return failed;
  return failed + seconds(now - waiting_) / seconds(access(shared) * doublings(shared));
}

double AttemptOdds::enough(Tick now) const
{
  return -std::log(beyond_chance) * caution(now);
}

void AttemptOdds::was_away()
{
  run_ = unheard_ = tries_ = 0;
  waiting_ = {};
}

void AttemptOdds::was_there(Tick now)
{
  count(run_, run_);
  caution_ = std::min(2 * caution(now), caution_most);
  cautious_at_ = now;
  was_away();
}

void AttemptOdds::forget()
{
  *this = {};
}

double AttemptOdds::failing() const
{
  return (failures_ + 0.5) / (attempts_ + 1);
}

void AttemptOdds::count(unsigned attempts, unsigned failures)
{
  attempts_ += attempts;
  failures_ += failures;
  if (attempts_ <= memory) return;
  failures_ *= memory / attempts_;
  attempts_ = memory;
}

// Alone, the backoff is a small part of the wait, and passes at once.
int AttemptOdds::doublings(bool shared) const
{
  return shared ? 1 << std::min(tries_, most_doublings) : 1;
}

double AttemptOdds::caution(Tick now) const
{
  return 1 + (caution_ - 1) * std::exp2(-seconds(now - cautious_at_) / seconds(caution_half_life));
}

} // namespace tandem::links
