// The client's end of a mirror connection: a small TCP of our own that asks for what an earlier connection asked for,
// and then wants only a few pieces of the answer. Pure: time, numbers that must not be guessed, and packets are handed
// in; packets come out as data.
//
// Published method: C.-L. Tsao and R. Sivakumar, "On effectively exploiting multiple wireless interfaces in mobile
// hosts", CoNEXT 2009 (mirroring-loss-fetching). What is not wanted is acknowledged proactively, without waiting for it
// on the cellular link; acknowledging stops short of a wanted piece, a guard time lets the link's queue drain, then the
// piece is received like any data. With nothing wanted the window is closed, and the link carries nothing.
//
// An acknowledgement of bytes that the server has not sent yet is ignored by Linux, and answered by others; it is never
// of use. So the estimate of what has been sent comes from what is proved: a data segment that ends at E and echoes the
// timestamp of our ACK of A shows that the server sends up to E - A bytes beyond an acknowledgement. It is applied to
// the acknowledgement that left one unloaded round trip ago: what is acknowledged is what would be here by now if the
// link had no queue. When the server stops, acknowledging falls back to what has been seen.
#pragma once

#include "src/fetch/byte_store.h"
#include "src/fetch/fetcher.h"
#include "src/fetch/intervals.h"

#include <tandem/segment.h>
#include <tandem/units.h>

#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace tandem::fetch
{

struct MirrorConfig
{
  FlowKey key {};           // local: an address of the cellular link and a port reserved on it
  Seq initial_sequence {};  // random (RFC 6528)
  TsClock initial_clock {}; // random (RFC 7323 7.1)
  std::uint16_t mss = 1460; // what the cellular link's MTU leaves
  bool optimistic = true;   // false: everything is received, as by any TCP; for comparison
  Duration guard = 256ms;   // before a wanted piece; the publication's value
  bool early_guard = true;  // the guard ends when the last byte before the piece is here: nothing is queued behind it
  std::uint64_t near = 128 * 1024;              // a wanted piece no farther away is reached by receiving, not by
                                                // skipping; more on a link that carries more during the guard
  std::uint64_t sweep_window = 4 * 1024 * 1024; // bytes the server may have under way while skipping
  Rate sweep_rate = 200_mbps;                   // acknowledging never runs faster
  std::uint64_t receive_window = 256 * 1024;    // bytes under way while receiving
  std::uint64_t store = 1024 * 1024;            // bytes kept of what came unasked, for a piece that is wanted later
  Duration give_up = 15s;                       // without any packet of the server
};

enum class MirrorPhase : std::uint8_t
{
  idle,
  connecting,
  open,
  closed, // nothing comes any more; why() says why
};

enum class MirrorMove : std::uint8_t
{
  parked,    // nothing wanted: the window is closed
  sweeping,  // acknowledging what is not wanted
  guarding,  // waiting for the link's queue to drain
  receiving, // the wanted bytes, as any TCP would
};

struct MirrorStats
{
  std::uint64_t bytes_in = 0; // whole IP packets
  std::uint64_t bytes_out = 0;
  std::uint64_t packets_in = 0;
  std::uint64_t packets_out = 0;
  std::uint64_t ahead = 0;   // ACKs of bytes that had not been seen
  std::uint64_t stalls = 0;  // the server stopped: the estimate was too high, or ACKs were lost
  std::uint64_t sweeps = 0;  // skips begun
  std::uint64_t refused = 0; // segments that no rule of TCP accepts
  Duration rtt_min {};       // zero until known
};

class MirrorTcp
{
public:
  MirrorTcp(const MirrorConfig& config, std::vector<std::byte> request);

  void open(Tick now);
  // A segment from the server to key, its checksum verified, its bytes whole.
  void arrive(const Segment& segment, Tick now);
  // To be called at wake() or later; harmless when called at any time.
  void tick(Tick now);
  // Tick::max() while nothing is to be done but wait for packets.
  Tick wake() const;

  // Offsets count from the first byte of the server's answer. False: it lies behind what has been acknowledged, and can
  // not come on this connection any more.
  bool want(const Piece& piece, Tick now);
  void unwant(const Piece& piece, Tick now);
  bool holds(const Piece& piece) const { return store_.holds(piece); }
  std::vector<std::byte> read(const Piece& piece) const { return store_.read(piece); }
  // How many bytes of the answer's beginning are held.
  std::uint64_t beginning() const { return store_.first_gap(0); }

  // Ends the connection by a RST.
  void abort();

  // Whole IP packets to send, in order; each is given once.
  std::vector<std::vector<std::byte>> take_packets();

  MirrorPhase phase() const { return phase_; }
  MirrorMove move() const { return move_; }
  std::string_view why() const { return why_; }             // literal; empty while not closed
  std::uint64_t position() const { return top_ack_; }       // the first byte that may still come
  std::optional<std::uint64_t> end() const { return fin_; } // where the server's stream ends, once its FIN is here
  const MirrorStats& stats() const { return stats_; }

private:
  struct Sent
  {
    TsClock clock {};
    std::uint64_t ack = 0;
    std::uint64_t edge = 0;
    Tick at {};
    bool fallback = false; // the lower one of two
  };

  static constexpr std::uint64_t initial_segments = 10; // RFC 6928
  static constexpr Duration quiet =
      std::chrono::milliseconds { 20 }; // nothing came for so long: the link's queue is empty
  static constexpr Duration clamp(Duration value, Duration low, Duration high)
  {
    return std::max(low, std::min(value, high));
  }

  void arrive_connecting(const Segment& segment, Tick now);
  void arrive_open(const Segment& segment, Tick now);
  bool acceptable(const Segment& segment, std::int64_t from, std::int64_t to, Tick now);
  void learn_from_echo(const Segment& segment, std::int64_t end, Tick now);
  void take_payload(const Segment& segment, std::int64_t offset);
  void take_acknowledgement(const Segment& segment, Tick now);
  // `probe`: one byte though the window is closed.
  void send_request(Tick now, bool probe = false);
  std::uint64_t request_segment() const;
  void send_syn(Tick now);
  void challenge(Tick now);
  void die(std::string_view why);

  // What to do next, from what is wanted and what has been seen; sends what that takes.
  void judge(Tick now, bool arrived);
  void steer(Tick now);
  void enter(MirrorMove move, Tick now);
  void presume_all_sent();
  void sweep(Tick now);
  void receive(Tick now, bool arrived);
  void park(bool arrived, Tick now);
  void acknowledge(std::uint64_t ack, std::uint64_t edge, Tick now);
  void acknowledge_both(std::uint64_t ack, std::uint64_t edge, std::uint64_t edge_ahead, Tick now);
  void report_ranges(std::uint64_t ack);

  std::optional<std::uint64_t> first_missing() const;
  std::uint64_t cluster_end(std::uint64_t from) const;
  std::uint64_t proved() const;
  std::uint64_t near() const;
  std::uint64_t flight() const;
  std::optional<Tick> unanswered_since() const;
  Tick silent_at() const;
  std::uint64_t sent_by_server(Tick when) const;
  std::int64_t offset_of(Seq seq) const;
  Seq seq_of(std::uint64_t offset) const;
  TsClock next_clock(Tick now);
  void put(std::uint16_t flags, std::uint64_t request_from, std::span<const std::byte> payload, Tick now);

  MirrorConfig config_;
  std::vector<std::byte> request_;
  MirrorPhase phase_ = MirrorPhase::idle;
  MirrorMove move_ = MirrorMove::parked;
  std::string_view why_ {};
  Tick opened_ {};

  // Our bytes: offsets in the request.
  std::uint64_t request_acked_ = 0;
  std::uint64_t request_sent_ = 0; // goes back to what is acknowledged when a timer expires
  std::uint64_t request_top_ = 0;  // behind the last byte ever sent
  std::uint64_t request_room_ = 0; // bytes under way at most: the congestion window
  std::uint32_t peer_window_ = 0;
  std::uint8_t peer_scale_ = 0;
  std::uint16_t peer_mss_ = 536;
  Tick retransmit_at_ = Tick::max();
  Duration retransmit_after_ = 1s; // RFC 6298 2.1
  unsigned tries_ = 0;

  // The server's bytes: offsets in the answer.
  Seq answer_ {}; // sequence number of offset 0
  bool timestamps_ = false;
  bool sack_ = false;
  std::uint8_t scale_ = 0;      // of our window
  std::uint64_t high_ = 0;      // behind the last byte seen
  std::uint64_t confirmed_ = 0; // the highest acknowledgement that the server is known to have taken
  std::uint64_t sent_ack_ = 0;  // the last acknowledgement
  std::uint64_t top_ack_ = 0;   // the highest one
  std::uint64_t edge_ = 0;      // behind the last byte that the server may send
  std::uint64_t granted_ = 0;   // the same, as the last header offered it
  bool fallback_ = false;       // the next ACK is the lower one of two
  bool refused_ahead_ = false;  // the server had not sent what was acknowledged ahead
  std::uint16_t window_ = 0;    // as in the last header
  std::optional<std::uint64_t> fin_ {};
  TsClock ts_recent_ {};
  TsClock clock_ {};
  std::vector<SackBlock> sacks_ {}; // for the next ACK

  std::vector<Piece> wants_ {}; // by `from`
  ByteStore store_;
  Intervals received_ {};          // behind the acknowledgement; with optimistic = false: all that came
  std::uint64_t last_payload_ = 0; // where the last segment began

  std::deque<Sent> sent_ {}; // ACKs of late, by clock
  TsClock newest_echo_ {};
  bool echoed_ = false;
  Duration rtt_ {}; // smoothed, with queue
  // Bytes beyond an acknowledgement that the server has been seen to send.
  std::uint64_t flight_now_ = 0;
  std::uint64_t flight_before_ = 0;
  Tick flight_since_ {};

  double link_rate_ = 0; // bytes per second that the cellular link was seen to carry
  std::uint64_t carried_ = 0;
  Tick carried_since_ {};
  std::optional<Piece> duplicate_ {};
  bool lost_ = false; // something was missing while receiving

  std::uint64_t limit_ = 0; // of the sweep: the wanted piece
  double credit_ = 0;       // bytes that may be acknowledged by now (sweep_rate)
  Tick credit_at_ {};
  Tick tick_at_ = Tick::max();
  Tick guard_since_ {};
  // Round trips' worth of data that are acknowledged per round trip: more than one as long as the server keeps up,
  // which one that does not pace does.
  double haste_ = 1;
  double haste_limit_ = 4;
  Tick lead_after_ {}; // no acknowledging ahead before
  Tick progress_at_ {};
  unsigned stalls_in_row_ = 0;
  Tick last_arrival_ {};
  Tick busy_since_ {};  // when it last left `parked`; not moved on while nothing has come since
  Tick opened_wide_ {}; // when the server was last made to send much
  Tick repeat_at_ = Tick::max();
  Duration repeat_after_ {};
  Tick challenges_since_ {};
  unsigned challenges_ = 0;

  std::vector<std::vector<std::byte>> packets_ {};
  MirrorStats stats_ {};
};

constexpr std::string_view name(MirrorMove move)
{
  switch (move)
  {
  case MirrorMove::parked:
    return "parked";
  case MirrorMove::sweeping:
    return "sweeping";
  case MirrorMove::guarding:
    return "guarding";
  case MirrorMove::receiving:
    return "receiving";
  }
  return "?";
}

} // namespace tandem::fetch
