#include "modules/mirror/evidence.h"

#include <algorithm>

namespace tandem::mirror
{

namespace
{

// A queue of which nothing else is known is taken to hold at least this part of the round trip: routers and access
// points hold a half and more.
constexpr double smallest_queue = 0.25;
// The share of an episode's bytes that the air loses even in bursts. A sender in slow start overshoots by far more.
constexpr double usual_share = 0.1;
constexpr double share_weight = 5;
// A queue that slow start is filling is as full as never before at every loss, whatever its size, and where the air
// loses something the most it ever held need not be its end. That alone must stay below the threshold of 0.85, since
// one window halved in slow start costs the rest of a lossy download. When it does overflow, so much is lost at once
// that the share or the number of holes decides, or losses come at the same delay again.
constexpr double growing_weight = 0.8;
// Where the air loses something in every round trip anyway, a hole at a full queue is most likely its work, too.
constexpr double usual_weight = 0.3;
// More than so many times what is expected is not the usual.
constexpr double unusual = 4;
constexpr std::uint32_t few_holes = 10;
constexpr double unusual_weight = 0.3;
// A few segments are no share.
constexpr std::uint32_t few_bytes = 4 * 1460;
// A frame that was heard damaged for every hole speaks for the air even where the queue was rather full; a radio that
// heard none speaks for congestion.
constexpr double heard_weight = 0.35;
constexpr double silent_weight = 0.3; // frames can be missed
constexpr double likely = 0.8;

} // namespace

Score judge(const Evidence& e)
{
  // Nothing known: congestion. Of a flow whose first losses come before its delay can be told, in slow start with a
  // window of a few segments, the air is the likelier cause, and the next loss will tell.
  Score score {};
  if (e.timestamps) score = { .congestion = 0.5, .why = Weight::young };
  if (e.timed)
  {
    // Losses that come again and again at the same delay show where the queue ends, whatever it held before.
    const double full =
        e.repeated ? std::max(e.recent, smallest_top) : std::max({ e.top, smallest_top, smallest_queue * e.rtt_min });
    score = { .congestion = std::min(1.0, e.queued / full), .why = Weight::queue };
    if ((e.growing || e.unproved) && !e.repeated) score.congestion *= growing_weight;
    if (e.holes > few_holes + unusual * e.expected)
      score.congestion += unusual_weight;
    else
      score.congestion *= 1 - usual_weight * std::min(1.0, e.expected);
    if (e.steered) score = { .congestion = std::min(score.congestion, 0.5), .why = Weight::steered };
  }
  if (e.others && !e.steered) score = { .congestion = 1, .why = Weight::others };
  if (e.lost > few_bytes && e.lost > unusual * e.expected * few_bytes / 4 && e.span > 0)
  {
    const double share = static_cast<double>(e.lost) / e.span;
    if (share > usual_share)
    {
      score.congestion += share_weight * (share - usual_share);
      score.why = Weight::share;
    }
  }
  if (e.loaded) score = { .congestion = 1, .why = Weight::load };
  if (e.radio && e.holes > 0)
  {
    const double heard = static_cast<double>(std::min(e.damaged, e.holes)) / e.holes;
    const double term = heard >= 1 ? -heard_weight : silent_weight * (1 - heard);
    // An episode that is hidden although nothing was heard is hidden for another reason.
    if (heard >= 1 || score.congestion + term > likely) score.why = Weight::radio;
    score.congestion += term;
  }
  score.congestion = std::clamp(score.congestion, 0.0, 1.0);
  return score;
}

} // namespace tandem::mirror
