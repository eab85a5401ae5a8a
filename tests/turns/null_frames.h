// Presence by null data frames with the power management bit (IEEE 802.11-2016, 9.2.4.1.7), sent in a station's name by
// a monitor interface of its card: real frames, which the access point acknowledges and obeys.
//
// mac80211_hwsim has no driver that goes to and fro between channels: it is on all of them at once. What such a driver
// does is done here. Not for cards: their drivers send such frames themselves, and each data frame of a station that is
// away says that it is back.
#pragma once

#include "src/association/presence.h"
#include "src/feeder/radio/frame.h"
#include "src/kernel/fd.h"

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>

namespace tandem::association
{

class NullFrames : public Presence
{
public:
  // `monitor`: a monitor interface of the card that is up. Throws std::runtime_error.
  explicit NullFrames(const std::string& monitor);

  void add(const std::string& station, const feeder::Mac& own, const feeder::Mac& ap)
  {
    stations_[station] = { own, ap };
  }

  // Done when the access point has acknowledged it.
  Report order(const std::string& station, bool present) override;
  bool shares_time() const override { return false; }

private:
  bool acknowledged(std::span<const std::uint8_t> sent);

  kernel::Fd socket_;
  std::map<std::string, std::pair<feeder::Mac, feeder::Mac>> stations_ {}; // own address, access point
};

} // namespace tandem::association
