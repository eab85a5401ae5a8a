// The share of the air that what this laptop receives takes, where no survey tells how much of it is in use.
#pragma once

#include "src/feeder/radio/frame.h"
#include "src/feeder/radio/report.h"

#include <tandem/units.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>

namespace tandem::feeder
{

class OwnLoad
{
public:
  explicit OwnLoad(const Mac& own) : own_ { own } {}

  // What the driver has counted, which is better than what a monitor hears.
  void take(const StationStats& stats, Tick at)
  {
    if (!stats.rx_bytes) return;
    // The first one; another access point's counter, or one that has wrapped.
    if (!std::exchange(counted_by_driver_, true) || *stats.rx_bytes < bytes_) began_.reset();
    bytes_ = *stats.rx_bytes;
    look(at);
  }
  // A frame that was heard. Repeated attempts take air, too.
  void take(const Frame& frame, Tick at)
  {
    if (counted_by_driver_) return;
    if (frame.kind == Frame::Kind::data && frame.from_ap && frame.receiver == own_) bytes_ += frame.bytes;
    look(at);
  }

  // 0 .. 1, over the last second in which something was told; nothing when that is old. `packet_time`: what a full
  // packet takes.
  std::optional<float> share(Tick now, Duration packet_time) const
  {
    if (!rate_ || now - at_ > stale_after) return {};
    return static_cast<float>(std::min(1.0, *rate_ / full_packet * seconds(packet_time)));
  }

private:
  void look(Tick at)
  {
    if (began_ && at - *began_ < span) return;
    if (began_)
    {
      rate_ = at - *began_ < stale_after
                  ? std::optional { static_cast<double>(bytes_ - before_) / seconds(at - *began_) }
                  : std::nullopt;
      at_ = at;
    }
    began_ = at;
    before_ = bytes_;
  }

  static constexpr double full_packet = 1500;
  static constexpr Duration span = std::chrono::seconds { 1 };
  static constexpr Duration stale_after = std::chrono::seconds { 4 };
  Mac own_;
  bool counted_by_driver_ = false;
  std::uint64_t bytes_ = 0, before_ = 0; // now, and when the span began
  std::optional<Tick> began_ {};
  std::optional<double> rate_ {}; // bytes per second
  Tick at_ {};
};

} // namespace tandem::feeder
