#include "modules/mirror/steering.h"

#include "modules/mirror/count.h"

#include <algorithm>

namespace tandem::mirror
{

namespace
{

using namespace std::chrono_literals;

// HyStart takes delays of an eighth of the round trip, within these limits, for a standing queue (RFC 9406 4.2; Linux
// HYSTART_DELAY_MIN and _MAX): below it slow start goes on.
constexpr double target_share = 1.0 / 8;
constexpr double smallest_target = 0.004;
constexpr double largest_target = 0.016;
// HyStart takes ACKs closer than this for a train.
constexpr Duration train_gap = 2200us;
// The arrival rate is measured over steps of half a round trip, at least this long.
constexpr Duration shortest_step = 5ms;
constexpr Duration shortest_round = 5ms;
// Rounds of thinning after the cap was set: the congestion window doubles once more.
constexpr std::uint8_t rounds_to_double = 4;
// Or without more in flight than ever before: slow start is over.
constexpr std::uint8_t rounds_without_growth = 8;
constexpr double growth = 1.25;
// What a round may change of the cap.
constexpr double rise = 0.1;
constexpr double fall = 0.1;
constexpr double least_kept = 0.8; // of what arrived in the round
// Of the cap in flight means that it is what limits the flow.
constexpr double limited = 0.8;
// Where frames are sent in aggregates a queue of a few milliseconds makes them short, and the link slow: what arrives
// then falls behind what arrived as the cap was set, a slow start that has hardly begun to fill the link. So while it
// is not this much more, the queue may be as long as two aggregates take (IEEE 802.11n: 4 ms each here).
constexpr float starving = 1.1f;
constexpr double aggregates = 0.008; // s
// A queue this many times the target, for so many rounds, in spite of the cap is somebody else's.
constexpr double crowd = 3;
constexpr std::uint8_t crowded_rounds = 5;
constexpr Duration back_off = 20s;
// Round trips in which the window opens at the pace of arrivals.
constexpr int opening_trips = 3;
// The rate of a flow is smoothed over about so many rounds.
constexpr float rate_rounds = 8;
// Losses that were to be expected, and segments, that come whole before the air is no reason for a cap any more.
constexpr float too_clean = 10;
constexpr float clean_segments = 6000;
// Less than this part of the rate before the cap, once it has been there for so many rounds, may be the cap's own
// doing: what arrives under it is what it was measured by.
constexpr float too_little = 0.75f;
constexpr std::uint8_t rounds_to_tell = 16;
// Without a loss of the air for so long nothing asks for a cap. Much sooner where it may cost something and few
// episodes have shown yet that the air loses anything: after more, less arrives because somebody else has come, or the
// air is worse, and without the cap their queue would overflow.
constexpr Duration ends_after = 10s;
constexpr Duration costs_after = 1s;
constexpr std::uint8_t few_episodes = 4;
// Less than this part of what this host gets by the link: others of its flows have the rest.
constexpr double nearly_all = 0.8;
constexpr std::uint32_t first_flight_mss = 10; // RFC 6928
// The cap gives way to others down to so many segments: with fewer in flight a loss waits for the sender's timer.
constexpr std::uint32_t smallest_cap_mss = 4;

} // namespace

double Steering::target(const FlowView& flow, const Settings& settings)
{
  return settings.target * std::clamp(seconds(flow.rtt_min) * target_share, smallest_target, largest_target);
}

Duration Steering::gap(const FlowView& flow, const Settings& settings)
{
  return std::max(train_gap, from_seconds(seconds(flow.rtt_min) / std::max(1.0, settings.acks)));
}

void Steering::acknowledged(const Segment& segment, const FlowView& flow, const DelayMeter& delay,
                            const Settings& settings, double together, Tick now)
{
  const Seq before = edge_;
  if (!known_) edge_ = mark_ = step_ = segment.ack;
  edge_ = later(edge_, segment.ack);
  for (const SackBlock& block : segment.sacks())
    edge_ = later(edge_, block.right);
  if (!known_)
  {
    known_ = true;
    mark_at_ = step_at_ = now;
    least_queued_ = static_cast<float>(delay.queued());
    return;
  }
  // As fast as slow start: what arrives, and as much again.
  if (opening_) limit_ = limit_ + 2 * static_cast<std::uint32_t>(edge_ - before);
  if (opening_ && now > opening_until_) opening_ = false;
  if (flow.rtt_min > Duration {}) measure(flow, delay, settings, together, now);
}

void Steering::measure(const FlowView& flow, const DelayMeter& delay, const Settings& settings, double together,
                       Tick now)
{
  least_queued_ = std::min(least_queued_, static_cast<float>(delay.queued()));
  if (now - step_at_ >= std::max(shortest_step, flow.rtt_min / 2))
  {
    fastest_ = std::max(fastest_, static_cast<float>((edge_ - step_) / seconds(now - step_at_)));
    step_ = edge_;
    step_at_ = now;
    // The queue grows, so what arrives does so at the rate of the link.
    const bool wanted = settings.target > 0 && lossy_ && now >= free_until_ && now - hidden_at_ <= ends_after;
    if (wanted && cap_ == 0 && delay.queued() > target(flow, settings))
    {
      const double rate = static_cast<double>(std::max({ fastest_, fastest_before_, expected_ }));
      cap_ = static_cast<std::uint32_t>(rate * (seconds(flow.rtt_min) + target(flow, settings)));
      rounds_ = crowded_ = 0;
      most_ = cap_;
      before_ = delivered_;
    }
  }
  if (now - mark_at_ >= std::max(flow.rtt_min, shortest_round))
  {
    end_round(flow, settings, together, now);
    least_queued_ = static_cast<float>(delay.queued());
  }
}

void Steering::end_round(const FlowView& flow, const Settings& settings, double together, Tick now)
{
  const double rate = (edge_ - mark_) / seconds(now - mark_at_);
  flight_ = static_cast<std::uint32_t>(rate * seconds(flow.rtt_smoothed));
  delivered_ += (static_cast<float>(rate) - delivered_) / rate_rounds;
  mark_ = edge_;
  mark_at_ = now;
  fastest_before_ = fastest_;
  fastest_ = 0;
  if (rounds_ < 255) ++rounds_;
  const double aim = target(flow, settings);
  if (settings.target > 0 && static_cast<double>(least_queued_) > aim / 2) carried_ = static_cast<float>(rate);
  if (cap_ == 0)
  {
    if (flight_ > growth * most_)
    {
      most_ = flight_;
      rounds_ = 0;
    }
    if (rounds_ > rounds_without_growth) thinning_ = false;
    return;
  }
  if (rounds_ > rounds_to_double) thinning_ = false;
  const bool ended = ended_losses(flow);
  queue_loses_ = queue_loses_ || ended;
  if (ended || outlived(flow, together, now))
  {
    lift(flow, settings, now);
    return;
  }
  // Towards the target, as delay-based congestion control does (RFC 6817), a little each round.
  const double missing = aim - static_cast<double>(least_queued_);
  const double base = seconds(flow.rtt_min);
  const bool starved =
      !shared(together) && delivered_ < starving * before_ && static_cast<double>(least_queued_) < aggregates;
  if ((missing > aim / 2 || starved) && flight_ > limited * cap_)
    cap_ = static_cast<std::uint32_t>(cap_ * (1 + rise));
  else if (missing < -aim / 4 && !starved)
    cap_ = static_cast<std::uint32_t>(std::max(cap_ * (1 - std::min(fall, -missing / base)), least_kept * rate * base));
  most_ = std::max(most_, cap_);
  // Having given way by half and still finding the queue long means that somebody fills it who does not.
  const bool crowded = static_cast<double>(least_queued_) > crowd * aim && cap_ < most_ / 2;
  crowded_ = crowded ? static_cast<std::uint8_t>(crowded_ + 1) : std::uint8_t { 0 };
  if (crowded_ >= crowded_rounds) lift(flow, settings, now);
}

bool Steering::shared(double together) const
{
  return delivered_ < nearly_all * together;
}

// Of an air that loses so much so much does not come whole: what had lost something was a queue that the cap has ended.
bool Steering::ended_losses(const FlowView& flow) const
{
  const float whole = segments(static_cast<double>(edge_ - hidden_edge_), flow);
  return whole > clean_segments && usual_ * whole > too_clean;
}

// Whether the cap has no reason any more: it is there because the air goes on losing something.
bool Steering::outlived(const FlowView& flow, double together, Tick now) const
{
  const Duration quiet = now - hidden_at_;
  const bool costs =
      !shared(together) && episodes_ < few_episodes && rounds_ > rounds_to_tell && delivered_ < too_little * before_;
  return quiet > ends_after || (costs && quiet > std::max(costs_after, flow.rtt_smoothed * int { rounds_to_tell }));
}

void Steering::lift(const FlowView& flow, const Settings& settings, Tick now)
{
  // The sender's congestion window may be twice what was in flight: not all of it at once.
  open_at_pace(std::max<std::uint32_t>(cap_, smallest_cap_mss * flow.mss), flow, now);
  opening_ = settings.paced;
  cap_ = most_ = 0;
  crowded_ = rounds_ = 0;
  free_until_ = now + back_off;
}

void Steering::undone(const FlowView& flow, const Settings& settings, Tick now)
{
  if (!lossy_ || expecting_) thinning_ = settings.acks > 0;
  lossy_ = true;
  expecting_ = false;
  if (!settings.paced) return;
  open_at_pace(std::max<std::uint32_t>(flight_, first_flight_mss * flow.mss), flow, now);
}

// From `room` bytes above what has arrived.
void Steering::open_at_pace(std::uint32_t room, const FlowView& flow, Tick now)
{
  opening_ = true;
  limit_ = edge_ + room;
  opening_until_ = now + opening_trips * flow.rtt_smoothed;
}

std::uint16_t Steering::window(const FlowView& flow, Seq ack, std::uint16_t real, Tick now) const
{
  std::uint32_t window = flow.scaled(real);
  const auto offer = [&](Seq edge) { window = std::min(window, static_cast<std::uint32_t>(std::max(edge - ack, 0))); };
  if (opening_ && now <= opening_until_) offer(limit_);
  if (cap_ > 0) offer(edge_ + std::max<std::uint32_t>(cap_, smallest_cap_mss * flow.mss));
  // Up to the next unit, which may be more than the cap.
  return static_cast<std::uint16_t>(
      std::min<std::uint32_t>((window + flow.scaled(1) - 1) >> flow.local_window_scale, real));
}

bool Steering::may_wait(const FlowView& flow, const Settings& settings, Tick now) const
{
  return thinning_ && settings.acks > 0 && now < due(flow, settings);
}

bool Steering::short_queue(const FlowView& flow, double queued, const Settings& settings)
{
  return queued < 2 * target(flow, settings);
}

bool Steering::holds(const FlowView& flow, double queued, const Settings& settings) const
{
  return cap_ > 0 && short_queue(flow, queued, settings);
}

} // namespace tandem::mirror
