#include "modules/rate/rtt_model.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace tandem::rate
{
namespace
{

// Uniform numbers in [0, 1) of a seed: SplitMix64, which is three lines and the same everywhere.
class Uniform
{
public:
  explicit Uniform(std::uint64_t seed) : state_(seed) {}
  double operator()()
  {
    std::uint64_t z = state_ += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return static_cast<double>((z ^ z >> 31) >> 11) * 0x1p-53;
  }

private:
  std::uint64_t state_;
};

// Time of arrival behind the beginning of a connection of length L: exponential with mean m, cut off at L.
class CutExponential
{
public:
  CutExponential(double mean, double length) : mean_(mean) { set(mean, length); }
  // Another connection. Only L / m counts for the powers of e at its end, and that is mostly what it was before.
  void set(double mean, double length)
  {
    mean_ = mean;
    end_.time = length;
    const double lengths = length / mean;
    if (lengths == lengths_) return;
    lengths_ = lengths;
    whole_ = -std::expm1(-lengths);
    end_.later = std::exp(-lengths);
  }
  double quantile(double share) const { return -mean_ * std::log1p(-share * whole_); }

  // A time with the probability of what arrives later, as if nothing were cut off.
  struct Moment
  {
    double time = 0, later = 1;
  };
  Moment at(double time) const { return { time, time == 0 ? 1 : std::exp(-time / mean_) }; }
  Moment end() const { return end_; }
  // (probability of [from, to), integral of x over it)
  std::pair<double, double> part(const Moment& from, const Moment& to) const
  {
    return { (from.later - to.later) / whole_,
             ((from.time + mean_) * from.later - (to.time + mean_) * to.later) / whole_ };
  }

private:
  double mean_, lengths_ = -1, whole_ = 0;
  Moment end_;
};

// When the data that an ACK at `arrival` allows is sent.
double departure(const Schedule& schedule, double arrival, double connection_end, const ModelSettings& settings)
{
  return arrival + settings.air_time > connection_end ? schedule.next_begin(connection_end) : arrival;
}

// Expected time that answers to packets sent within `to` behind `begin` wait at the access point.
double expected_wait(const Schedule& schedule, const CutExponential& arrivals, double begin, double to, double delay)
{
  double wait = 0;
  double at = begin + delay; // of the answer
  const double end = begin + to + delay;
  while (at < end)
  {
    const auto [next, connected_until] = schedule.look(at);
    if (next > at)
    {
      const double until = std::min(next, end);
      const auto [share, moment] = arrivals.part(arrivals.at(at - begin - delay), arrivals.at(until - begin - delay));
      wait += (next - begin - delay) * share - moment;
      at = next;
    }
    else
      at = connected_until > at ? connected_until : std::nextafter(at, end);
  }
  return wait;
}

} // namespace

double expected_rtt(const Schedule& schedule, double delay, const ModelSettings& settings)
{
  double sum = 0, connected = 0;
  const double first = schedule.connections().front().length();
  CutExponential arrivals(settings.mean_share * first, first);
  for (std::size_t i = 0; i < schedule.connections().size(); ++i)
  {
    const Connection& one = schedule.connections()[i];
    const double length = one.length();
    arrivals.set(settings.mean_share * length, length);
    const double in_time = std::max(0.0, length - settings.air_time);
    const CutExponential::Moment last = arrivals.at(in_time);
    const auto [sent, sent_moment] = arrivals.part({}, last);
    double rtt = sent * delay + expected_wait(schedule, arrivals, one.begin, in_time, delay);
    // What waits here waits for the same moment.
    const auto [late, moment] = arrivals.part(last, arrivals.end());
    rtt += late * (schedule.next_connected(schedule.begin_after(i) + delay) - one.begin) - moment;
    sum += rtt * length;
    connected += length;
  }
  return sum / connected;
}

std::vector<double> sampled_rtts(const Schedule& schedule, double delay, std::size_t count, std::uint64_t seed,
                                 const ModelSettings& settings)
{
  Uniform uniform(seed);
  std::vector<double> rtts;
  rtts.reserve(count);
  while (rtts.size() < count)
  {
    double place = uniform() * schedule.connected();
    const Connection* one = schedule.connections().data();
    const Connection* last = one + schedule.connections().size() - 1;
    for (; one != last && place >= one->length(); ++one)
      place -= one->length();
    const CutExponential arrivals(settings.mean_share * one->length(), one->length());
    const double arrival = one->begin + arrivals.quantile(uniform());
    const double sent = departure(schedule, arrival, one->end, settings);
    rtts.push_back(schedule.next_connected(sent + delay) - arrival);
  }
  return rtts;
}

double self_clocked_rtt(const Schedule& schedule, double delay, const SelfClocked& settings)
{
  constexpr int teeth = 5; // windows that stand for the sawtooth
  double time = 0, packets = 0;
  std::vector<double> sent; // D of the last W packets, in turn
  for (int tooth = 0; tooth < teeth; ++tooth)
  {
    const double share = 2.0 / 3 + 2.0 / 3 * tooth / (teeth - 1);
    const auto window = static_cast<std::size_t>(std::max(1.0, std::round(share * settings.window)));
    sent.assign(window, schedule.connections().front().begin - delay);
    double last = schedule.connections().front().begin;
    const double begin = last + 8 * (schedule.period() + delay), end = begin + 30 * (schedule.period() + delay);
    for (std::size_t k = 0; last < end; k = (k + 1) % window)
    {
      double start = schedule.next_connected(std::max(last, sent[k] + delay));
      // What does not end in this connection is sent in the next one.
      if (const double until = schedule.connected_until(start);
          start + settings.air_time > until && until < start + schedule.period())
        start = schedule.next_begin(until);
      const double done = std::max(start + settings.air_time, std::nextafter(last, end));
      if (done >= begin)
      {
        time += done - sent[k];
        ++packets;
      }
      sent[k] = last = done;
    }
  }
  return time / packets;
}

double mathis(double mss, double rtt, double loss)
{
  return mss / rtt / std::sqrt(loss);
}

} // namespace tandem::rate
