// What flows found of an access point at the end of a blackout, as one word: whether it had kept frames. Pure.
#pragma once

#include <tandem/units.h>

#include <optional>
#include <string>

namespace tandem::evidence
{

// One flow's frames may have been kept, and another's not, as the access point's queue is finite: any that were count.
// What was found says nothing when the link is elsewhere than before the blackout, or goes again before all flows have
// spoken.
class LinkUp
{
public:
  // Flows speak within a round trip, and by then the driver has told of a roam.
  static constexpr Duration settles = std::chrono::milliseconds { 500 };
  // In one that is shorter than this, the access point may have gone on trying to send what it had.
  static constexpr Duration shortest = std::chrono::milliseconds { 300 };

  // The link as it is now, before modules are told, and again whenever the access point may be another one. Empty: it
  // is not known.
  void see(bool up, const std::string& access_point, Tick now);
  // By one flow.
  void found(bool kept);
  // Of the access point that was seen last; once for each blackout, nothing when none is due.
  std::optional<bool> due(Tick now);

private:
  std::string access_point_ {}; // while the link is away: of before
  bool up_ = true;
  bool asking_ = false; // a blackout has ended
  bool long_enough_ = false;
  Tick since_ {}; // when `up_` last changed
  bool kept_ = false, missed_ = false;
};

} // namespace tandem::evidence
