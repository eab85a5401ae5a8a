#include "src/feeder/estimator.h"

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
std::uint32_t key_of(const Frame& frame)
{
  constexpr std::uint32_t no_class = 16;
  return (frame.tid ? *frame.tid : no_class) << 12 | *frame.sequence;
}

std::optional<ApWindow::Rate> rate_of(const Frame& frame)
{
  if (!frame.mbps) return {};
  return ApWindow::Rate { .mbps = *frame.mbps,
                          .ht = frame.mcs.has_value(),
                          .streams = frame.streams.value_or(std::uint8_t { 1 }) };
}

// Since when a counter that may have wrapped, or have begun anew, has grown by how much.
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
  advance(std::max(at, now_));
  at = now_;
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
  if (frame.kind == Frame::Kind::data && !frame.retry && !frame.damaged) ap.our_share -= smoothing / 4 * ap.our_share;
  // Of damaged ones, too: the number is at the beginning of the frame, most often it is right.
  ap.shared.take_near(*frame.sequence);
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
  if (frame.tid || ap.our_share > alone) seen.lost = taken.lost;
  const auto end = ap.damaged.begin() + static_cast<std::ptrdiff_t>(std::min(ap.damaged_count, ap.damaged.size()));
  const bool foretold = std::find(ap.damaged.begin(), end, key_of(frame)) != end;
  if (!taken.fresh)
    seen.what = ApWindow::What::repeated;
  else if (!frame.retry)
    seen.what = ApWindow::What::first;
  else
    seen.what = foretold ? ApWindow::What::foretold : ApWindow::What::retried;
  ap.frames.add(seen, at);

  const double kept = std::exp(-seconds(at - ap.faded) / seconds(settings_.memory));
  ap.faded = at;
  ap.packets = ap.packets * kept + (taken.fresh ? 1 : 0) + seen.lost;
  ap.firsts = ap.firsts * kept + (seen.what == ApWindow::What::first ? 1 : 0);
  ap.losts = ap.losts * kept + seen.lost;
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

void ApEstimator::advance(Tick now)
{
  if (now <= now_) return;
  now_ = now;
  for (auto it = aps_.begin(); it != aps_.end();)
  {
    Ap& ap = it->second;
    ap.frames.purge(now);
    while (!ap.beacons.empty() && now - ap.beacons.front() > settings_.beacon_window)
      ap.beacons.pop_front();
    // Old counters are no statement about now.
    if (!ap.stats.empty() && now - ap.stats.back().first > settings_.driver_window) ap.stats.clear();
    it = now - ap.heard > forgotten_after ? aps_.erase(it) : std::next(it);
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

ApEstimate ApEstimator::from_frames(const Mac& mac, const Ap& ap) const
{
  const ApWindow::Sums& sums = ap.frames.sums();
  ApEstimate out { .ap = mac, .mcs = ap.mcs, .signal = ap.signal };
  if (!ap.beacons.empty()) out.beacon_loss = beacon_loss(ap);
  const double arrived = sums.first + sums.retried;
  if (arrived <= 0) return out;
  const double lost = std::max(0, sums.lost);
  out.basis = Basis::frames;
  out.first = static_cast<unsigned>(sums.first);
  out.retried = static_cast<unsigned>(sums.retried);
  out.lost = static_cast<unsigned>(lost);
  out.confidence = std::min(1.0, (arrived + lost) / settings_.enough);
  const double of_first_attempts = sums.first / (arrived + lost);
  double delivery = of_first_attempts;

  // Failed attempts that the radio hears damaged can be counted, which tells more than the retry bit. It does when most
  // retried packets were heard damaged before.
  constexpr double enough_foretold = 0.8, enough_retried = 5;
  const double foretold = sums.retried > 0 ? static_cast<double>(sums.foretold) / sums.retried : 0;
  const bool hears_failures = sums.retried >= enough_retried && foretold >= enough_foretold;
  double failures = 0;
  if (hears_failures)
  {
    // A packet counts as foretold when any of its failed attempts was heard. With a share h of them heard and
    // independent attempts, 1 - foretold = (1 - h) p / (1 - q (1 - h)), solved for h.
    const double missed = 1 - foretold, q = 1 - of_first_attempts;
    failures = sums.damaged / (1 - missed / (of_first_attempts + q * missed));
    delivery = (arrived + sums.repeated) / (arrived + sums.repeated + failures);
  }
  out.delivery = delivery;

  // Independent attempts: a packet is given up with probability (1 - p)^(R + 1); and the attempts after the first fail
  // as often as the first ones.
  const double failed_first = sums.retried + lost;
  const double expected_lost =
      ap.packets * std::pow(1 - std::min(1.0, ap.firsts / ap.packets), settings_.retry_limit + 1);
  constexpr double sigmas = 5, many = 0.001, worse = 0.15;
  out.hidden_terminal =
      ap.losts - expected_lost > sigmas * std::sqrt(expected_lost + 1) && ap.losts > many * ap.packets;
  if (hears_failures)
  {
    const double later_failed = std::max(0.0, failures - failed_first);
    const double later = later_failed + sums.retried;
    const double of_later = sums.retried / later;
    const double spread = std::sqrt(std::max(0.01, of_first_attempts * (1 - of_first_attempts)) / later);
    out.hidden_terminal |= of_first_attempts - of_later > std::max(worse, sigmas * spread);
  }

  // Had the later attempts failed as often as the first ones, more packets would have been given up: rate control sends
  // them at rates that work.
  constexpr double worst = 0.98; // beyond, the sum says nothing any more
  const double p = std::min(1 - delivery, worst);
  const double given_up = (lost + 0.5) / (arrived + lost + 1);
  const double later = p > 0 ? std::min(p, std::pow(std::min(1.0, given_up / p), 1.0 / settings_.retry_limit)) : 0;

  double count = 0, rates = 0, airtime = 0;
  double frames_each = 1;
  if (sums.aggregates > 0)
  {
    // Those that failed unheard were in the aggregates, too.
    frames_each = static_cast<double>(sums.aggregated) / sums.aggregates / (hears_failures ? 1 : delivery);
    constexpr double most_frames = 256;
    frames_each = std::clamp(frames_each, 1.0, most_frames);
  }
  // The share of attempts that went within aggregates; most often all or none.
  ap.frames.each_rate(
      [&](const ApWindow::Rate& rate, int frames)
      {
        const PhySeen phy { .mbps = rate.mbps,
                            .ht = rate.ht,
                            .streams = rate.streams,
                            .frequency = ap.frequency,
                            .qos = ap.qos,
                            .per_aggregate = frames_each };
        const Duration time = feeder::packet_time(phy, settings_.packet_bytes, p, later, settings_.retry_limit);
        count += frames;
        rates += frames * rate.mbps;
        airtime += frames * seconds(time);
      });
  if (count > 0)
  {
    out.mbps = rates / count;
    out.packet_time = Duration { static_cast<std::int64_t>(airtime / count * 1e9) };
  }
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
  const PhySeen phy { .mbps = *out.mbps,
                      .ht = out.mcs.has_value(),
                      .streams = now.rx_streams.value_or(std::uint8_t { 1 }),
                      .frequency = ap.frequency,
                      .qos = true };
  constexpr double worst = 0.98;
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
