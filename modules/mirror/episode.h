// One episode of losses as their receiver sees it: holes, the retransmissions that fill them, the recovery point.
#pragma once

#include <tandem/segment.h>
#include <tandem/units.h>

#include <array>
#include <cstdint>

namespace tandem::mirror
{

enum class Stage : std::uint8_t
{
  none,      // nothing is missing
  open,      // SACK blocks show holes, nothing was filled yet
  repairing, // the first hole was filled: the recovery point is known
};

// What one ACK of the local TCP changed.
struct Step
{
  bool filled = false;  // the first hole is filled
  bool crossed = false; // the ACK reaches the recovery point: judge, then call next()
  unsigned holes = 0;   // new ones
};

// Follows the cumulative ACK and the SACK blocks (RFC 2018) of outgoing ACKs.
//
// A sender that finds the first loss sends new data only after the first retransmission (RFC 6675 section 5). What lies
// above the first hole when that is filled was therefore sent before, and its highest byte is the recovery point (RFC
// 6675's RecoveryPoint, Linux's high_seq). When the first retransmission was lost too, more has arrived by then, and
// any progress may be the one that reaches it. Unless nothing follows the holes: then it was the sender's timer, which
// takes all that was not reported for lost, and what is highest is the recovery point.
//
// While holes are left at the recovery point the sender goes from one episode straight into the next and does not
// forget the time of its first retransmission (tcp_retrans_stamp): a chain. Where its further recovery points lie
// cannot be seen from here.
struct Episode
{
  Stage stage = Stage::none;
  bool ece = false;     // congestion was signalled meanwhile
  bool late = false;    // the first retransmission seems to have been lost
  bool chained = false; // the sender has not been without losses since the episode before
  bool ended = false;   // above the last hole the sender had no more to send
  std::uint16_t holes = 0;
  std::uint32_t lost = 0; // bytes in holes
  Seq una {};             // the cumulative ACK before the first hole
  Seq edge {};            // highest byte reported by SACK
  Seq point {};           // the recovery point, in stage repairing
  // A TSval older than the first retransmission since nothing was missing. In stage open, outside a chain, that of the
  // data before the hole; then, better, one tick less than the retransmission's, which leaves the sender's round trip
  // time alone.
  TsClock old {};
  Tick began {};
  std::array<SackBlock, 3> first {}; // the first holes

  // Takes note of an outgoing pure ACK while an episode is under way. `progress`: its number is higher than any before.
  // `timeout`: longer until the first hole is filled means that its retransmission was lost. `dry`: nothing came beyond
  // what is held for so long that it was the sender's timer, and no more will come.
  Step acknowledged(const Segment& segment, bool progress, bool dry, Duration timeout, Tick now);
  // Ends what was, and begins a new episode when the ACK shows a hole; then true.
  bool next(const Segment& segment, Tick now);

private:
  unsigned note_blocks(const Segment& segment);
};

// Whether an ACK shows a hole, and above the last one what ends in a segment that is not full: its sender had no more
// to send. `mss`: bytes of a full one.
bool ends_short(const Segment& segment, std::uint32_t mss);

} // namespace tandem::mirror
