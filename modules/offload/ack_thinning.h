// Which pure ACKs of a flow are withheld, since the next one repeats what they acknowledge. Part of a flow's state;
// pure.
#pragma once

#include <tandem/module.h>

#include <cstdint>

namespace tandem::offload
{

// Flags of a pure ACK that is neither withheld nor copied: a counter of accurate ECN (RFC 9768), CWR, urgent data.
constexpr std::uint16_t loaded_flags = tcp_flag::ae | tcp_flag::cwr | tcp_flag::urg;

struct AckThinning
{
  Tick released_at {};           // last ACK that left while thinning
  std::uint32_t delivered = 0;   // FlowView::bytes_delivered at the last ACK, its lower half
  std::uint32_t seen = 0;        // when that was, ms
  std::uint32_t bytes = 0;       // that those of the running count acknowledged
  float mss_per_ack = 0;         // what the local TCP acknowledges at a time; 0 = not known yet
  std::uint16_t counted = 0;     // ACKs of the running count
  std::uint16_t held = 0;        // ACKs withheld since the last that left
  std::uint8_t sparse_times = 0; // in a row that ACKs were found sparse
  bool begun = false;            // `delivered` is known
  bool holes = false;            // the last ACK reported some
  bool air_full = false;         // what was told last of it and left no doubt said so

  void count(const FlowView& flow, Tick now);

  // What ACKs cost in air grows with their number. Where the receiver merges segments (GRO) there is one for dozens,
  // and nothing to save.
  bool sparse() const;
  // How long a flow with sparse ACKs is bypassed: longer each time it is found so again.
  Duration sparse_back_off();

  // Whether the air of the flow's link is not full, of whomever, as surveys tell; without them, whether what this host
  // receives takes next to nothing of it. ACKs that are left out there save nothing that anybody waits for, while the
  // sender has fewer to clock itself by, and its bursts may overflow a short queue of the wire
  // (docs/results/thin-uplinks.md). False where neither is known.
  bool air_has_room(const FlowView& flow, const LinkStates& links);

  // One ACK in this many leaves by Wi-Fi, at most one in `most`; 1 = all.
  unsigned wifi_ratio(const Segment& segment, const FlowView& flow, double most) const;

  // Withholds the ACK at hand when the next one is sure to repeat it: until its own timer at the latest. True when it
  // did; otherwise the ACK leaves now, and the count begins anew. `thin_uplink`:
  // by a link that takes few ACKs; for longer, and where its window has grown, too.
  bool withhold(const Event& event, const FlowView& flow, unsigned ratio, Plan& plan, bool thin_uplink = false);
  void released(Tick now)
  {
    held = 0;
    released_at = now;
  }
};

// How long an ACK number may wait for the next ACK; `thin_uplink`: by a link that takes few ACKs.
Duration longest_hold(const FlowView& flow, bool thin_uplink);

} // namespace tandem::offload
