// How likely a Wi-Fi link that is alive leaves us without an acknowledgement as long as this one does. Pure.
//
// A live access point fails to acknowledge an attempt of ours with probability p, so n attempts in a row go
// unacknowledged with p^n; p is learned from the attempts heard on the air. Whoever waits for the channel makes the
// next attempt after `access` on average, so that none within t has probability exp(-t / access). Where others use the
// channel, each failure doubles the contention window and with it the wait (IEEE 802.11-2016, 10.22.2.11). The silence
// of a live link has the product of both: of p^n for what was sent into it, and of the wait since the latest attempt.
//
// A frame that nobody sends, as by a driver that holds what it has for an access point which is away, costs `access`
// times a few; a frame that is sent and fails costs attempts. On a clean link both are milliseconds; among other
// stations, at an access point that misses most attempts, they are hundreds.
#pragma once

#include <tandem/units.h>

#include <array>

namespace tandem::links
{

class AttemptOdds
{
public:
  // What happens to a live link as rarely as this is not taken for one.
  static constexpr double beyond_chance = 1e-3;

  // Something of ours waits for the channel, from here on if nothing did before: a probe was handed to the driver.
  void waiting(Tick at);
  // A frame of ours that calls for an acknowledgement went on the air; `again`: a retry.
  void attempted(Tick at, bool again);
  void acknowledged(Tick at);
  // The access point was heard otherwise: it is there, and what it sends keeps us from the channel, which a dead one
  // does not. The wait counts from here: with backoff by lot, what is left of one does not depend on what is over.
  void heard(Tick at);
  // Somebody else used the channel.
  void other() { others_ = true; }

  // -ln of the probability that a live link is silent like this, as of now. `shared`: others use the channel.
  double surprise(bool shared, Tick now) const;
  // The surprise from which on a link is no live one.
  double enough(Tick now) const;

  // The link was away: nothing follows from it for the link that is there.
  void was_away();
  // The link was there and was taken for away: what it did not acknowledge counts, and more is asked for next time.
  void was_there(Tick now);
  // Another access point.
  void forget();

  // Of the attempts of late, the share that was not acknowledged: p.
  double failing() const;
  // Mean wait for the channel, alone on it or among others; there, of a first attempt.
  Duration access(bool shared) const { return access_[shared ? 1 : 0]; }

private:
  void count(unsigned attempts, unsigned failures);
  int doublings(bool shared) const;
  double caution(Tick now) const;

  // Of late. Until something is known, one in four fails, and 5 ms is what three busy stations cost.
  double attempts_ = 4, failures_ = 1;
  std::array<Duration, 2> access_ { std::chrono::microseconds { 500 }, std::chrono::milliseconds { 5 } };

  unsigned run_ = 0; // attempts since the latest acknowledgement
  Tick run_since_ {};
  unsigned unheard_ = 0; // of them, since the access point was heard
  unsigned tries_ = 0;   // of the present frame
  Tick waiting_ {};      // for the next attempt, since; Tick {}: nothing of ours waits
  bool others_ = false;  // used the channel meanwhile
  double caution_ = 1;
  Tick cautious_at_ {};
};

} // namespace tandem::links
