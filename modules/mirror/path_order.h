// Whether the path delivers data in another order than the server sent it.
#pragma once

#include <tandem/seq.h>

namespace tandem::mirror
{

// Follows the TSvals of arriving data. A server's clock does not run backwards, and retransmissions carry the time of
// their own sending: on a path that keeps the order no TSval is older than one that came before (RFC 7323 4.3).
class PathOrder
{
public:
  void arrived(TsClock value)
  {
    // Of most nothing can be overtaken: the clock has gone half round while the connection was idle (a microsecond's in
    // 36 minutes), or what came first was damaged.
    const bool first = overtaken_ < 0 || overtaken_ > most;
    overtaken_ = first ? 0 : overtaken_ - overtaken_ / memory;
    if (!first && value.before(newest_))
      overtaken_ += 1 / memory;
    else
      newest_ = value;
  }

  // Whether more than an accident was overtaken lately.
  bool reorders() const { return overtaken_ > share; }
  // The newest TSval that arrived.
  TsClock newest() const { return newest_; }

private:
  // The share of what arrives, as an average over so many segments: two within them are no accident.
  static constexpr float memory = 512;
  static constexpr float share = 1.5f / memory;
  static constexpr float most = 0.5f;

  TsClock newest_ {};
  float overtaken_ = -1; // nothing has arrived yet
};

} // namespace tandem::mirror
