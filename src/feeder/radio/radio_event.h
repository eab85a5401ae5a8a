// What reports mean for the link to our access point: what the blackout detector and the risk predictor take.
#pragma once

#include <tandem/units.h>

#include <cstdint>
#include <optional>

namespace tandem::feeder
{

enum class RadioEventKind : std::uint8_t
{
  heard,        // a frame of our access point, also one for somebody else, also a damaged one
  beacon,       // heard, too; but sent at the lowest rate, so it proves less
  acknowledged, // our access point acknowledged a frame of ours
  failed,       // a frame of ours was given up: every attempt went without an acknowledgement
  sent,         // a frame of ours went on the air; what became of it is not known yet
  other,        // somebody else's frame: the channel is in use
  associated,   // with an access point, perhaps another one than before
  disconnected, // deauthenticated, disassociated, or given up: the driver says so, who knows which frames count
};

struct RadioEvent
{
  RadioEventKind kind = RadioEventKind::other;
  Tick at {};                     // when it happened on the air, as well as the source knows
  std::optional<float> signal {}; // dBm, of frames of our access point
  // A data frame of our access point for us with a bad check sequence, for the first time.
  bool damaged = false;
  // Such a frame was repeated and arrived whole: when it had been heard damaged.
  std::optional<Tick> repaired {};
  // Of `sent` and `failed`: a frame of ours that calls for an acknowledgement, of an aggregate the first one; and a
  // retry.
  bool attempt = false, retry = false;
  // A deauthentication or disassociation that includes us was heard. Anybody can send one in the access point's name;
  // a station with protected management frames ignores it, another one is disconnected, which the driver then says.
  bool deauthentication = false;
};

} // namespace tandem::feeder
