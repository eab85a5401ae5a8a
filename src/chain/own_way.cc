#include "src/chain/own_way.h"

#include <algorithm>
#include <utility>

namespace tandem::chain
{

namespace
{

constexpr int said_in_rtt = 6; // numbers that are remembered of a round trip
// Of what the window is larger than what is in flight so much may be told late: three ACKs have to be lost one after
// the other before data meets a firewall that has not heard of its window.
constexpr std::int64_t late_part = 4;

} // namespace

void OwnWay::opened(Seq edge)
{
  if (!std::exchange(begun_, true)) told_ = sure_ = edge;
  if (edge.before(told_)) return;
  sure_ = told_; // the same one twice: likely one of them has arrived
  told_ = edge;
}

void OwnWay::left(TsClock value, Seq ack, Tick now, Duration rtt)
{
  if (count_ > 0 && value == said_[count_ - 1u].value)
  {
    said_[count_ - 1u].ack = ack; // TSvals stand still while a path is probed
    return;
  }
  if (count_ > 0 && now - said_at_ < rtt / said_in_rtt) return;
  if (count_ == most) // the server answers nothing
  {
    std::move(said_.begin() + 1, said_.end(), said_.begin());
    --count_;
  }
  said_[count_++] = { value, ack };
  said_at_ = now;
}

std::optional<Seq> OwnWay::known_by(TsClock echo)
{
  const auto end = said_.begin() + count_;
  // Of several ACKs with one TSval the first may have been the only one that arrived, and where odd ones are reserved a
  // later ACK has one less than what left beside the queue.
  const auto unknown = std::find_if(said_.begin(), end, [echo](const Said& one) { return !echo.after(one.value + 1); });
  if (unknown == said_.begin()) return std::nullopt;
  const Seq newest = (unknown - 1)->ack;
  count_ = static_cast<std::uint8_t>(std::move(unknown, end, said_.begin()) - said_.begin());
  return newest;
}

bool OwnWay::due(Seq edge, std::uint32_t window, const FlowView& flow) const
{
  if (!begun_) return true;
  const std::int64_t unused = window - std::int64_t { flow.window_estimate } * 5 / 4;
  const std::int64_t late = std::max<std::int64_t>(unused / late_part, 2 * flow.mss);
  return edge - told_ >= late || edge - sure_ >= 3 * late;
}

} // namespace tandem::chain
