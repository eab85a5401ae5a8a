// The pace of one upload of this host, bounded so that little of it waits in the card that is about to change its
// access point: about what the path carries, at a round trip that is not much longer than that of the empty path.
#pragma once

#include "modules/rate/bound.h"
#include "modules/rate/told_pace.h"

#include <tandem/flow.h>
#include <tandem/segment.h>
#include <tandem/units.h>

#include <optional>

namespace tandem::rate
{

class PacedUpload
{
public:
  // With every event of the flow, whether it is bounded or not: what the bound is made of. `segment`: of the event, or
  // null. The flow's own round trips are those of ACKs that leave, of which an upload has none.
  void measure(const Segment* segment, const FlowView& flow, Tick now);
  // A link came or went: another access point, another path.
  void forget() { *this = {}; }
  // From now on the local TCP sends as it likes. True: it was bounded.
  bool open() { return told_.open(); }

  // The pace, bits/s, when it is time to tell one; nothing: what was told holds, or nothing is known. `headroom`: times
  // the least round trip, so that as many bandwidth-delay products are in flight. `limit`: bits/s that it stays below;
  // 0: none.
  std::optional<double> pace(const FlowView& flow, Tick now, double headroom, double limit = 0);

  double paced() const { return told_.rate(); } // bits/s; 0: not bounded
  double best() const { return 8 * best_; }
  Duration least_round_trip() const { return least_; }
  bool queue() const { return has_queue(latest_, least_); }

private:
  void time(const Segment& segment, Tick now);

  Duration least_ {}; // round trip, over the life of the flow at this access point
  Duration latest_ {}, smoothed_ {};
  Seq timed_ {}; // behind the newest data that was timed: nothing before it is timed again
  Tick timed_at_ {};
  bool timing_ = false, timed_any_ = false;
  double best_ = 0; // bytes per second that the peer acknowledged, the highest lately
  ToldPace told_ {};
  Tick bounded_at_ {}; // since when; later: since the round trip was last believed
  Seq una_ {};
  Tick round_ {};
  bool counting_ = false;
};

} // namespace tandem::rate
