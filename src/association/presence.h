// What turns between channels need of a card: to be present at the access points of some stations, and away from those
// of others, which keep what they have for it meanwhile.
#pragma once

#include <tandem/units.h>

#include <string>

namespace tandem::association
{

class Presence
{
public:
  struct Report
  {
    Tick done {};           // when it was carried out, or had failed
    std::string problem {}; // empty: it was carried out
  };

  virtual ~Presence() = default;

  // Present: what the access point has for the station comes from now on. Away: the access point keeps it. May wait as
  // long as a driver takes.
  virtual Report order(const std::string& station, bool present) = 0;

  // True: the card divides its time by itself among the access points it is present at. False: it is present at one
  // channel at a time, and whoever orders takes turns.
  virtual bool shares_time() const = 0;
};

} // namespace tandem::association
