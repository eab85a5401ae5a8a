// Presence in the lab: its Wi-Fi interfaces are one card that is at one access point at a time. The emulator's blackout
// "buffer" of an interface is what a station in power save and its access point do: both hold what their queues take.
#pragma once

#include "src/association/presence.h"
#include "src/kernel/fd.h"

#include <string>

namespace tandem::association
{

class LabCard : public Presence
{
public:
  // `socket`: the emulator's control socket. `cost`: from the order to come to a channel until the card can hear there;
  // around 5 ms on the cards of Croitoru et al. (NSDI 2015, section 7). Throws std::runtime_error.
  LabCard(const std::string& socket, Duration cost);

  Report order(const std::string& station, bool present) override;
  bool shares_time() const override { return false; }

private:
  kernel::Fd socket_;
  Duration cost_;
};

} // namespace tandem::association
