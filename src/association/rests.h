// Access points that were given up or did not work out, so that nobody comes and goes. Pure.
#pragma once

#include "src/feeder/radio/frame.h"

#include <tandem/units.h>

#include <map>
#include <string>

namespace tandem::association
{

using feeder::Mac;

class Rests
{
public:
  struct Rest
  {
    Tick until {};
    Duration next {}; // how long, if it happens again
    std::string why {};
  };

  // For 30 s; if it happens again soon, for twice that, up to 8 minutes.
  void begin(const Mac& ap, Tick now, std::string why);
  // Null: it does not rest now.
  const Rest* of(const Mac& ap, Tick now) const;

private:
  std::map<Mac, Rest> rests_ {};
};

} // namespace tandem::association
