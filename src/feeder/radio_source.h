// What a radio can tell about its access point, and the one interface behind which every source of it stands.
#pragma once

#include <tandem/units.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

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
  disconnected, // deauthenticated, disassociated, or given up by the driver
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
};

// A source never blocks and never grows: what cannot be taken in is skipped and counted.
class RadioSource
{
public:
  virtual ~RadioSource() = default;

  virtual std::string name() const = 0;
  // Readable when there is something to receive; -1 while there is none.
  virtual int fd() const = 0;
  // Appends what has come in, in order of time. False: the source has ended; call reopen() some time later.
  virtual bool receive(Tick now, std::vector<RadioEvent>& events) = 0;
  // Tries to come back. True when it works (again).
  virtual bool reopen() = 0;
  virtual std::uint64_t skipped() const = 0; // records that could not be used
};

} // namespace tandem::feeder
