#include "tools/sim/handoff_scenario.h"

#include "modules/rate/promise.h"
#include "tools/lab/medium/random.h"
#include "tools/sim/scenarios.h"
#include "tools/sim/stages.h"
#include "tools/sim/transfer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

namespace tandem::sim
{
namespace
{

using nlohmann::json;
using namespace tandem::rate;
using namespace std::chrono_literals;

constexpr Duration sample = 5ms, look = 100ms;
constexpr std::size_t half_second = 500ms / sample;
constexpr double mega = 1e6;
// BDP_UB: user, access point, router, server, and back.
constexpr unsigned hops = 3;

// Signal to noise, dB: 62 at 1 m, 30 less for ten times the way (indoors).
double signal_at(double distance)
{
  return 62 - 30 * std::log10(std::max(1.0, std::abs(distance)));
}

// Goodput of 802.11g's rates as shares of that of 54 Mb/s, by the signal each needs.
double share_of_capacity(double signal)
{
  struct Step
  {
    double signal, share;
  };
  static constexpr std::array steps { Step { 25, 1.0 },  Step { 24, 0.93 }, Step { 19, 0.77 }, Step { 16, 0.58 },
                                      Step { 11, 0.46 }, Step { 9, 0.34 },  Step { 7, 0.26 },  Step { 5, 0.18 } };
  for (const Step& one : steps)
    if (signal >= one.signal) return one.share;
  return 0.02;
}

// One-way delays and bytes of a subflow's data.
class Meter final : public Stage
{
public:
  Meter(World& world, double return_ms) : world_(world), return_ms_(return_ms) {}
  void accept(Handle handle) override
  {
    const Packet& packet = world_.pool[handle];
    if (packet.kind == Kind::data)
    {
      bytes += packet.length;
      const double delay = static_cast<double>(static_cast<std::int32_t>(world_.clock() - packet.ts_value));
      points.push_back(
          { seconds(world_.now() - Tick {}), delay + return_ms_, last_ < 0 ? 0 : std::abs(delay - last_) });
      last_ = delay;
    }
    world_.forward(handle);
  }
  struct Point
  {
    double at = 0, rtt_ms = 0, jitter_ms = 0; // jitter: from the packet before
  };
  double bytes = 0;
  std::vector<Point> points;

private:
  World& world_;
  double return_ms_, last_ = -1;
};

// RFC 5481 4.2: packet delay variation, the 95th percentile above the least delay.
double variation(std::vector<double> delays)
{
  if (delays.empty()) return 0;
  std::sort(delays.begin(), delays.end());
  return delays[delays.size() * 95 / 100] - delays.front();
}

Algorithm coupling_of(const std::string& arm)
{
  if (arm == "uncoupled") return Algorithm::reno;
  return arm == "olia" ? Algorithm::olia : Algorithm::lia;
}

class Walk
{
public:
  explicit Walk(const HandoffRun& run)
      : run_(run), world_(run.seed), random_(run.seed, 77), transfer_(world_, config(run)),
        wifi_(world_, wire(run.C1 * mega, run.wifi_ms, run.wifi_queue)),
        lte_(world_, wire(run.C2 * mega, run.lte_ms, run.lte_queue)), wifi_back_(world_, wire(0, run.wifi_ms, 100'000)),
        lte_back_(world_, wire(0, run.lte_ms, 100'000)), meters_ { Meter(world_, run.wifi_ms),
                                                                   Meter(world_, run.lte_ms) },
        promise_({ .parameters = parameters() })
  {
    transfer_.add({ .down = { &wifi_, &meters_[0] }, .up = { &wifi_back_ } }, Tick {});
    transfer_.add({ .down = { &lte_, &meters_[1] }, .up = { &lte_back_ } }, Tick {} + 50ms);
    begin_ = 10 * random_.uniform();
  }

  json walk();

private:
  static medium::PipeConfig wire(double rate, double ms, unsigned queue)
  {
    return { .rate = { rate }, .delay = from_seconds(ms / 1e3), .queue_packets = queue };
  }
  static TransferConfig config(const HandoffRun& run)
  {
    TransferConfig made;
    made.mptcp = true;
    made.sender.algorithm = coupling_of(run.arm);
    made.offered = { run.offered * mega };
    return made;
  }
  ClaParameters parameters() const
  {
    return { .C1 = run_.C1 * mega,
             .C2 = run_.C2 * mega,
             .R1h = run_.R1h * mega,
             .R0 = run_.R0 * mega,
             .delta0 = run_.delta0,
             .delta1 = run_.delta1,
             .delta2 = run_.delta2 };
  }
  double position() const { return begin_ + run_.speed * seconds(world_.now() - Tick {}); }
  double signal(unsigned ap) const { return signal_at(position() - run_.apart_m * ap); }
  void measure();
  void act();
  void published();
  void hold(const ClaRates& rates);
  void ours();
  void leave();
  void arrive();
  void sampled(Duration now);
  double carried(double from, double to) const; // in order, Mb/s
  double gap(double from, double to) const;
  json series() const;
  json told(double length) const;

  const HandoffRun& run_;
  World world_;
  medium::Random random_;
  Transfer transfer_;
  Wire wifi_, lte_, wifi_back_, lte_back_;
  std::array<Meter, 2> meters_;
  Promise promise_;
  double begin_ = 0;

  unsigned ap_ = 0, next_ap_ = 1;
  bool connected_ = true;
  Tick back_ = Tick::max();
  ClaState state_ {};
  ClaStage stage_ = ClaStage::none;
  std::array<double, 2> before_ {};
  std::vector<double> handoffs_;

  std::vector<std::array<double, 3>> totals_; // every `sample`: Wi-Fi, LTE, in order; bytes so far
  std::vector<double> retransmissions_;       // with them
  std::vector<double> duplicates_;            // with them: duplicate acknowledgements
  json curve_ = json::array();
};

void Walk::measure()
{
  const double step = seconds(look);
  std::array<double*, 2> into { &state_.R1, &state_.R2 };
  for (std::size_t i = 0; i < 2; ++i)
  {
    const double now = (meters_[i].bytes - before_[i]) * 8 / step;
    before_[i] = meters_[i].bytes;
    *into[i] += run_.arm == "promise" ? now - *into[i] : 0.3 * (now - *into[i]);
  }
  state_.S1 = signal(ap_);
  state_.S2.reset();
  for (unsigned other = 0; other < run_.access_points; ++other)
    if (other != ap_ && (!state_.S2 || signal(other) > *state_.S2))
    {
      state_.S2 = signal(other);
      next_ap_ = other;
    }
  if (!connected_) return;
  medium::PipeConfig now = wire(run_.C1 * mega * share_of_capacity(state_.S1), run_.wifi_ms, run_.wifi_queue);
  wifi_.configure(now);
}

void Walk::leave()
{
  connected_ = false;
  handoffs_.push_back(seconds(world_.now() - Tick {}));
  wifi_.set_down(true, false);
  wifi_back_.set_down(true, false);
  back_ = world_.now() + from_seconds(run_.associate_ms / 1e3);
}

void Walk::arrive()
{
  connected_ = true;
  back_ = Tick::max();
  ap_ = next_ap_;
  wifi_.set_down(false, false);
  wifi_back_.set_down(false, false);
  if (run_.arm == "cla")
  {
    // Algorithm 3, lines 12 to 17.
    Sender& sender = transfer_.sender(0);
    if (run_.forget) sender.reset_estimates();
    sender.ignore_losses(from_seconds(4 * run_.wifi_ms / 1e3));
    sender.set_cwnd(bdp_upper_bound(hops, hops));
  }
}

void Walk::published()
{
  const ClaParameters p = parameters();
  const ClaStage now = stage(p, state_);
  if (now == ClaStage::pre_handoff && stage_ != now) state_.R2p = state_.R2;
  stage_ = now;
  if (now == ClaStage::none || !connected_) return;
  ClaRates rates = now == ClaStage::stationary ? stationary(p, state_) : pre_handoff(p, state_);
  if (run_.reading == "held")
  {
    if (now == ClaStage::stationary) rates = { .wifi = p.C1, .cell = std::clamp(p.R0 - state_.R1, 0.0, p.C2) };
    hold(rates);
    return;
  }
  const std::array<double, 2> wanted { rates.wifi, rates.cell };
  for (std::size_t i = 0; i < 2; ++i)
  {
    Sender& sender = transfer_.sender(i);
    if (sender.window().rtt > Duration {})
      sender.set_cwnd(bdp_path(wanted[i], sender.window().rtt, sender.config().mss));
  }
}

// Windows that stay until the next ones, of the round trip without a queue.
void Walk::hold(const ClaRates& rates)
{
  const std::array<double, 2> wanted { rates.wifi, rates.cell };
  for (std::size_t i = 0; i < 2; ++i)
  {
    Sender& sender = transfer_.sender(i);
    if (sender.window().rtt_min > Duration {})
      sender.limit(bdp_path(wanted[i], sender.window().rtt_min, sender.config().mss));
  }
}

void Walk::ours()
{
  Sender &wifi = transfer_.sender(0), &cell = transfer_.sender(1);
  const Promise::Output out = promise_.look({ .now = world_.now(),
                                              .signals = state_,
                                              .wifi_rtt = wifi.window().rtt_min,
                                              .cell_rtt = cell.window().rtt_min,
                                              .wifi_mss = static_cast<double>(wifi.config().mss),
                                              .cell_mss = static_cast<double>(cell.config().mss),
                                              .connected = connected_ });
  wifi.limit(out.wifi_window);
  cell.limit(out.cell_window);
  if (out.hand_off) leave();
}

void Walk::act()
{
  if (world_.now() >= back_) arrive();
  measure();
  if (run_.arm == "promise") return ours();
  const ClaParameters p = parameters();
  if (run_.arm == "cla") published();
  // A candidate is one that is heard no worse: by the printed rate alone an access point far away would do as soon as
  // Wi-Fi stalls.
  const bool go =
      run_.arm == "cla" ? hands_off(p, state_) && *state_.S2 > state_.S1 : hands_off_traditionally(p, state_);
  if (connected_ && go) leave();
}

void Walk::sampled(Duration now)
{
  const Sender::Stats &wifi = transfer_.subflow(0).sender->stats(), &lte = transfer_.subflow(1).sender->stats();
  totals_.push_back({ meters_[0].bytes, meters_[1].bytes, static_cast<double>(transfer_.delivered()) });
  retransmissions_.push_back(static_cast<double>(wifi.retransmissions + lte.retransmissions));
  duplicates_.push_back(static_cast<double>(wifi.duplicates + lte.duplicates));
  if (totals_.size() % half_second == 1 && totals_.size() > half_second)
  {
    const auto& then = totals_[totals_.size() - 1 - half_second];
    json point { seconds(now) };
    for (std::size_t i = 0; i < 3; ++i)
      point.push_back(std::round((totals_.back()[i] - then[i]) * 8 / 0.5 / 1e4) / 100);
    point.push_back(std::round(state_.S1 * 10) / 10);
    curve_.push_back(point);
  }
}

double Walk::carried(double from, double to) const
{
  const auto place = [&](double at)
  {
    const auto last = static_cast<double>(totals_.size() - 1);
    return static_cast<std::size_t>(std::clamp(at / seconds(sample), 0.0, last));
  };
  return (totals_[place(to)][2] - totals_[place(from)][2]) * 8 / mega / (to - from);
}

// The longest time without progress in order that ends in this span, ms.
double Walk::gap(double from, double to) const
{
  std::size_t since = 0;
  double longest = 0;
  for (std::size_t i = 1; i < totals_.size(); ++i)
  {
    const double at = static_cast<double>(i) * seconds(sample);
    if (totals_[i][2] > totals_[since][2])
    {
      if (at >= from && at <= to) longest = std::max(longest, static_cast<double>(i - since) * milliseconds(sample));
      since = i;
    }
  }
  return longest;
}

// Figure 10: what befell the packets of each half second. No round trip and no jitter where none arrived.
json Walk::series() const
{
  json points = json::array();
  std::array<std::size_t, 2> place {};
  for (std::size_t i = half_second; i < totals_.size(); i += half_second)
  {
    const double end = static_cast<double>(i) * seconds(sample);
    double rtt = 0, jitter = 0;
    std::size_t count = 0;
    for (std::size_t m = 0; m < meters_.size(); ++m)
      for (const auto& own = meters_[m].points; place[m] < own.size() && own[place[m]].at < end; ++place[m], ++count)
      {
        rtt += own[place[m]].rtt_ms;
        jitter += own[place[m]].jitter_ms;
      }
    const auto mean_of = [&](double sum)
    { return count > 0 ? json(std::round(sum / static_cast<double>(count) * 1e3) / 1e3) : json(); };
    points.push_back({ end, mean_of(rtt), mean_of(jitter), retransmissions_[i] - retransmissions_[i - half_second],
                       duplicates_[i] - duplicates_[i - half_second] });
  }
  return points;
}

json Walk::told(double length) const
{
  std::vector<double> rtts, jitters, goodputs, losses, gaps, variations;
  double again = 0, duplicates = 0;
  for (const double handoff : handoffs_)
  {
    const double from = std::max(0.0, handoff - run_.near_s), to = std::min(length, handoff + run_.near_s);
    for (const Meter& meter : meters_)
    {
      std::vector<double> own;
      for (const Meter::Point& point : meter.points)
        if (point.at >= from && point.at < to)
        {
          own.push_back(point.rtt_ms);
          jitters.push_back(point.jitter_ms);
        }
      rtts.insert(rtts.end(), own.begin(), own.end());
      variations.insert(variations.end(), own.size(), variation(own));
    }
    goodputs.push_back(carried(from, to));
    losses.push_back(run_.R0 - carried(handoff - 0.5, handoff + 0.5));
    gaps.push_back(gap(from, to));
    const auto place = [&](double at)
    { return std::min(retransmissions_.size() - 1, static_cast<std::size_t>(at / seconds(sample))); };
    again += retransmissions_[place(to)] - retransmissions_[place(from)];
    duplicates += duplicates_[place(to)] - duplicates_[place(from)];
  }
  return { { "mbps", carried(1, length) },
           { "held_at_handoff_mbps", held_at_handoff(parameters()) / mega },
           { "near",
             { { "mbps", mean(goodputs) },
               { "rtt_ms", mean(rtts) },
               { "jitter_ms", mean(jitters) },
               { "variation_ms", mean(variations) },
               { "gap_ms", gaps.empty() ? 0.0 : *std::max_element(gaps.begin(), gaps.end()) },
               { "retransmissions", again },
               { "duplicate_acks", duplicates },
               { "loss_mbps", mean(losses) } } },
           { "lte_bytes", meters_[1].bytes },
           { "handoffs_s", handoffs_ },
           { "curve", curve_ },
           { "series", series() } };
}

json Walk::walk()
{
  const double length = (run_.apart_m * (run_.access_points - 1) - begin_) / run_.speed;
  Duration at {};
  const auto end = from_seconds(length);
  for (; at < end; at += sample)
  {
    world_.loop.run_until(Tick {} + at);
    if (at % look == Duration {}) act();
    sampled(at);
  }
  return told(seconds(end));
}

} // namespace

json handoff(const HandoffRun& run)
{
  try
  {
    Walk walk(run);
    return walk.walk();
  }
  catch (const BadInput& error)
  {
    throw BadScenario(std::string("handoff: ") + error.what());
  }
}

} // namespace tandem::sim
