// Finds out what kind of TCP sends a flow, from the handshake and from the ACKs that this host's TCP makes of what
// arrives: of those every one is seen, of what arrives only a sample.
#pragma once

#include <tandem/flow.h>
#include <tandem/segment.h>
#include <tandem/sender.h>
#include <tandem/units.h>

#include <cstdint>

namespace tandem::flow
{

// Evidence is collected as votes of different weight:
//
// - The SYN/ACK: what it agrees to, and whether its options are in the order that Linux has them in.
// - Segment sizes: a sender that leaves room for every option a header can have is not Linux.
// - The first round trips. An ACK-clocked sender answers a train of ACKs with a train twice as long, sent at once and
//   followed by silence; a rate-based one spreads it over the round trip.
// - Losses. What is sent in the round trip after the first retransmission, over what arrived in the one before it: 0.7
//   and 0.5 for CUBIC and Reno (RFC 6937, RFC 9438), about 1 for BBR. What Tandem makes of the episode comes later and
//   changes nothing here.
// - PROBE_RTT of BBR: four segments a round trip for 200 ms, and then as many as before, without having been asked for
//   more.
// - Bursts. Whoever paces sends what a few milliseconds carry at once, and no more; an ACK-clocked sender answers an
//   ACK of fifty segments with fifty, and all of them carry one TSval, however long they take to arrive.
//
// Pure: every time is handed in.
class SenderWatch
{
public:
  // Both SYNs were seen; `rtt` between them. Options as agreed are in the view.
  void handshake(const Segment& syn_ack, Duration rtt, FlowView& view);

  // What earlier connections to the same server were, once the handshake is over; unresponsive: a user-space stack. One
  // sign against it, and the kind is unknown; a second one, and it is another.
  void expect(SenderKind kind, FlowView& view);

  // What this connection has shown since it was last asked, as votes: above 0 for loss-based. Those of one connection
  // never add up to more than its score can be.
  int news();

  // A pure ACK as the local TCP made it; the view is as before it.
  void acknowledged(const Segment& ack, FlowView& view, Tick now);

  // This host sent data: a request, after which more may come than before it.
  void asked()
  {
    low_ = 0;
    asked_ = true;
  }

  // A segment with payload as it arrives, of which a sample will do; the view is as before it.
  void arrived(const Segment& data, FlowView& view, Tick now);

  // Packets may have gone by unseen.
  void resume();

private:
  using Microseconds = std::uint32_t; // since the flow was first seen; wraps

  enum class Stage : std::uint8_t
  {
    idle,   // no episode is followed
    open,   // a new hole is shown
    filled, // by its retransmission: now what the sender sent after it arrives
  };

  // What one ACK says.
  struct Heard
  {
    Seq edge {};  // behind the highest byte held
    Seq count {}; // the number of the ACK and all bytes in its blocks: grows with what is held
    unsigned blocks = 0;
    bool progress = false;
    bool new_hole = false;
  };

  static Heard hear(const Segment& ack, const FlowView& view);
  Microseconds at(const FlowView& view, Tick now) const;
  Microseconds rtt(const FlowView& view) const;
  void size(const Segment& ack, FlowView& view);
  void follow_round(const Heard& heard, FlowView& view, Microseconds now);
  void end_round(std::uint32_t window, Microseconds span, FlowView& view);
  void judge_start(std::uint32_t window, Microseconds span, FlowView& view);
  bool judge_growth(std::uint32_t window, Microseconds busy, FlowView& view);
  void follow_losses(const Segment& ack, const Heard& heard, FlowView& view, Microseconds now);
  std::uint32_t sent_since_turn(const Heard& heard) const;
  void judge_episode(std::uint32_t after, Microseconds sent_in, FlowView& view);
  bool is_coarse(double flight, const FlowView& view) const;
  double at_once_at_most(const FlowView& view, Microseconds now) const;
  void vote(int weight, const char* why, FlowView& view);
  void conclude(const char* why, FlowView& view) const;

  Microseconds handshake_ = 0; // round trip of the SYN; 0: not known
  Microseconds last_ = 0;      // when the last ACK came
  Microseconds holed_at_ = 0;  // and the last one that shows a hole
  Microseconds mark_ = 0;      // the beginning of this round, or of the episode
  Microseconds turn_ = 0;      // in a round: the longest silence; in an episode: when the hole was filled
  Seq mark_edge_ {};           // Heard::edge at `mark_`; in an episode: where the hole begins
  Seq mark_count_ {};          // Heard::count then
  Seq last_count_ {};          // of the last ACK
  Seq turn_edge_ {};           // and at `turn_`
  Seq turn_count_ {};
  TsClock retransmission_ {};  // TSval of what filled the hole
  std::uint32_t step_ = 0;     // the most that one ACK of the episode had more than the one before, in bytes
  std::uint32_t after_ = 0;    // bytes that were sent after it, before the sender heard that it had filled the hole
  TsClock clock_ {};           // a TSval, for the length of its ticks
  Microseconds clock_at_ = 0;  // when it arrived
  TsClock burst_ {};           // TSval of the newest data
  Seq burst_from_ {};          // the first byte that came with it
  Microseconds burst_at_ = 0;  // when a burst told something last
  float train_ = 0;            // the fastest train yet, bytes a microsecond
  float even_rate_ = 0;        // the slowest round yet that was evenly filled, likewise
  std::uint32_t window_ = 0;   // of the last rounds, in bytes
  std::uint16_t low_ = 0;      // ms with hardly anything in flight
  std::uint16_t after_ms_ = 0; // of `after_`, by the sender's clock; 0: not known
  std::uint16_t full_ = 0;     // bytes of a full segment, as Linux would send it; 0: not known
  std::int8_t score_ = 0;      // above 0: loss-based
  std::int8_t told_ = 0;       // the part of it that is no news: other connections showed it, or it was told
  std::uint8_t rounds_ = 0;    // of the start; most_rounds: it is over
  std::uint8_t paced_ = 0;     // rounds that say the start is paced, since the last one that says trains
  std::int8_t sizes_ = 0;      // ACKs of segments with room for all options, less those of segments as Linux makes them
  Stage stage_ = Stage::idle;
  bool began_ : 1 = false;
  bool in_round_ : 1 = false;
  bool holed_ : 1 = false;
  bool many_ : 1 = false;       // holes in this episode: more than an ACK can show
  bool growing_ : 1 = false;    // the window still grew when it began
  bool clocked_ : 1 = false;    // `clock_` is known
  bool asked_ : 1 = false;      // since this round began
  bool low_again_ : 1 = false;  // `low_` is of more rounds than one
  bool foretold_ : 1 = false;   // `sizes_` is what other connections showed, until one of this says the same
  bool strange_ : 1 = false;    // the order of the SYN/ACK's options is not Linux's
  bool past_start_ : 1 = false; // longest_start is over
};

} // namespace tandem::flow
