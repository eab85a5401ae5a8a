// What Tandem knows of a flow from looking at it. Kept by src/flow, read by modules.
#pragma once

#include <tandem/fetch.h>
#include <tandem/segment.h>
#include <tandem/sender.h>
#include <tandem/ts_reservation.h>
#include <tandem/units.h>

#include <cstdint>
#include <optional>

namespace tandem
{

// Why a flow is bypassed, whatever the modules would like.
enum class Bypass : std::uint8_t
{
  none,
  mid_flow,        // attached after the handshake: window scale and options unknown
  authenticated,   // TCP-MD5 (RFC 2385) or TCP-AO (RFC 5925)
  guard_violation, // a module asked for something the guard forbids
  module_fault,    // a module threw or took too long
  not_home,        // the local address belongs to neither link
};

constexpr std::string_view name(Bypass why)
{
  switch (why)
  {
  case Bypass::none:
    return "none";
  case Bypass::mid_flow:
    return "attached mid-flow";
  case Bypass::authenticated:
    return "TCP-MD5 or TCP-AO";
  case Bypass::guard_violation:
    return "guard violation";
  case Bypass::module_fault:
    return "module fault";
  case Bypass::not_home:
    return "address on neither link";
  }
  return "?";
}

// Why nothing of a flow may go by the cellular link, whatever that costs.
enum class CellDenied : std::uint8_t
{
  no,
  private_peer,  // its peer is on a private or on-link network of the Wi-Fi link: another link leads elsewhere
  mptcp_refused, // FlowView::mptcp_refused
};

constexpr std::string_view name(CellDenied why)
{
  switch (why)
  {
  case CellDenied::no:
    return "";
  case CellDenied::private_peer:
    return "private-peer";
  case CellDenied::mptcp_refused:
    return "MPTCP refused by the server";
  }
  return "?";
}

// A flow as modules see it. Sequence numbers of the download direction (server to client) are called "received".
struct FlowView
{
  FlowKey key {};
  std::uint64_t id = 0;    // unique within a run, never reused
  Link link = Link::other; // the link that owns the local address
  Bypass bypass = Bypass::none;

  // Options agreed in the handshake; meaningful unless bypass is mid_flow.
  bool timestamps_ok = false; // RFC 7323, both sides
  bool sack_ok = false;       // RFC 2018, both sides
  // MPTCP was offered by a SYN and not refused. False again once the SYN/ACK came without MP_CAPABLE: from then on both
  // ends speak plain TCP (RFC 8684 3.7). Whatever is less certain than that counts as MPTCP.
  bool mptcp = false;
  bool mptcp_joined = false;         // a subflow made by MP_JOIN
  bool mptcp_backup = false;         // this host's last word on its priority (MP_JOIN's B bit, MP_PRIO)
  std::uint8_t mptcp_address_id = 0; // this host's, of MP_JOIN
  // Of MP_CAPABLE: 1 is RFC 8684, 0 RFC 6824. A subflow that joined does not say.
  std::optional<std::uint8_t> mptcp_version {};
  // The server's token, the same for all subflows of a connection: from MP_JOIN, or from the server's key in MP_CAPABLE
  // (RFC 8684 3.2, RFC 6824 3.2). 0 = not known.
  std::uint32_t mptcp_token = 0;
  // This host asked for MPTCP and the answer came without it. Its socket is one of MPTCP's all the same, over plain
  // TCP, and Linux 6.18 loses or mixes up a segment there that begins within what it holds. A server's retransmission
  // does so where an ACK told it less than arrived: all that the local TCP acknowledges leaves as it is, by its own
  // link (docs/decisions/0037).
  bool mptcp_refused = false;
  bool ecn = false;                    // ECN agreed in the handshake, classic (RFC 3168) or accurate
  bool acc_ecn = false;                // AccECN agreed (RFC 9768): ECE, CWR and AE count marks
  std::uint16_t ace = 0;               // with AccECN: the counter in these three bits, as the local TCP last sent it
  Ecn ecn_seen = Ecn::not_ect;         // of the last data that arrived
  std::uint8_t local_window_scale = 0; // shift for windows this host advertises
  std::uint8_t remote_window_scale = 0;
  std::uint16_t mss = 536; // bytes per segment the server may send (RFC 9293 3.7.1), never 0

  Sender sender {}; // what kind of TCP the server has

  // Egress: what this host has told the server. The kernel's own numbers, before any edit.
  Seq rcv_nxt {};                // highest acknowledgement number the local TCP sent: all before it is held here
  Seq snd_nxt {};                // behind the last byte this host sent
  Seq snd_una {};                // the newest acknowledgement number that arrived: all of this host's data before it is
  std::uint16_t last_window = 0; // unscaled
  TsClock last_ts_value {};      // last TSval the local TCP sent
  TsClock ts_recent {};          // last TSecr the local TCP sent
  bool fin_sent = false;
  // Behind the highest byte that the local TCP has reported to hold: by its SACK blocks, else rcv_nxt.
  Seq highest_held {};
  // Its last ACK reported data beyond a hole (RFC 2018).
  bool holes = false;
  // Holes that stood about as long as a retransmission takes, so that they were losses, and are filled; the count stops
  // at its largest value. And when the last of them was.
  std::uint16_t loss_episodes = 0;
  Tick filled_at {};
  // The sender may be in slow start: nothing was lost yet, and it went on growing lately.
  bool slow_start = true;
  // Bytes of what it acknowledged that may be kept from the server now, by all modules together: the chain's word,
  // which it enforces.
  std::uint32_t may_withhold = 0;

  // What the flow carries, as far as a fetch service looks into it.
  Content content = Content::unknown;
  std::string_view content_why {}; // literal; why it is refused

  // A path validation by the cellular link failed lately for another flow to the same servers, or for so many others
  // that it is the cellular network: not worth one of this flow's for now.
  bool cell_path_failed = false;
  // The opposite: a flow to the same servers, from the same network and by the same cellular link, was validated
  // lately. The delay that the way of its ACKs by cellular added to that by Wi-Fi, as it was measured; negative: it was
  // faster. Not proved for this flow: the module that goes by it must notice when its ACKs do not arrive.
  std::optional<Duration> cell_path_known {};
  CellDenied cell_denied = CellDenied::no;

  // What really left for the server, after edits; the chain keeps it.
  Seq sent_ack {};               // last acknowledgement number sent
  Seq sent_sacked {};            // behind the highest byte that an ACK has reported, by its number or a SACK block
  std::uint16_t sent_window = 0; // last window sent, unscaled
  // The window of the local TCP that stands for: its own, where it left as it was or bounded by an edit that may wait,
  // else as an edit made it. The next one's differing from it is a change that the server must learn.
  std::uint16_t told_window = 0;
  TsClock sent_ts_value {}; // highest TSval sent (PAWS, RFC 7323 5)
  bool sent_any = false;

  // Which TSvals the chain keeps for one module, What::none: for none. A module that reserved some and finds others
  // here, or none, has lost them: data of this host left with one.
  TsReservation ts_reserved {};

  // Passive measurements. Durations are zero until first measured.
  Duration rtt_latest {}; // from a TSval leaving to its first seen echo
  Duration rtt_smoothed {};
  Duration rtt_min {};               // over the last 10 s
  Tick rtt_at {};                    // when rtt_latest was taken
  std::uint64_t bytes_delivered = 0; // acknowledged by the local TCP
  std::uint64_t bytes_sent = 0;      // payload this host sent
  double delivery_rate = 0;          // bytes per second over about the last two RTTs
  std::uint32_t window_estimate = 0; // bytes delivered per RTT, the estimate of the sender's window; 0 until known

  Tick resumed {}; // when packets were seen again after the queue had been out of the way; measurements restarted then
  Tick first_seen {};
  Tick last_seen {};

  // The receive window in bytes that `raw` (as in the header) means on this flow.
  constexpr std::uint32_t scaled(std::uint16_t raw) const
  {
    return static_cast<std::uint32_t>(raw) << local_window_scale;
  }
};

// Why nothing of the flow may go by the cellular link, for whatever reason.
constexpr CellDenied cell_denial(const FlowView& flow)
{
  return flow.cell_denied == CellDenied::no && flow.mptcp_refused ? CellDenied::mptcp_refused : flow.cell_denied;
}

// The bits of the header that AccECN counts in (RFC 9768 3.2.2).
constexpr std::uint16_t ace_bits = tcp_flag::ae | tcp_flag::cwr | tcp_flag::ece;

// The flags of an injected segment: with AccECN it repeats the counter of the last ACK, so that nothing is counted.
// What AccECN's option counts is not in it: the option may be missing from any ACK, its counters are cumulative, and
// a sender goes by the header without it (RFC 9768 3.2.3).
constexpr std::uint16_t injected_flags(std::uint16_t asked, const FlowView& flow)
{
  return flow.acc_ecn ? static_cast<std::uint16_t>((asked & ~ace_bits) | flow.ace) : asked;
}

// Whether an outgoing ACK carries nothing but its number, window and SACK blocks that the next one does not repeat: no
// ECE, CWR, duplicate, FIN, RST, data, one-time MPTCP signal or unknown option, and no question: a keep-alive or window
// probe has the number of a byte before SND.NXT (RFC 9293 3.8.4, 3.8.6.1). With AccECN none is: three bits count marks
// modulo eight, so that a sender must guess how often they went round in what was left out (RFC 9768 3.2.2.5).
constexpr bool says_only_number(const Segment& segment, const FlowView& flow)
{
  constexpr std::uint32_t counting = option::acc_ecn | option::unknown;
  return segment.direction == Direction::egress && segment.is_pure_ack() && segment.seq == flow.snd_nxt
         && !segment.has(ace_bits | tcp_flag::urg) && !flow.acc_ecn && !segment.has_mptcp_signal()
         && !segment.has_option(counting) && !flow.mptcp_refused && flow.sent_any && segment.ack.after(flow.sent_ack);
}

// Whether an outgoing ACK carries nothing but its window that the next one does not repeat: no SACK or DSACK either.
constexpr bool repeats_but_for_window(const Segment& segment, const FlowView& flow)
{
  return says_only_number(segment, flow) && segment.sack_count == 0;
}

// Whether an outgoing ACK tells of repaired holes alone: its SACK blocks were all reported before, and the next ACK
// repeats its number. What that covers anew is what filled the holes, so that it draws no burst when it comes later.
constexpr bool reports_nothing_new(const Segment& segment, const FlowView& flow)
{
  if (!says_only_number(segment, flow) || segment.sack_count == 0) return false;
  for (const SackBlock& block : segment.sacks())
    if (!block.left.after(segment.ack) || block.right.after(flow.sent_sacked)) return false;
  return true;
}

// Likewise, and its window is the one that the server knows. Such an ACK may be left out, while a later one is sure to
// follow.
constexpr bool repeats_in_next(const Segment& segment, const FlowView& flow)
{
  return repeats_but_for_window(segment, flow) && segment.window == flow.told_window;
}

// All that may be left out, while a later one is sure to follow: a window that has grown may wait as well, as long as
// the one that the server knows lets it send twice what it sends in a round trip, in slow start four times. A receiver
// need not announce each growth (RFC 9293 3.8.6.2.2), and Linux lets the window of a young flow grow with every ACK.
constexpr bool may_be_left_out(const Segment& segment, const FlowView& flow)
{
  if (!repeats_but_for_window(segment, flow) || segment.window < flow.told_window) return false;
  if (segment.window == flow.told_window) return true;
  const std::int32_t room = flow.sent_ack + flow.scaled(flow.told_window) - segment.ack;
  const std::int64_t needed = std::int64_t { flow.window_estimate } * (flow.slow_start ? 4 : 2);
  return needed > 0 && room >= needed;
}

} // namespace tandem
