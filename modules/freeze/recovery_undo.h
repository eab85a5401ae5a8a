// After a blackout a Linux sender finds what was lost by SACK, and takes it for congestion. An echo older than its
// first retransmission, on the ACK that reaches the recovery point, tells it that the retransmissions were not needed
// (tcp_try_undo_recovery). Once per episode, and never while holes are open: that would clear its marks of what is
// lost.
#pragma once

#include <tandem/module.h>

namespace tandem::freeze
{

struct RecoveryUndo
{
  bool watching = false;
  bool episode = false;      // SACK blocks were seen
  bool edge_fixed = false;   // a retransmission was seen
  Seq recovery_point {};     // the highest byte that was sent before it
  TsClock retransmission {}; // its TSval

  // From now on, and without what an earlier episode left; one that is under way goes on.
  void begin()
  {
    if (!watching) *this = { .watching = true };
  }
  void stop() { watching = false; }

  // Takes note of an outgoing pure ACK, `since_up` after the link came back; `progress`: its number is higher than any
  // before. An edit when it reaches the recovery point.
  Plan acknowledged(const Segment& segment, bool progress, Duration since_up, Duration rtt);
};

} // namespace tandem::freeze
