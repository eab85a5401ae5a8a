#include "tools/sim/congestion.h"

#include <algorithm>
#include <cmath>

namespace tandem::sim
{

namespace
{

using namespace std::chrono_literals;

// Slow start up to the threshold, RFC 5681 with the whole of what was acknowledged (RFC 3465 without its limit, as
// Linux). Returns what is left for congestion avoidance.
double slow_start(Window& window, double acked)
{
  const double room = std::max(0.0, window.ssthresh - window.cwnd);
  const double used = std::min(room, acked);
  window.cwnd += used;
  return acked - used;
}

class Reno final : public Congestion
{
public:
  explicit Reno(Window& window) : window_(window) {}
  void increase(double acked, Tick) override
  {
    acked = slow_start(window_, acked);
    if (acked > 0) window_.cwnd += acked / window_.cwnd;
  }
  double reduce() override { return std::max(2.0, std::floor(window_.cwnd / 2)); }

private:
  Window& window_;
};

// RFC 9438, with what Linux does differently: the TCP-friendly estimate grows by 3 (1 - beta) / (1 + beta) for good, a
// target is reached at no more than half a segment for each acknowledged one, slow start ends by HyStart (Ha and Rhee,
// "Taming the elephants: new TCP slow start", 2011).
class Cubic final : public Congestion
{
public:
  explicit Cubic(Window& window) : window_(window) {}

  void increase(double acked, Tick now) override
  {
    const bool slow = window_.slow_start();
    acked = slow_start(window_, acked);
    if (slow && acked <= 0) return;
    if (acked > 0) avoid(acked, now);
  }

  double reduce() override
  {
    const double cwnd = window_.cwnd;
    // Fast convergence, RFC 9438 4.7.
    w_last_max_ = cwnd < w_last_max_ ? cwnd * (1 + beta) / 2 : cwnd;
    epoch_ = false;
    return std::max(2.0, std::floor(cwnd * beta));
  }

  void timed_out() override
  {
    epoch_ = false;
    w_last_max_ = 0;
    round_end_ = 0;
    found_ = false;
  }

  void undo() override { epoch_ = false; }

  void sample(Duration rtt, Tick now) override
  {
    if (delay_min_ == Duration {} || rtt < delay_min_) delay_min_ = rtt;
    if (!window_.slow_start() || window_.cwnd < hystart_low_window || found_) return;
    hystart(rtt, now);
  }

private:
  static constexpr double beta = 717.0 / 1024, c = 0.4;
  static constexpr double hystart_low_window = 16;

  void hystart(Duration rtt, Tick now)
  {
    if (window_.acked >= round_end_)
    {
      round_start_ = last_ack_ = now;
      round_end_ = window_.sent;
      round_rtt_ = Duration::max();
      samples_ = 0;
    }
    // ACK train: acknowledgements at most 2 ms apart for half a minimum round trip.
    if (now - last_ack_ <= 2ms)
    {
      last_ack_ = now;
      if (now - round_start_ > delay_min_ / 2) found_ = true;
    }
    // Delay increase: the least of eight samples of a round is an eighth above the minimum.
    round_rtt_ = std::min(round_rtt_, rtt);
    if (samples_ < 8)
      ++samples_;
    else if (round_rtt_ > delay_min_ + std::clamp<Duration>(delay_min_ / 8, 4ms, 16ms))
      found_ = true;
    if (found_) window_.ssthresh = window_.cwnd;
  }

  void avoid(double acked, Tick now)
  {
    if (!epoch_)
    {
      epoch_ = true;
      start_ = now;
      w_est_ = window_.cwnd;
      if (w_last_max_ <= window_.cwnd)
      {
        k_ = 0;
        origin_ = window_.cwnd;
      }
      else
      {
        k_ = std::cbrt((w_last_max_ - window_.cwnd) / c);
        origin_ = w_last_max_;
      }
    }
    const double t = seconds(now - start_ + delay_min_) - k_;
    const double target = origin_ + c * t * t * t;
    double growth = target > window_.cwnd ? (target - window_.cwnd) / window_.cwnd : 0.01 / window_.cwnd;
    // Linux: while no loss is known, at least one segment in twenty.
    if (w_last_max_ == 0) growth = std::max(growth, 1.0 / 20);
    w_est_ += acked * 3 * (1 - beta) / (1 + beta) / window_.cwnd;
    if (w_est_ > window_.cwnd) growth = std::max(growth, (w_est_ - window_.cwnd) / window_.cwnd);
    window_.cwnd += acked * std::min(growth, 0.5);
  }

  Window& window_;
  Duration delay_min_ {};
  double w_last_max_ = 0;
  bool epoch_ = false;
  Tick start_ {};
  double k_ = 0, origin_ = 0, w_est_ = 0;
  std::uint64_t round_end_ = 0;
  Tick round_start_ {}, last_ack_ {};
  Duration round_rtt_ = Duration::max();
  unsigned samples_ = 0;
  bool found_ = false;
};

// Of the subflows that carry data and have a round-trip time.
bool counts(const Window& window)
{
  return window.established && window.rtt > Duration {};
}

class Lia final : public Congestion
{
public:
  Lia(Window& window, const Group& group) : window_(window), group_(group) {}
  void increase(double acked, Tick) override
  {
    acked = slow_start(window_, acked);
    if (acked <= 0) return;
    double total = 0;
    for (const Window* one : group_)
      if (counts(*one)) total += one->cwnd;
    const double own = acked / window_.cwnd;
    window_.cwnd += total > 0 ? std::min(lia_alpha(group_) * acked / total, own) : own;
  }
  double reduce() override { return std::max(2.0, std::floor(window_.cwnd / 2)); }

private:
  Window& window_;
  const Group& group_;
};

class Olia final : public Congestion
{
public:
  Olia(Window& window, const Group& group) : window_(window), group_(group) {}
  void increase(double acked, Tick) override
  {
    acked = slow_start(window_, acked);
    if (acked <= 0) return;
    double sum = 0;
    for (const Window* one : group_)
      if (counts(*one)) sum += one->cwnd / seconds(one->rtt);
    if (sum <= 0 || window_.rtt == Duration {}) return;
    const double rtt = seconds(window_.rtt);
    const double growth = window_.cwnd / (rtt * rtt) / (sum * sum) + olia_alpha(group_, window_) / window_.cwnd;
    window_.cwnd = std::max(1.0, window_.cwnd + acked * growth);
  }
  // The draft's section 3: with several paths the least threshold is one segment.
  double reduce() override { return std::max(group_.size() > 1 ? 1.0 : 2.0, std::floor(window_.cwnd / 2)); }

private:
  Window& window_;
  const Group& group_;
};

} // namespace

double lia_alpha(const Group& group)
{
  double total = 0, best = 0, sum = 0;
  for (const Window* one : group)
  {
    if (!counts(*one)) continue;
    const double rtt = seconds(one->rtt);
    total += one->cwnd;
    best = std::max(best, one->cwnd / (rtt * rtt));
    sum += one->cwnd / rtt;
  }
  return sum > 0 ? total * best / (sum * sum) : 1;
}

double olia_alpha(const Group& group, const Window& window)
{
  // Best: the largest l / rtt^2, where l is the larger of the two last distances between losses.
  const auto quality = [](const Window& one)
  {
    const double rtt = seconds(one.rtt);
    return static_cast<double>(std::max(one.since_last_loss(), one.between_losses)) / (rtt * rtt);
  };
  double best = 0, largest = 0;
  unsigned paths = 0;
  for (const Window* one : group)
  {
    if (!counts(*one)) continue;
    ++paths;
    best = std::max(best, quality(*one));
    largest = std::max(largest, one->cwnd);
  }
  unsigned collected = 0, largest_ones = 0;
  for (const Window* one : group)
  {
    if (!counts(*one)) continue;
    if (one->cwnd >= largest)
      ++largest_ones;
    else if (quality(*one) >= best)
      ++collected;
  }
  if (collected == 0 || paths < 2 || !counts(window)) return 0;
  if (window.cwnd >= largest) return -1.0 / paths / largest_ones;
  return quality(window) >= best ? 1.0 / paths / collected : 0;
}

std::unique_ptr<Congestion> make_congestion(Algorithm algorithm, Window& window, const Group& group)
{
  switch (algorithm)
  {
  case Algorithm::reno:
    return std::make_unique<Reno>(window);
  case Algorithm::cubic:
    return std::make_unique<Cubic>(window);
  case Algorithm::lia:
    return std::make_unique<Lia>(window, group);
  case Algorithm::olia:
    return std::make_unique<Olia>(window, group);
  }
  return nullptr;
}

} // namespace tandem::sim
