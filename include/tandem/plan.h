// What a module may ask for. A Plan is data: src/chain merges the plans of all modules, its guard checks them,
// src/kernel carries them out.
#pragma once

#include <tandem/fetch.h>
#include <tandem/link.h>
#include <tandem/segment.h>
#include <tandem/ts_reservation.h>
#include <tandem/units.h>

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace tandem
{

enum class Verdict : std::uint8_t
{
  pass,
  // Thinning; only ever of an ACK that carries nothing a later one does not repeat. An edit beside it is for the case
  // that another module insists on this ACK.
  drop,
};

// Changes to the segment at hand. An empty field leaves the bytes as they are.
struct Edit
{
  std::optional<Seq> ack {};              // only downwards, or up to what this host holds (FlowView::rcv_nxt)
  std::optional<std::uint16_t> window {}; // unscaled, only downwards
  // The window bounds what is in flight, and the next ACK's does so as well: another module may leave this ACK out.
  // Otherwise an edit of the window asks that this very segment leaves.
  bool window_waits = false;
  std::optional<TsClock> ts_echo {};  // TSecr
  std::optional<TsClock> ts_value {}; // TSval, only downwards and never below one sent before (PAWS)
  std::optional<Ecn> ecn {};          // IP ECN field, only on ECN-capable packets
  std::optional<Link> route {};       // leave by this link; the source address stays

  constexpr bool changes_bytes() const { return ack || window || ts_echo || ts_value || ecn; }
  constexpr bool empty() const { return !changes_bytes() && !route; }
};

enum class InjectedKind : std::uint8_t
{
  ack,              // a pure ACK of this flow
  host_unreachable, // ICMP type 3 code 1 / ICMPv6 type 1 code 0 quoting this flow at `seq` (RFC 6069)
  fill,             // fetched bytes for the LOCAL TCP, see <tandem/fetch.h>
  // The chain's own, no module's: see Interest::own_unanswered.
  own_unreachable, // as host_unreachable, but to the LOCAL TCP, quoting its own segment that begins at `seq`
  own_syn,         // this host's SYN once more: `original`, with the TSval of `timestamps`
};

// A new segment of the flow, sent by a named link at a time. Sequence and acknowledgement numbers obey the same rules
// as an Edit.
struct InjectedSegment
{
  InjectedKind kind = InjectedKind::ack;
  Link by = Link::wifi;
  Tick at {}; // in the past or now: at once
  Seq seq {};
  Seq ack {};
  std::uint16_t window = 0;  // unscaled
  bool window_waits = false; // as in Edit
  std::uint16_t flags = tcp_flag::ack;
  std::optional<Timestamps> timestamps {};
  std::array<SackBlock, 4> sack_blocks {};
  std::uint8_t sack_count = 0;
  std::uint32_t length = 0;               // of a fill: payload bytes from `seq` on, at most longest_fill
  std::span<const std::byte> original {}; // of an own_syn: the whole packet, valid until the chain is called again
};

// A request about a link rather than a packet.
enum class RequestKind : std::uint8_t
{
  mptcp_backup,   // MP_PRIO: value 1 = backup, 0 = regular
  mptcp_endpoint, // value 1 = add, 0 = delete
  ce_rate,        // share of ECN-capable packets arriving by the link to mark CE, 0 to 1
  // Of Link::wifi: value 1 = the card's association shall move to the best other access point of its network that was
  // heard lately (RadioState::candidate), 0 = stay. Whether it does is decided by src/association/roamer.h.
  roam,
};

struct LinkRequest
{
  RequestKind kind = RequestKind::ce_rate;
  Link link = Link::wifi;
  double value = 0;
};

// How fast this host's own TCP may send on the flow at hand: an upload, kept from queueing. Carried out on the socket
// itself (docs/decisions/0032), where that is possible, and only ever a bound: congestion control stays as it is below.
struct Pace
{
  double rate = 0; // bits/s of payload and headers; 0, or what is no number: as fast as the local TCP likes
};
// A pace that is not asked for again within this time lapses, and so it does with its module.
constexpr Duration pace_lasts = std::chrono::seconds { 2 };

// What a module has just found of the way of a flow's pure ACKs by the cellular link.
struct CellPath
{
  enum class Is : std::uint8_t
  {
    validated, // they reach the server
    failed,    // a path validation ended without an echo: they do not
    doubted,   // they left on another flow's word (FlowView::cell_path_known), or were validated, and are not echoed
  };
  Is is = Is::failed;
  // Validated: what it adds to the delay by Wi-Fi, negative when it is faster. Without it no other flow can go by it.
  std::optional<Duration> added_delay {};
};

// Plan{} forwards the packet byte for byte.
struct Plan
{
  Verdict verdict = Verdict::pass;
  Edit edit {};
  std::span<const InjectedSegment> inject {}; // valid until the module is called again
  std::span<const LinkRequest> request {};    // likewise
  std::span<const Fetch> fetch {};            // likewise
  // Asks for a reservation, changes the module's own, or (What::none) gives it back. Without effect, and counted, while
  // another module has one, when a TSval of it has left already, or while data of this host is not acknowledged.
  std::optional<TsReservation> reserve {};
  // Other flows to the same servers are told (FlowView::cell_path_failed, cell_path_known).
  std::optional<CellPath> cell_path {};
  // What the end of a blackout has shown: the access point had kept frames of this flow, and they made it go on (true),
  // or nothing came by itself (false). Other flows are told (LinkState::keeps_frames).
  std::optional<bool> frames_kept {};
  std::optional<Pace> pace {}; // of this flow; without one the last one holds as long as pace_lasts says
  std::optional<Tick> wake {}; // an Alarm for this flow and module; a later plan with a wake replaces it
  // Until then the module needs to see nothing of this flow. When no flow is needed by any module the queue is taken
  // out of the way.
  std::optional<Tick> quiet {};
  std::string_view why {}; // literal, copied to the trace and counted; empty when the module had no opinion
};

} // namespace tandem
