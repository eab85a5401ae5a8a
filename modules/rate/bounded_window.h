// The advertised window of one download, bounded so that little of it waits at the access point: whatever is there when
// the card leaves is lost. The right edge never moves back (RFC 9293 3.8.6): what was offered stays offered, so what is
// in flight is never above the window, and the bound takes hold as fast as the download eats up what it was offered.
#pragma once

#include <tandem/flow.h>
#include <tandem/segment.h>
#include <tandem/units.h>

#include <cstdint>
#include <optional>

namespace tandem::rate
{

class BoundedWindow
{
public:
  // With every packet of the flow, whether it is bounded or not: what the bound is made of.
  void measure(const FlowView& flow, Tick now);
  // A link came or went: another access point, another path.
  void forget();
  // From now on windows leave as the local TCP has them.
  void open() { bounding_ = false; }

  // The window for an ACK that this host sends, unscaled; nothing: as it is. `headroom`: times the bandwidth-delay
  // product, measured rate times least round trip, so that a sender finds out when there is more. `limit`: a rate
  // (bits/s) that the bound stays below; 0: none.
  std::optional<std::uint16_t> bound(const Segment& ack, const FlowView& flow, Tick now, double headroom,
                                     double limit = 0);

  bool bounding() const { return bounding_; }
  // What it is bounded to, once the download has come so far; bytes.
  double bytes() const { return bytes_; }
  Duration least_round_trip() const { return least_; }

private:
  Seq edge_ {};       // behind the last byte that was offered
  Seq seq_ {};        // of the last ACK: where it moved on, this host has sent data, with windows of its own
  Duration least_ {}; // round trip, over the life of the flow at this access point
  float best_ = 0;    // bytes per second, the highest lately
  float bytes_ = 0;
  Tick faded_ {};      // when best_ was last let fade
  Tick bounded_at_ {}; // since when
  bool bounding_ = false;
};

} // namespace tandem::rate
