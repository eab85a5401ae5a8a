#include "modules/rate/delay_aware.h"

#include <algorithm>
#include <utility>

namespace tandem::rate
{
namespace
{

// An allocation with the value of each station, so that an exchange computes anew only what it changes.
class Order
{
public:
  Order(const Slots& slots, std::span<const double> delays, const RttModel& model, Allocation allocation)
      : slots_(slots), delays_(delays), model_(model), allocation_(std::move(allocation)), timetable_(slots),
        values_(slots.stations())
  {
    timetable_.set(allocation_);
    for (std::size_t i = 0; i < values_.size(); ++i)
      values_[i] = value_of(static_cast<Station>(i));
  }

  double value() const
  {
    double sum = 0;
    for (const double one : values_)
      sum += one;
    return sum;
  }
  const Allocation& allocation() const { return allocation_; }
  std::uint64_t computed() const { return computed_; }

  // Exchanges two slots when that is better; else leaves all as it is.
  bool exchange(std::size_t a, std::size_t b)
  {
    const Station one = allocation_[a], other = allocation_[b];
    std::swap(allocation_[a], allocation_[b]);
    timetable_.set(allocation_);
    before_.clear();
    // Between slots of different lengths everything moves, else only the two of them. A station with one connection
    // keeps its round-trip time wherever that lies.
    const bool moves = slots_.length[one] != slots_.length[other];
    double gain = 0;
    for (std::size_t i = 0; i < values_.size(); ++i)
    {
      if (slots_.count[i] < 2 || (!moves && i != one && i != other)) continue;
      before_.emplace_back(i, values_[i]);
      gain -= values_[i];
      values_[i] = value_of(static_cast<Station>(i));
      gain += values_[i];
    }
    if (gain > 1e-9 * value()) return true;
    std::swap(allocation_[a], allocation_[b]);
    for (const auto& [i, old] : before_)
      values_[i] = old;
    return false;
  }

private:
  double value_of(Station station)
  {
    ++computed_;
    return 1 / model_(timetable_.of(station), delays_[station]);
  }

  const Slots& slots_;
  std::span<const double> delays_;
  const RttModel& model_;
  Allocation allocation_;
  Timetable timetable_; // of the allocation, or of one that was tried
  std::vector<double> values_;
  std::vector<std::pair<std::size_t, double>> before_; // an exchange: values it may take back
  std::uint64_t computed_ = 0;
};

// Fisher and Yates, by Knuth's linear congruence: the same order every time.
void shuffle(Allocation& order, std::uint64_t& random)
{
  for (std::size_t left = order.size(); left > 1; --left)
  {
    random = random * 6364136223846793005u + 1442695040888963407u;
    std::swap(order[left - 1], order[(random >> 33) % left]);
  }
}

constexpr std::size_t best_starts = 3; // improved before shuffled ones

} // namespace

Allocation spread(const Slots& slots, std::span<const std::uint32_t> pieces)
{
  struct Piece
  {
    double place = 0; // as a share of the period
    Station station = 0;
    std::uint32_t slots = 0;
  };
  const auto of = [&](std::size_t i) { return std::clamp(pieces[i], 1u, slots.count[i]); };
  std::vector<Piece> all;
  for (std::size_t i = 0; i < slots.stations(); ++i)
  {
    const std::uint32_t count = of(i);
    // Stations with the same number of pieces take turns.
    std::size_t alike = 0, before = 0;
    for (std::size_t other = 0; other < slots.stations(); ++other)
      if (of(other) == count)
      {
        ++alike;
        before += other < i;
      }
    const double phase = (static_cast<double>(before) + 0.5) / static_cast<double>(alike);
    for (std::uint32_t j = 0; j < count; ++j)
    {
      // Slots that do not divide evenly make a piece one slot longer here and there.
      const std::uint32_t from = slots.count[i] * j / count, to = slots.count[i] * (j + 1) / count;
      all.push_back({ (j + phase) / count, static_cast<Station>(i), to - from });
    }
  }
  std::stable_sort(all.begin(), all.end(), [](const Piece& a, const Piece& b) { return a.place < b.place; });
  Allocation made;
  for (const Piece& piece : all)
    made.insert(made.end(), piece.slots, piece.station);
  return made;
}

DelayAware::DelayAware(std::vector<double> delays, RttModel model, std::uint64_t effort)
    : delays_(std::move(delays)), model_(std::move(model)), effort_(effort)
{
}

RttModel DelayAware::published_model()
{
  return [](const Schedule& schedule, double delay) { return expected_rtt(schedule, delay); };
}

Allocated DelayAware::allocate(const Slots& slots) const
{
  check_delays(slots, delays_);
  std::uint64_t computed = 0, candidates = 0;
  std::vector<std::pair<double, Allocation>> starts;
  const auto look = [&](const Allocation& allocation)
  {
    const Order order(slots, delays_, model_, allocation);
    computed += order.computed();
    ++candidates;
    starts.emplace_back(order.value(), allocation);
    return order.value();
  };

  // The same number of pieces for all, then for each station the number that serves the sum best.
  const std::uint32_t most = *std::max_element(slots.count.begin(), slots.count.end());
  std::vector<std::uint32_t> best(slots.stations(), 1), pieces;
  double value = look(spread(slots, best));
  for (std::uint32_t k = 2; k <= most && computed < effort_ / 3; ++k)
  {
    pieces.assign(slots.stations(), k);
    if (const double now = look(spread(slots, pieces)); now > value)
    {
      value = now;
      best = pieces;
    }
  }
  for (std::size_t i = 0; i < slots.stations() && computed < effort_ / 2; ++i)
    for (std::uint32_t k = 1; k <= std::min(slots.count[i], 8u) && slots.count[i] > 1; ++k)
    {
      pieces = best;
      pieces[i] = k;
      if (const double now = look(spread(slots, pieces)); now > value)
      {
        value = now;
        best = pieces;
      }
    }

  // The best of them, improved by exchanges; then, while there is effort left, shuffled ones: where there are few
  // slots, that is little less than looking at everything.
  std::stable_sort(starts.begin(), starts.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::pair<double, Allocation> found = starts.front();
  std::uint64_t random = 1;
  for (std::size_t start = 0; computed < effort_ && most > 1; ++start)
  {
    Allocation begin = start < best_starts ? starts[start % starts.size()].second : found.second;
    if (start >= best_starts || start >= starts.size()) shuffle(begin, random);
    Order order(slots, delays_, model_, std::move(begin));
    const auto spent = [&] { return computed + order.computed(); };
    bool better = true;
    while (better && spent() < effort_)
    {
      better = false;
      for (std::size_t a = 0; a + 1 < order.allocation().size() && spent() < effort_; ++a)
        for (std::size_t b = a + 1; b < order.allocation().size() && spent() < effort_; ++b)
        {
          const Station one = order.allocation()[a], other = order.allocation()[b];
          if (one == other || (slots.count[one] < 2 && slots.count[other] < 2)) continue;
          ++candidates;
          better |= order.exchange(a, b);
        }
    }
    computed = spent();
    if (order.value() > found.first) found = { order.value(), order.allocation() };
  }
  return { found.second, candidates };
}

} // namespace tandem::rate
