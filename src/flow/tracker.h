// Keeps a FlowView true from the segments that pass: handshake options, passive RTT, delivery rate, the sender's
// window and kind.
#pragma once

#include "src/flow/acceptability.h"
#include "src/flow/sender_watch.h"

#include <tandem/flow.h>
#include <tandem/segment.h>
#include <tandem/units.h>

#include <array>
#include <cstdint>

namespace tandem::flow
{

// A window as it left, unscaled, and the one that it stands for (FlowView::told_window).
struct Offer
{
  constexpr Offer(std::uint16_t sent) : Offer { sent, sent } {}
  constexpr Offer(std::uint16_t sent, std::uint16_t stands_for) : window { sent }, told { stands_for } {}

  std::uint16_t window = 0;
  std::uint16_t told = 0;
};

// The measuring half of a flow. Pure: every time is handed in.
class Tracker
{
public:
  // Takes note of a segment as the kernel made it (egress) or as it arrived (ingress), before any edit. Of what arrives
  // only when it is acceptable.
  Acceptability seen(const Segment& segment, FlowView& view, Tick now);

  // This host's ACKs are not seen for a while: until the next one nothing that arrives can be judged.
  void lose_sight()
  {
    synchronized_ = false;
    sender_.resume();
  }

  // Packets may have gone by unseen, even more than a sequence space: what comes next is taken as it is.
  void resume(FlowView& view);

  // Takes note of what really left after edits: the TSval whose echo will be timed, acknowledgement number and
  // window.
  void left(const Segment& segment, Seq ack, Offer offer, TsClock ts_value, FlowView& view, Tick now);

  // It did not leave with this TSval after all.
  void not_left(TsClock ts_value, Tick now);

  // See SenderWatch.
  void expect_sender(SenderKind kind, FlowView& view) { sender_.expect(kind, view); }
  int sender_news() { return sender_.news(); }

  // The number of this host's SYN, where its connection is one that it began and the SYN was seen.
  std::optional<Seq> own_isn() const
  {
    return local_syn_ && (local_flags_ & tcp_flag::ack) == 0 ? std::optional { local_isn_ } : std::nullopt;
  }
  // Whether the view's snd_una is what the peer has acknowledged.
  bool una_known() const { return una_known_; }
  // Both SYNs were seen.
  bool established() const { return established_; }

  // Whether a SYN can belong to the handshake of this flow.
  bool fits(const Segment& syn, const FlowView& view) const;

private:
  struct Sent
  {
    TsClock value {};
    Tick at {};
  };

  Acceptability judge(const Segment& arriving, const FlowView& view) const;
  unsigned remote_shift(const FlowView& view) const;
  bool went_round(const Segment& segment, const FlowView& view) const;
  void sent_by_host(const Segment& segment, FlowView& view, Tick now);
  void arrived(const Segment& segment, FlowView& view, Tick now);
  void handshake(const Segment& segment, FlowView& view, Tick now);
  void local_syn(const Segment& segment, FlowView& view);
  void remote_syn(const Segment& segment, FlowView& view);
  void answered_unseen(const Segment& answer, FlowView& view);
  void agree_on_ecn(FlowView& view) const;
  static void multipath(const Segment& segment, FlowView& view);
  bool refused_multipath() const;
  static void count_marks(const Segment& segment, FlowView& view);
  void acknowledged(const Segment& segment, FlowView& view, Tick now);
  void held(const Segment& segment, FlowView& view, Tick now);
  void note_growth(FlowView& view, Tick now);
  static Tick in_line(const Sent& from, TsClock value, const Sent& to);
  static Duration off_line(const Sent& from, const Sent& between, const Sent& to);
  void remember(const Sent& one);
  void make_room();
  void echoed(TsClock echo, FlowView& view, Tick now);
  void rtt_sample(Duration sample, FlowView& view, Tick now);

  // TSvals that left and when, oldest first: about eight per RTT while it is known.
  static constexpr std::size_t remembered = 12;
  std::array<Sent, remembered> sent_ {};
  TsClock last_echo_ {};                // newest TSecr taken as a sample; an echo is timed once
  std::uint32_t newest_left_at_us_ = 0; // when view.sent_ts_value left, remembered or not, since the flow began; wraps
  std::uint8_t sent_count_ = 0;
  bool echo_known_ = false;

  // Minimum RTT over two half windows of five seconds.
  Duration min_current_ {};
  Duration min_previous_ {};
  Tick min_turn_ {};

  Tick holes_since_ {}; // with view.holes

  // Growth of view.window_estimate: the most, and when it last rose by a part worth the name.
  std::uint32_t largest_estimate_ = 0;
  Tick grew_at_ {};

  // One round of delivery: bytes acknowledged over about an RTT.
  Tick round_start_ {};
  std::uint64_t round_bytes_ = 0;
  std::uint32_t previous_round_ = 0;

  // Handshake so far: options of both SYNs.
  std::uint32_t local_options_ = 0;
  std::uint16_t local_flags_ = 0, remote_flags_ = 0; // of the SYNs
  std::uint32_t remote_options_ = 0;
  bool local_syn_ = false;
  bool remote_syn_ = false;
  bool joins_ = false;              // a SYN carried MP_JOIN
  bool asked_multipath_ = false;    // one of this host's SYNs carried MPTCP
  bool remote_scale_known_ = false; // view.remote_window_scale is the peer's
  bool established_ = false;        // both were seen
  bool ack_seen_ = false;
  bool synchronized_ = false;        // view.rcv_nxt and view.snd_nxt are this host's own now
  std::uint16_t largest_window_ = 0; // that this host has advertised, unscaled
  Seq local_isn_ {};
  bool una_known_ = false; // view.snd_una is
  SenderWatch sender_ {};
};

} // namespace tandem::flow
