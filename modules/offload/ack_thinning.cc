#include "modules/offload/ack_thinning.h"

#include <algorithm>
#include <utility>

namespace tandem::offload
{

namespace
{

using namespace std::chrono_literals;

constexpr std::uint16_t acks_counted = 32; // before it is known how much an ACK covers
constexpr std::uint32_t unseen_from = 100; // ms without an ACK: a flow that is quiet (Plan::quiet) leaves the queue

// MSS that an ACK may cover on average; beyond it there is no air to save. docs/results/offload.md was measured with
// this and with hold_share.
constexpr float sparse_mss = 32;

// Share of a round trip that an ACK number waits at most: a sender gets four in each. And for how long at all: where
// the round trip is long the next ACK comes as soon as elsewhere, or data has stopped, and a sender may wait for the
// last of it (BBR's PROBE_RTT: 0.95 of plain over 560 ms, docs/results/paths.md). But a thin uplink may take no 40 ACKs
// in a second: their queue would never go (docs/results/thin-uplinks.md).
constexpr double hold_share = 0.25;
constexpr Duration longest_at_all = 25ms;

// Shares of the air: it is full from the one on, until there is less than the other. One download fills 0.67 to 0.96 of
// it in the lab (802.11b, g, a, n: stations wait between their frames). Behind a wire that carries as much as half of
// the air each change between all ACKs and few costs more than either (docs/results/thin-uplinks.md).
struct Full
{
  float from = 0;
  float until = 0;
};
constexpr Full in_use { 0.6F, 0.4F }; // by anybody
// By what this host receives, with as many neighbours as there may be: nobody who shares the air with five others has
// less than this of it, and who has less has little to save.
constexpr Full by_us { 0.15F, 0.1F };

// A stack that is not Linux's may grow its window by ACKs rather than by bytes (RFC 3465 is optional), and has no
// pacing.
bool counts_acks(const FlowView& flow)
{
  return flow.sender.kind == SenderKind::unresponsive;
}

} // namespace

// Beside a hole each segment is acknowledged, and nothing new with it; the ACK that leaves none acknowledges them all
// at once. Neither says what an ACK covers otherwise, and after a loss there is a window of them. Nor does the first
// one after others that passed unseen.
void AckThinning::count(const FlowView& flow, Tick now)
{
  const auto clock = clock_ms(now);
  const bool unseen = clock - std::exchange(seen, clock) >= unseen_from;
  const auto so_far = static_cast<std::uint32_t>(flow.bytes_delivered);
  const std::uint32_t more = so_far - std::exchange(delivered, so_far);
  const bool fills = std::exchange(holes, flow.holes);
  if (!std::exchange(begun, true) || unseen || holes || fills || more == 0) return;
  bytes += more;
  if (++counted < acks_counted) return;
  mss_per_ack = static_cast<float>(bytes) / acks_counted / flow.mss;
  counted = 0;
  bytes = 0;
}

bool AckThinning::sparse() const
{
  return mss_per_ack > sparse_mss;
}

Duration AckThinning::sparse_back_off()
{
  const Duration back_off = std::min<Duration>(4s * (1 << std::min<int>(sparse_times, 4)), 60s);
  if (sparse_times < 255) ++sparse_times;
  return back_off;
}

bool AckThinning::air_has_room(const FlowView& flow, const LinkStates& links)
{
  const std::optional<RadioState>& radio = links[static_cast<std::size_t>(flow.link)].radio;
  if (!radio) return false;
  const std::optional<float>& share = radio->busy ? radio->busy : radio->received;
  if (!share) return false;
  const Full& full = radio->busy ? in_use : by_us;
  air_full = *share >= (air_full ? full.until : full.from);
  return !air_full;
}

// What a sender is told at a time it sends at a time: at most eight segments, and at least sixteen ACKs in a round
// trip, or short queues overflow and cost more than the air that was saved (802.11n: an aggregate of frames is
// acknowledged by few ACKs anyway).
unsigned AckThinning::wifi_ratio(const Segment& segment, const FlowView& flow, double most) const
{
  if (flow.mptcp || flow.acc_ecn || !flow.sack_ok || segment.has(loaded_flags) || mss_per_ack <= 0 || sparse()
      || counts_acks(flow))
    return 1;
  constexpr double acks_per_rtt = 16;
  const double acks = flow.window_estimate / (static_cast<double>(flow.mss) * mss_per_ack);
  constexpr double burst_mss = 8;
  const double ratio = std::min(acks / acks_per_rtt, burst_mss / mss_per_ack);
  return ratio > 1 ? static_cast<unsigned>(std::min(ratio, most)) : 1; // no number where no window is known yet
}

bool AckThinning::withhold(const Event& event, const FlowView& flow, unsigned ratio, Plan& plan, bool thin_uplink)
{
  const Duration longest = longest_hold(flow, thin_uplink);
  if (held + 1u < ratio && !counts_acks(flow) && event.now - released_at < longest
      && (thin_uplink ? may_be_left_out(*event.segment, flow) : repeats_in_next(*event.segment, flow)))
  {
    ++held;
    plan.edit = {}; // an edit would ask that it leaves
    plan.verdict = Verdict::drop;
    plan.wake = released_at + longest;
    plan.why = "offload: repeated by the next ACK";
    return true;
  }
  released(event.now);
  return false;
}

Duration longest_hold(const FlowView& flow, bool thin_uplink)
{
  const Duration share = from_seconds(seconds(flow.rtt_smoothed) * hold_share);
  return thin_uplink ? share : std::min(longest_at_all, share);
}

} // namespace tandem::offload
