// How many attempts a sender makes of a frame before it gives it up, which no standard fixes and no frame says. Pure.
#pragma once

#include "src/feeder/radio/airtime.h"

#include <tandem/units.h>

#include <array>

namespace tandem::feeder
{

// Between two frames that were heard there was room for the attempts of those that are missing. Attempts have exchanges
// and doubling backoffs, so each further one takes about as much time as all before it: the least room of late tells
// their number. Idle time only ever makes room.
class AttemptBound
{
public:
  // A frame is missing where so much time was.
  void lost(Duration room, const PhySeen& phy, unsigned packet_bytes);
  bool known() const { return weight_ >= enough; }
  // At most `usual`, which it is as long as nothing is known.
  unsigned attempts(unsigned usual) const;

private:
  static constexpr float enough = 12; // missing frames before anything is told

  // The room in exchanges; old ones fade.
  std::array<float, 40> histogram_ {};
  float weight_ = 0;
  float slots_ = 0; // of an exchange
};

} // namespace tandem::feeder
