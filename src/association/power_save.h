// Presence by the power save of nl80211. A station in power save has told its access point so (IEEE 802.11-2016,
// 11.2.3: PM = 1), which then keeps what it has for it; the station fetches that after beacons. So it stays reachable,
// later, and the driver may spend the time elsewhere.
//
// A leave rather than a command: a driver that saves power in its firmware, an interface each (mac80211:
// SUPPORTS_DYNAMIC_PS), acts on it. Where mac80211 itself does it, it does so after 100 ms without traffic, and not at
// all as soon as a card has a second station (Linux 6.1, net/mac80211/mlme.c, ieee80211_recalc_ps). The order is agreed
// to all the same; nothing tells what came of it.
#pragma once

#include "src/association/presence.h"
#include "src/feeder/sources/nl80211_socket.h"

namespace tandem::association
{

class PowerSave : public Presence
{
public:
  Report order(const std::string& station, bool present) override;
  // Who is on several channels at a time has a driver that goes to and fro; nobody else can say when.
  bool shares_time() const override { return true; }

private:
  feeder::nl80211::Socket socket_ {};
};

} // namespace tandem::association
