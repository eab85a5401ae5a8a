#include "src/feeder/radio/estimator.h"

#include <algorithm>
#include <cmath>

namespace tandem::feeder
{

namespace
{

constexpr std::size_t most_aps = 64; // forged addresses must not fill the memory
constexpr Duration forgotten_after = std::chrono::seconds { 30 };
constexpr Duration time_unit = std::chrono::microseconds { 1024 };
constexpr Duration usual_beacon_interval = 100 * time_unit;
constexpr double smoothing = 1.0 / 16;

// An attempt is known by the counter that numbers it and its number.
std::uint16_t key_of(const Frame& frame)
{
  constexpr unsigned no_class = 15;
  return static_cast<std::uint16_t>((frame.tid ? *frame.tid & 7U : no_class) << 12 | *frame.sequence);
}

std::optional<ApWindow::Rate> rate_of(const Frame& frame)
{
  if (!frame.mbps) return {};
  return ApWindow::Rate { .mbps = *frame.mbps,
                          .ht = frame.mcs.has_value(),
                          .streams = frame.streams.value_or(std::uint8_t { 1 }) };
}

PhySeen phy_of(const ApWindow::Rate& rate, unsigned frequency, bool qos)
{
  return { .mbps = rate.mbps, .ht = rate.ht, .streams = rate.streams, .frequency = frequency, .qos = qos };
}

constexpr double worst = 0.98; // beyond this share of failures, the sum over attempts says nothing any more

// By how much a counter has grown, which may have wrapped; nothing when it began anew.
template <class T>
std::optional<double> growth(const std::optional<T>& from, const std::optional<T>& to)
{
  if (!from || !to) return {};
  const T grown = *to - *from;
  // Half of its range within seconds is no growth.
  if (grown > static_cast<T>(-1) / 2) return {};
  return static_cast<double>(grown);
}

} // namespace

ApEstimator::ApEstimator(std::vector<Mac> own, EstimatorSettings settings)
    : own_ { std::move(own) }, settings_ { settings }
{
}

bool ApEstimator::ours(const Mac& mac) const
{
  return std::find(own_.begin(), own_.end(), mac) != own_.end();
}

ApEstimator::Ap& ApEstimator::find(const Mac& mac, Tick at)
{
  const auto known = aps_.find(mac);
  if (known != aps_.end()) return known->second;
  if (aps_.size() >= most_aps)
    aps_.erase(std::min_element(aps_.begin(), aps_.end(),
                                [](const auto& a, const auto& b) { return a.second.heard < b.second.heard; }));
  Ap& ap = aps_.emplace(mac, Ap { settings_.window }).first->second;
  ap.heard = ap.beacons_since = at;
  return ap;
}

void ApEstimator::take(const Frame& frame, Tick at)
{
  // Only the access point at hand: advance() sees to the others.
  at = now_ = std::max(at, now_);
  if (!frame.transmitter || ours(*frame.transmitter)) return;
  if (frame.kind == Frame::Kind::beacon && !frame.damaged)
  {
    Ap& ap = find(*frame.transmitter, at);
    heard(ap, frame, at);
    beacon(ap, frame, at);
    for_others(ap, frame);
    return;
  }
  const bool data = frame.kind == Frame::Kind::data && frame.from_ap && !frame.to_ap;
  if (data && ours(frame.receiver))
  {
    // A damaged address must not make an access point that is none.
    if (frame.damaged && !aps_.contains(*frame.transmitter)) return;
    Ap& ap = find(*frame.transmitter, at);
    heard(ap, frame, at);
    for_us(ap, frame, at);
  }
  else if (const auto known = aps_.find(*frame.transmitter); known != aps_.end())
  {
    heard(known->second, frame, at);
    for_others(known->second, frame);
  }
}

void ApEstimator::heard(Ap& ap, const Frame& frame, Tick at)
{
  ap.heard = at;
  purge(ap);
  if (frame.frequency) ap.frequency = *frame.frequency;
  if (frame.signal && !frame.damaged)
    ap.signal = ap.signal ? *ap.signal + static_cast<float>(smoothing) * (*frame.signal - *ap.signal) : *frame.signal;
}

void ApEstimator::beacon(Ap& ap, const Frame& frame, Tick at)
{
  if (frame.beacon_interval) ap.beacon_interval = *frame.beacon_interval * time_unit;
  ap.beacons.push_back(at);
}

// Numbers of frames for others are not missing among ours.
void ApEstimator::for_others(Ap& ap, const Frame& frame)
{
  if (frame.tid || !frame.sequence) return;
  if (frame.kind == Frame::Kind::data && frame.payload && !frame.retry && !frame.damaged)
    ap.our_share -= smoothing / 4 * ap.our_share;
  // Of damaged ones, too: the number is at the beginning of the frame, most often it is right.
  const auto taken = ap.shared.take_near(*frame.sequence);
  ap.lost_before += taken.lost;
  if (frame.kind == Frame::Kind::beacon) ap.beacons_share = taken.fresh;
}

void ApEstimator::for_us(Ap& ap, const Frame& frame, Tick at)
{
  ApWindow::Seen seen { .rate = rate_of(frame) };
  seen.aggregated = frame.aggregate.has_value();
  seen.new_aggregate = seen.aggregated && ap.aggregate != frame.aggregate;
  ap.aggregate = frame.aggregate;
  if (frame.damaged)
  {
    seen.what = ApWindow::What::damaged;
    if (frame.sequence) ap.damaged[ap.damaged_count++ % ap.damaged.size()] = key_of(frame);
    ap.frames.add(seen, at);
    return;
  }
  if (!frame.payload) for_others(ap, frame); // it has a number, but is no packet
  if (!frame.sequence || !frame.payload) return;
  ap.mcs = frame.mcs;
  ap.qos = frame.tid.has_value();

  SequenceLog* log = &ap.shared;
  if (frame.tid)
  {
    auto& of_class = ap.classes[*frame.tid % ap.classes.size()];
    if (!of_class) of_class.emplace();
    log = &*of_class;
  }
  else
    ap.our_share += smoothing / 4 * (1 - ap.our_share);
  if (seen.aggregated) log->expect_disorder();
  const SequenceLog::Taken taken = log->take(*frame.sequence);
  // Where others have numbers of the same counter, missing ones may be theirs, which we did not hear.
  constexpr double alone = 0.95;
  if (frame.tid || ap.our_share > alone) seen.lost = taken.lost + (frame.tid ? 0 : ap.lost_before);
  if (!frame.tid) ap.lost_before = 0;
  const auto end = ap.damaged.begin() + static_cast<std::ptrdiff_t>(std::min(ap.damaged_count, ap.damaged.size()));
  const bool foretold = std::find(ap.damaged.begin(), end, key_of(frame)) != end;
  if (!taken.fresh)
    seen.what = ApWindow::What::repeated;
  else if (!frame.retry)
    seen.what = ApWindow::What::first;
  else
    seen.what = foretold ? ApWindow::What::foretold : ApWindow::What::retried;
  learn_attempts(ap, seen, log->ahead(), at);
  ap.frames.add(seen, at);

  const double kept = std::exp(-seconds(at - ap.faded) / seconds(settings_.memory));
  ap.faded = at;
  ap.packets = ap.packets * kept + (taken.fresh ? 1 : 0) + seen.lost;
  ap.firsts = ap.firsts * kept + (seen.what == ApWindow::What::first ? 1 : 0);
  ap.losts = ap.losts * kept + seen.lost;
}

// A beacon was due in this time and was not heard.
bool ApEstimator::beacon_missed(const Ap& ap, Tick from, Tick to) const
{
  if (ap.beacons.empty() || ap.beacon_interval <= Duration {} || !ap.beacons_share) return false;
  const auto intervals = (to - ap.beacons.back()) / ap.beacon_interval;
  constexpr Duration late = std::chrono::milliseconds { 5 }; // it waits for the channel
  return intervals > 0 && ap.beacons.back() + intervals * ap.beacon_interval >= from - late;
}

// A number is found missing some frames later. These, and the one before the gap, had an exchange each, too.
void ApEstimator::learn_attempts(Ap& ap, ApWindow::Seen& seen, unsigned ahead, Tick at) const
{
  const std::size_t back = ahead + 1U;
  if (seen.lost > 0 && back <= ap.for_us.size() && back <= ap.for_us_count)
  {
    const Tick before = ap.for_us[(ap.for_us_count - back) % ap.for_us.size()].at;
    bool retried = seen.what != ApWindow::What::first;
    for (std::size_t i = 1; i < back; ++i)
      retried = retried || ap.for_us[(ap.for_us_count - i) % ap.for_us.size()].retried;
    if (!ap.qos && beacon_missed(ap, before, at))
      --seen.lost;
    else if (seen.lost == 1 && !retried && !seen.aggregated && seen.rate)
    {
      const PhySeen phy = phy_of(*seen.rate, ap.frequency, ap.qos);
      const std::chrono::duration<double, std::micro> others { static_cast<double>(back)
                                                               * exchange_us(phy, settings_.packet_bytes) };
      ap.attempts.lost(at - before - std::chrono::duration_cast<Duration>(others), phy, settings_.packet_bytes);
    }
  }
  ap.for_us[ap.for_us_count++ % ap.for_us.size()] = { at, seen.what != ApWindow::What::first };
}

void ApEstimator::take(const StationStats& stats, Tick at)
{
  advance(std::max(at, now_));
  Ap& ap = find(stats.ap, now_);
  ap.heard = now_;
  while (!ap.stats.empty() && now_ - ap.stats.front().first > settings_.driver_window)
    ap.stats.pop_front();
  // The newest one is always kept as it is; of the older ones a few suffice.
  constexpr Duration apart = std::chrono::milliseconds { 200 };
  if (ap.stats.size() >= 2 && ap.stats.back().first - ap.stats[ap.stats.size() - 2].first < apart) ap.stats.pop_back();
  ap.stats.emplace_back(now_, stats);
  if (stats.beacon_interval) ap.beacon_interval = *stats.beacon_interval;
}

void ApEstimator::purge(Ap& ap) const
{
  ap.frames.purge(now_);
  while (!ap.beacons.empty() && now_ - ap.beacons.front() > settings_.beacon_window)
    ap.beacons.pop_front();
  // Old counters are no statement about now.
  if (!ap.stats.empty() && now_ - ap.stats.back().first > settings_.driver_window) ap.stats.clear();
}

void ApEstimator::advance(Tick now)
{
  now_ = std::max(now, now_);
  for (auto it = aps_.begin(); it != aps_.end();)
  {
    purge(it->second);
    it = now_ - it->second.heard > forgotten_after ? aps_.erase(it) : std::next(it);
  }
}

void ApEstimator::forget()
{
  aps_.clear();
  now_ = {};
}

std::optional<double> ApEstimator::beacon_loss(const Ap& ap) const
{
  const Duration interval = ap.beacon_interval > Duration {} ? ap.beacon_interval : usual_beacon_interval;
  const Duration watched = std::min(settings_.beacon_window, now_ - ap.beacons_since);
  const double expected = std::floor(seconds(watched) / seconds(interval));
  constexpr double too_few = 5;
  if (expected < too_few) return {};
  return std::clamp(1 - static_cast<double>(ap.beacons.size()) / expected, 0.0, 1.0);
}

// What is known of the attempts in the window.
struct ApEstimator::Failures
{
  double arrived = 0, lost = 0; // packets
  double first = 0;             // share of first attempts that arrived
  double delivery = 0;          // share of all attempts
  bool counted = false;         // failed attempts are heard, and the next two are known
  double failed = 0;            // attempts
  double later = 0;             // share of the attempts after the first that arrived
};

ApEstimator::Failures ApEstimator::failures(const Ap& ap) const
{
  const ApWindow::Sums& sums = ap.frames.sums();
  Failures out { .arrived = static_cast<double>(sums.first + sums.retried),
                 .lost = static_cast<double>(std::max(0, sums.lost)) };
  out.first = out.delivery = out.later = sums.first / (out.arrived + out.lost);
  // Failed attempts that the radio hears damaged can be counted, which tells more than the retry bit. It does when most
  // retried packets were heard damaged before.
  constexpr double enough_foretold = 0.8, enough_retried = 5;
  const double foretold = sums.retried > 0 ? static_cast<double>(sums.foretold) / sums.retried : 0;
  out.counted = sums.retried >= enough_retried && foretold >= enough_foretold;
  if (!out.counted) return out;
  // A packet counts as foretold when any of its failed attempts was heard. With a share h of them heard and independent
  // attempts, 1 - foretold = (1 - h) p / (1 - q (1 - h)), solved for h.
  const double missed = std::max(0.0, 1 - foretold), q = 1 - out.first;
  const double any = out.first + q * missed;
  const double heard = any > 0 ? 1 - missed / any : 1; // no first attempt arrived, and all failed ones were heard
  if (!(heard > 0))
  {
    out.counted = false;
    return out;
  }
  out.failed = sums.damaged / heard;
  const double succeeded = out.arrived + sums.repeated;
  out.delivery = succeeded / (succeeded + out.failed);
  out.later = sums.retried / (sums.retried + std::max(0.0, out.failed - sums.retried - out.lost));
  return out;
}

// Independent attempts: a packet is given up with probability (1 - p)^attempts, and the attempts after the first fail
// as often as the first ones.
bool ApEstimator::fail_together(const Ap& ap, const Failures& failed) const
{
  const ApWindow::Sums& sums = ap.frames.sums();
  constexpr double sigmas = 5, many = 0.001, worse = 0.15;
  // What an aggregate gives up is its sender's own affair.
  if (sums.aggregates == 0 && ap.attempts.known())
  {
    const unsigned attempts = ap.attempts.attempts(settings_.retry_limit + 1);
    const double expected = ap.packets * std::pow(1 - std::min(1.0, ap.firsts / ap.packets), attempts);
    if (ap.losts - expected > sigmas * std::sqrt(expected + 1) && ap.losts > many * ap.packets) return true;
  }
  if (!failed.counted) return false;
  const double later = sums.retried / failed.later; // attempts
  const double spread = std::sqrt(std::max(0.01, failed.first * (1 - failed.first)) / later);
  return failed.first - failed.later > std::max(worse, sigmas * spread);
}

void ApEstimator::packet_time(const Ap& ap, const Failures& failed, ApEstimate& out) const
{
  const ApWindow::Sums& sums = ap.frames.sums();
  double frames_each = 1;
  if (sums.aggregates > 0)
  {
    // Those that failed unheard were in the aggregates, too.
    frames_each = static_cast<double>(sums.aggregated) / sums.aggregates / (failed.counted ? 1 : failed.delivery);
    constexpr double most_frames = 256;
    frames_each = std::clamp(frames_each, 1.0, most_frames);
  }
  double count = 0, rates = 0, first_count = 0, first_rates = 0;
  ap.frames.each_rate(
      [&](const ApWindow::Rate& rate, int first, int later)
      {
        count += first + later;
        rates += (first + later) * rate.mbps;
        first_count += first;
        first_rates += first * rate.mbps;
      });
  if (count <= 0) return;
  out.mbps = rates / count;

  const unsigned retries = ap.attempts.attempts(settings_.retry_limit + 1) - 1;
  const double p = std::min(1 - (sums.aggregates > 0 ? failed.delivery : failed.first), worst);
  double later = std::min(1 - failed.later, worst);
  // Rate control repeats packets at slower, safer rates: those that were repeated arrive at lower rates than the
  // others. Had their attempts failed as often as the first ones, more packets would have been given up.
  constexpr double slower = 0.97;
  const bool adapts = count > first_count && first_count > 0
                      && (rates - first_rates) / (count - first_count) < slower * first_rates / first_count;
  if (!failed.counted && adapts && p > 0 && retries > 0)
  {
    const double given_up = (failed.lost + 0.5) / (failed.arrived + failed.lost + 1);
    later = std::min(p, std::pow(std::min(1.0, given_up / p), 1.0 / retries));
  }
  double airtime = 0;
  ap.frames.each_rate(
      [&](const ApWindow::Rate& rate, int first, int more)
      {
        PhySeen phy = phy_of(rate, ap.frequency, ap.qos);
        phy.per_aggregate = frames_each;
        airtime += (first + more) * seconds(feeder::packet_time(phy, settings_.packet_bytes, p, later, retries));
      });
  out.packet_time = Duration { static_cast<std::int64_t>(airtime / count * 1e9) };
}

ApEstimate ApEstimator::from_frames(const Mac& mac, const Ap& ap) const
{
  const ApWindow::Sums& sums = ap.frames.sums();
  ApEstimate out { .ap = mac, .mcs = ap.mcs, .signal = ap.signal };
  if (!ap.beacons.empty()) out.beacon_loss = beacon_loss(ap);
  if (sums.first + sums.retried <= 0) return out;
  const Failures failed = failures(ap);
  out.basis = Basis::frames;
  out.first = static_cast<unsigned>(sums.first);
  out.retried = static_cast<unsigned>(sums.retried);
  out.lost = static_cast<unsigned>(failed.lost);
  out.confidence = std::min(1.0, (failed.arrived + failed.lost) / settings_.enough);
  out.delivery = failed.delivery;
  out.hidden_terminal = fail_together(ap, failed);
  constexpr double little = 0.3; // such an estimate is too high by 10 to 20 points
  if (out.hidden_terminal) out.confidence = std::min(out.confidence, little);
  packet_time(ap, failed, out);
  return out;
}

// What the counters tell is about our own frames mostly; the air is the same both ways, more or less.
void ApEstimator::from_driver(const Ap& ap, ApEstimate& out) const
{
  if (ap.stats.empty()) return;
  const auto& [at, now] = ap.stats.back();
  if (now.signal_average)
    out.signal = now.signal_average;
  else if (now.signal)
    out.signal = now.signal;
  out.mbps = now.rx_mbps ? now.rx_mbps : now.tx_mbps;
  out.mcs = now.rx_mbps ? now.rx_mcs : now.tx_mcs;
  const auto& [before, then] = ap.stats.front();
  if (at <= before) return;

  if (const auto beacons = growth(then.beacons, now.beacons))
  {
    const Duration interval = ap.beacon_interval > Duration {} ? ap.beacon_interval : usual_beacon_interval;
    const double expected = std::floor(seconds(at - before) / seconds(interval));
    constexpr double too_few = 5;
    if (expected >= too_few) out.beacon_loss = std::clamp(1 - *beacons / expected, 0.0, 1.0);
  }
  const auto sent = growth(then.tx_packets, now.tx_packets), retries = growth(then.tx_retries, now.tx_retries);
  constexpr double too_few_sent = 10;
  if (!sent || !retries || *sent < too_few_sent) return;
  out.basis = Basis::driver;
  out.delivery = *sent / (*sent + *retries);
  constexpr double no_more_than = 0.3; // the other direction, and attempts of many rates
  out.confidence = no_more_than * std::min(1.0, (*sent + *retries) / settings_.enough);
  if (!out.mbps || *out.mbps <= 0) return;
  const ApWindow::Rate rate { .mbps = *out.mbps,
                              .ht = out.mcs.has_value(),
                              .streams = now.rx_streams.value_or(std::uint8_t { 1 }) };
  const PhySeen phy = phy_of(rate, ap.frequency, true);
  const double p = std::min(1 - *out.delivery, worst);
  out.packet_time = feeder::packet_time(phy, settings_.packet_bytes, p, p, settings_.retry_limit);
}

std::optional<ApEstimate> ApEstimator::estimate(const Mac& mac) const
{
  const auto known = aps_.find(mac);
  if (known == aps_.end()) return {};
  ApEstimate out = from_frames(mac, known->second);
  if (out.basis == Basis::none) from_driver(known->second, out);
  return out;
}

unsigned ApEstimator::frequency(const Mac& mac) const
{
  const auto known = aps_.find(mac);
  return known == aps_.end() ? 0 : known->second.frequency;
}

std::vector<ApEstimate> ApEstimator::all() const
{
  std::vector<ApEstimate> out;
  for (const auto& [mac, ap] : aps_)
    out.push_back(*estimate(mac));
  return out;
}

std::size_t ApEstimator::memory() const
{
  std::size_t bytes = 0;
  for (const auto& [mac, ap] : aps_)
    bytes += sizeof mac + sizeof ap + ap.frames.memory();
  return bytes;
}

} // namespace tandem::feeder
