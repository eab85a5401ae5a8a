#include "modules/rate/arrangements.h"

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <string>

namespace tandem::rate
{
namespace
{

constexpr double most_counted = 4.6e18; // 2^62

double choices(std::uint32_t n, std::uint32_t k)
{
  double product = 1;
  for (std::uint32_t i = 1; i <= k; ++i)
    product = product * (n - k + i) / i;
  return product;
}

void refuse(double count)
{
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", count);
  throw BadInput(std::string("an exhaustive search would go through ") + text + " allocations; at most "
                 + std::to_string(most_arrangements) + " are allowed: take another strategy, or fewer slots");
}

} // namespace

std::uint64_t arrangements(const Slots& slots)
{
  double product = 1;
  std::uint32_t left = slots.total();
  for (const std::uint32_t count : slots.count)
  {
    product = std::min(most_counted, product * choices(left, count));
    left -= count;
  }
  return static_cast<std::uint64_t>(product + 0.5);
}

void for_each_arrangement(const Slots& slots, const std::function<void(const Allocation&)>& use)
{
  if (const std::uint64_t count = arrangements(slots); count > most_arrangements) refuse(static_cast<double>(count));
  Allocation order;
  for (std::size_t i = 0; i < slots.stations(); ++i)
    order.insert(order.end(), slots.count[i], static_cast<Station>(i));
  do
    use(order);
  while (std::next_permutation(order.begin(), order.end()));
}

void for_each_choice(const std::vector<std::uint32_t>& from, std::uint32_t count,
                     const std::function<void(const std::vector<std::uint32_t>&)>& use)
{
  const auto n = static_cast<std::uint32_t>(from.size());
  if (const double many = choices(n, count); many > static_cast<double>(most_arrangements)) refuse(many);
  std::vector<std::uint32_t> index(count), chosen(count);
  std::iota(index.begin(), index.end(), 0u);
  while (true)
  {
    for (std::uint32_t i = 0; i < count; ++i)
      chosen[i] = from[index[i]];
    use(chosen);
    std::uint32_t i = count;
    while (i > 0 && index[i - 1] == n - count + i - 1)
      --i;
    if (i == 0) return;
    ++index[i - 1];
    for (; i < count; ++i)
      index[i] = index[i - 1] + 1;
  }
}

} // namespace tandem::rate
