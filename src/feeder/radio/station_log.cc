#include "src/feeder/radio/station_log.h"

namespace tandem::feeder
{

namespace
{

template <class T>
bool grew(const std::optional<T>& from, const std::optional<T>& to)
{
  return from && to && *to != *from;
}

// Not one that began anew: half of its range is no growth.
bool rose(const std::optional<std::uint32_t>& from, const std::optional<std::uint32_t>& to)
{
  return grew(from, to) && *to - *from <= UINT32_MAX / 2;
}

} // namespace

void StationLog::take(const StationStats& stats, Tick at, std::vector<RadioEvent>& events)
{
  const bool same = last_ && last_->ap == stats.ap;
  if (ap_ && *ap_ != stats.ap) events.push_back({ .kind = RadioEventKind::associated, .at = at });
  ap_ = stats.ap;
  if (same)
  {
    // Beacons do not count as activity.
    const Tick heard = stats.inactive ? at - *stats.inactive : at;
    if (grew(last_->rx_packets, stats.rx_packets))
      events.push_back({ .kind = RadioEventKind::heard, .at = heard, .signal = stats.signal });
    else if (grew(last_->beacons, stats.beacons))
      events.push_back({ .kind = RadioEventKind::beacon, .at = at, .signal = stats.signal });
    if (rose(last_->tx_failed, stats.tx_failed)) events.push_back({ .kind = RadioEventKind::failed, .at = at });
  }
  last_ = stats;
}

void StationLog::take(const WifiChange& change, Tick at, std::vector<RadioEvent>& events)
{
  switch (change.kind)
  {
  case WifiChange::Kind::connected:
  case WifiChange::Kind::roamed:
    if (change.ap) ap_ = change.ap;
    last_.reset();
    events.push_back({ .kind = RadioEventKind::associated, .at = at });
    break;
  case WifiChange::Kind::disconnected:
    ap_.reset();
    last_.reset();
    events.push_back({ .kind = RadioEventKind::disconnected, .at = at });
    break;
  case WifiChange::Kind::packet_loss:
    events.push_back({ .kind = RadioEventKind::failed, .at = at });
    break;
  case WifiChange::Kind::signal_low:
  case WifiChange::Kind::signal_high:
  case WifiChange::Kind::beacon_loss: // silence on a busy link is told sooner by other means
    break;
  }
}

} // namespace tandem::feeder
