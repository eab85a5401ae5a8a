// Keeps a download over a lossy link in the state in which losses cost nothing: the sender's congestion window well
// above what is in flight, and the queue far from full.
//
// A congestion window only grows in slow start when every round trip sees a loss: undone or not, each recovery starts
// CUBIC's clock and Reno's count of acknowledgements anew. So slow start must not end early, and no queue may overflow,
// because that loss is not hidden and its reaction lasts. Three levers, all the receiver's own: the advertised window
// (RFC 9293 3.8.6), which bounds what is in flight while the congestion window grows on to twice as much (a Linux
// sender counts itself as limited up to there in slow start, tcp_is_cwnd_limited); its pace after an undo, when the
// whole difference would leave in one burst; and fewer ACKs in slow start, of which HyStart (RFC 9406) needs eight a
// round to take a short burst for a standing queue.
#pragma once

#include "modules/mirror/delay_meter.h"

#include <tandem/flow.h>
#include <tandem/plan.h>
#include <tandem/units.h>

#include <cstdint>

namespace tandem::mirror
{

class Steering
{
public:
  struct Settings
  {
    double target = 0.5; // queueing delay aimed at, times an eighth of the round trip within 4 to 16 ms; 0: no cap
    double acks = 6;     // per round trip while the sender may be in slow start; 0: all
    bool paced = true;   // the window opens at most twice as fast as data arrive after an undo
  };

  // An outgoing pure ACK. Keeps track of what arrives, and of the queue. `together`: what all flows of this host get by
  // the link, bytes per second.
  void acknowledged(const Segment& segment, const FlowView& flow, const DelayMeter& delay, const Settings& settings,
                    double together, Tick now);
  // Random losses were hidden: the air still loses something. So far it did so once in 1 / `share` segments.
  void hidden(float share, Tick now)
  {
    hidden_at_ = now;
    hidden_edge_ = edge_;
    usual_ = share;
    if (episodes_ < 255) ++episodes_;
  }
  // Losses of the air are to be expected from the first on, and the sender answers them. The link has carried so many
  // bytes per second lately: bursts of a slow start make a short queue long before they tell its rate. All ACKs are
  // sent until a loss was hidden: HyStart, where the sender has it, ends a slow start that nothing has lengthened in
  // time.
  void expect_losses(float carried, Tick now)
  {
    lossy_ = expecting_ = true;
    usual_ = 0;
    expected_ = carried;
    hidden_at_ = now;
  }
  // And the sender, which answers losses, restores its window now.
  void undone(const FlowView& flow, const Settings& settings, Tick now);

  // The window to advertise with `ack` in place of `real`, both unscaled; never larger.
  std::uint16_t window(const FlowView& flow, Seq ack, std::uint16_t real, Tick now) const;
  // Whether an ACK that the next one repeats may wait, and until when.
  bool may_wait(const FlowView& flow, const Settings& settings, Tick now) const;
  Tick due(const FlowView& flow, const Settings& settings) const { return acknowledged_at_ + gap(flow, settings); }
  void acknowledged(Tick now) { acknowledged_at_ = now; }
  // What arrives is not followed: edge() begins anew with the next ACK.
  void lose_place() { known_ = false; }
  bool has_place() const { return known_; }

  // The highest byte that has arrived.
  Seq edge() const { return edge_; }
  // Whether the cap holds the queue below what any usual queue holds, so that it cannot be the cause of a loss.
  bool holds(const FlowView& flow, double queued, const Settings& settings) const;
  // Whether a queue is as short as the cap would have it.
  static bool short_queue(const FlowView& flow, double queued, const Settings& settings);
  bool lossy() const { return lossy_; }
  // Whether nothing was lost any more once the cap kept the queue short: that queue is what loses.
  bool queue_loses() const { return queue_loses_; }
  // A loss in a queue that is short.
  void air_loses() { queue_loses_ = false; }
  // Bytes per second that the link carried for this flow when a queue stood for a whole round; 0: none did yet.
  float carried() const { return carried_; }
  // Whether more was in flight lately than ever before: slow start, most likely.
  bool growing() const { return thinning_ || (cap_ == 0 && rounds_ <= 1); }
  bool thinning() const { return thinning_; }
  std::uint32_t cap() const { return cap_; }       // bytes in flight; 0: none
  std::uint32_t flight() const { return flight_; } // bytes that arrived in the last round trip

private:
  static double target(const FlowView& flow, const Settings& settings);
  static Duration gap(const FlowView& flow, const Settings& settings);
  void measure(const FlowView& flow, const DelayMeter& delay, const Settings& settings, double together, Tick now);
  void end_round(const FlowView& flow, const Settings& settings, double together, Tick now);
  // Whether other flows of this host have a good part of what it gets by the link.
  bool shared(double together) const;
  bool ended_losses(const FlowView& flow) const;
  bool outlived(const FlowView& flow, double together, Tick now) const;
  void lift(const FlowView& flow, const Settings& settings, Tick now);
  void open_at_pace(std::uint32_t room, const FlowView& flow, Tick now);

  bool known_ = false;
  bool lossy_ = false;
  bool expecting_ = false; // lossy_ without a hidden loss yet
  bool thinning_ = false;
  bool opening_ = false;
  bool queue_loses_ = false;
  std::uint8_t rounds_ = 0;   // with the cap, or without growth while there is none
  std::uint8_t episodes_ = 0; // that were hidden
  std::uint8_t crowded_ = 0;  // rounds in a row with much more in the queue than the cap lets this flow put there
  Seq edge_ {};
  Seq mark_ {};        // edge at the beginning of the round
  Seq step_ {};        // and of the step
  Seq hidden_edge_ {}; // edge_ at the last random loss
  Seq limit_ {};       // with opening_: the right edge of the window
  std::uint32_t cap_ = 0;
  std::uint32_t flight_ = 0;
  std::uint32_t most_ = 0;   // of flight_; of cap_ while there is one
  float fastest_ = 0;        // bytes per second, the fastest step of this round
  float fastest_before_ = 0; // and of the last
  float least_queued_ = 0;   // s, in this round
  float delivered_ = 0;      // bytes per second, smoothed over rounds
  float carried_ = 0;        // bytes per second, of the last round with a queue
  float expected_ = 0;       // of a flow before this one
  float usual_ = 0;          // random losses a segment
  float before_ = 0;         // delivered_ when the cap was set
  Tick mark_at_ {};
  Tick step_at_ {};
  Tick opening_until_ {};
  Tick acknowledged_at_ {};
  Tick hidden_at_ {};  // the last random loss
  Tick free_until_ {}; // no cap before: somebody else fills the queue, or the cap did harm
};

} // namespace tandem::mirror
