// What every strategy of freeze remembers of a flow.
#pragma once

#include "modules/freeze/recovery_undo.h"
#include "modules/freeze/standing_delay.h"

#include <tandem/module.h>

#include <cstdint>

namespace tandem::freeze
{

enum class Phase : std::uint8_t
{
  clear,     // all is well
  closed,    // a blackout is predicted: window closed, what is in flight arrives
  down,      // the link is in a blackout
  returning, // the link is back, the server has not answered yet
};

struct BlackoutState
{
  Phase phase = Phase::clear;
  bool window_closed : 1 = false; // the server was told so
  bool reopening : 1 = false;     // and it is being opened again at the pace of the link
  bool ack_known : 1 = false;
  bool bypassed : 1 = false; // the flow is one that is never touched
  bool over : 1 = false;     // a reset was seen
  bool owed : 1 = false;     // in this blackout: the server lacks a part of the acknowledgements, or a window
  bool shut : 1 = false;     // the window was closed when it began: nothing was on its way
  bool unheard : 1 = false;  // the withheld ACKs were flushed, and nothing arrived since
  bool stirred : 1 = false;  // the flow was delivering when the blackout began
  bool answered : 1 = false; // something arrived since link-up
  bool buffers : 1 = false;  // the access point keeps frames: this flow found it, or at link-up others had
  std::uint8_t resumes = 0;  // ACKs since link-up
  std::uint8_t growing = 0;  // ACKs since the target last changed
  std::uint16_t blackouts = 0;
  std::uint32_t target = 0; // bytes to withhold
  Seq last_ack {};          // of the local TCP
  Seq acknowledged {};      // to the server, which may have received more
  float rtt = 0;            // s, when the link came back
  TsClock half_way {};  // TSval of the server's last data before a blackout; afterwards that of half its length later
  float first_data = 0; // s from the last link-up to the first sign of the server, for people
  RecoveryUndo undo {};
  StandingDelay standing {};
  const char* why = "freeze: no blackout yet";

  Tick since {};       // start of the phase
  Tick up_at {};       // end of the last blackout
  Tick progress_at {}; // the local TCP's last progress
};

} // namespace tandem::freeze
