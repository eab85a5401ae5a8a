// Path validation (RFC 9000 8.2): that pure ACKs with this flow's source address, sent by another link, reach the
// server: a cellular network may drop them (source filter) or rewrite them (NAT). While the ACKs by Wi-Fi keep one
// TSval a few copies with the next one leave by the other link. When the server echoes that very timestamp, a copy has
// arrived (RFC 7323 4.3). Part of a module's flow state; pure.
#pragma once

#include <tandem/flow.h>
#include <tandem/plan.h>
#include <tandem/pure_ack.h>
#include <tandem/segment.h>
#include <tandem/units.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>

namespace tandem
{

struct PathValidation
{
  TsClock frozen {}; // kept by Wi-Fi; the copies carry frozen + 1
  std::uint8_t copies = 0;
  bool echo_due = false;     // data came so late that an echo should have been in it
  bool window_moved = false; // since the copies began to leave: those that arrived may not have been echoed
  bool unechoed = false;     // no echo came though one was due, and none has come since
  Tick begun_at {};          // and then the first copy
  Tick copy_at {};           // the last one

  // A copy acknowledges this much less than the ACK it is made of. Behind a NAT the server does not know it and answers
  // with an RST whose sequence number is the copy's ACK number (RFC 9293 3.10.7.1), which the NAT may well deliver. Two
  // bytes lower it lies before the window, and TCP ignores it; one byte would not do for Linux in CLOSE_WAIT.
  static constexpr std::uint32_t lag = 2; // bytes
  // Whether the core lets so much be left out of an ACK: not while a hole stands, nor for a round trip after it
  // (docs/decisions/0015).
  static constexpr bool may_lag(const FlowView& flow) { return flow.may_withhold >= lag; }

  // The most that may be acknowledged by cellular of what has arrived.
  static Seq most_by_cell(const FlowView& flow) { return flow.rcv_nxt - lag; }
  // An ACK to inject by cellular: what the local TCP said last, less the lag.
  static InjectedSegment latest_by_cell(const FlowView& flow)
  {
    InjectedSegment ack = latest_ack(flow, Link::cell);
    ack.ack = most_by_cell(flow);
    return ack;
  }

  // An old ACK is echoed only while the advertised window does not move (docs/decisions/0003): it has not for so many.
  static constexpr std::uint8_t still_acks = 16;

  // From now on every ACK by Wi-Fi must carry `frozen`, until the path is validated or given up. `still`: ACKs in a row
  // with the same window.
  void begin(TsClock own, unsigned still, Tick now)
  {
    frozen = own;
    copies = 0;
    echo_due = false;
    window_moved = still < still_acks;
    begun_at = now;
  }

  // What the copies need: nothing else carries their TSval or a younger one.
  TsReservation reservation() const { return { .what = TsReservation::What::onward, .from = frozen + 1 }; }
  // Whether the module still has it. Without it an echo proves nothing.
  bool holds(const FlowView& flow) const { return flow.ts_reserved == reservation(); }
  // Whether it can be had now: nobody else has one, and no data of this host waits to be sent once more.
  static bool possible(const FlowView& flow)
  {
    return flow.ts_reserved.what == TsReservation::What::none && flow.snd_una == flow.snd_nxt;
  }

  // Whether another copy may leave, at most `most` of them, eight in a round trip.
  bool due(Tick now, unsigned most, Duration rtt) const
  {
    using namespace std::chrono_literals;
    return copies < most && (copies == 0 || now - copy_at >= std::max<Duration>(rtt / 8, 5ms));
  }

  // The copy by `by` of an ACK that is about to leave, acknowledging up to `ack` less the lag. Only of one with
  // timestamps.
  InjectedSegment copy(const Segment& segment, Seq ack, Link by, Tick now)
  {
    if (copies == 0) begun_at = now;
    ++copies;
    copy_at = now;
    return { .kind = InjectedKind::ack,
             .by = by,
             .at = now,
             .seq = segment.seq,
             .ack = ack - lag,
             .window = segment.window,
             .flags = segment.flags,
             .timestamps = Timestamps { frozen + 1, segment.timestamps->echo },
             .sack_blocks = segment.sack_blocks,
             .sack_count = segment.sack_count };
  }

  // Whether an arriving segment's echo is that of a copy.
  bool confirmed_by(TsClock echo) const { return copies > 0 && echo == frozen + 1; }

  // Data has arrived that has no echo of them. Where the answer ends before one is due, that none came says nothing.
  void unconfirmed(Tick now, Duration rtt)
  {
    constexpr Duration margin = std::chrono::milliseconds { 50 };
    echo_due = echo_due || (copies > 0 && now - begun_at >= rtt + margin);
  }
  // Though one was due none came. Whether that is to be told to other flows: where the window moved meanwhile a copy
  // that arrived need not have been echoed, so it takes a second time.
  bool failed()
  {
    const bool told = !window_moved || unechoed;
    unechoed = true;
    return told;
  }

  // A round trip and a margin, and no longer, so that the newest ACK reaches the server before its timer fires
  // (RFC 6298 with Linux's floor of 200 ms above the RTT).
  static Duration timeout(Duration rtt)
  {
    using namespace std::chrono_literals;
    return std::clamp<Duration>(rtt + 100ms, 60ms, 1s);
  }
  bool expired(Tick now, Duration rtt) const { return now - begun_at >= timeout(rtt); }

  // The back-off after a failure, in seconds: `first`, doubling with each in a row up to `longest`. Counts it.
  static double back_off(std::uint8_t& failures, double first, double longest)
  {
    const double seconds = std::min(longest, first * std::exp2(failures));
    if (failures < 30) ++failures;
    return seconds;
  }
};

} // namespace tandem
