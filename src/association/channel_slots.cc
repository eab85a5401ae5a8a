#include "src/association/channel_slots.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

namespace tandem::association
{

std::vector<Duration> channel_slots(std::span<const double> measured, double alpha, Duration cycle, Duration least)
{
  const std::size_t count = measured.size();
  if (count == 0) throw std::invalid_argument("no channel; one at least is needed");
  if (!(alpha >= 0) || !std::isfinite(alpha))
    throw std::invalid_argument("an alpha of " + std::to_string(alpha) + "; allowed: from 0");
  if (cycle > longest_cycle || cycle <= Duration {})
    throw std::invalid_argument("a cycle of " + std::to_string(milliseconds(cycle))
                                + " ms; allowed: above 0, at most 200 ms, or senders time out meanwhile");
  if (least < Duration {} || least * count > cycle)
    throw std::invalid_argument(std::to_string(count) + " slots of " + std::to_string(milliseconds(least))
                                + " ms do not fit into " + std::to_string(milliseconds(cycle))
                                + " ms: leave channels out");
  const double most = *std::max_element(measured.begin(), measured.end());
  std::vector<double> shares(count, 1.0);
  for (std::size_t i = 0; i < count; ++i)
  {
    if (!(measured[i] >= 0) || !std::isfinite(measured[i]))
      throw std::invalid_argument("channel " + std::to_string(i + 1) + " brought " + std::to_string(measured[i])
                                  + "; allowed: from 0");
    if (most > 0) shares[i] = std::pow(measured[i] / most, alpha); // by the largest: no power overflows
  }

  // Slots that would be too short are set to the least one, and the rest of the cycle is divided again.
  std::vector<Duration> slots(count, least);
  std::vector<bool> fixed(count, false);
  while (true)
  {
    double sum = 0;
    Duration rest = cycle;
    for (std::size_t i = 0; i < count; ++i)
      if (fixed[i])
        rest -= least;
      else
        sum += shares[i];
    bool again = false;
    for (std::size_t i = 0; i < count; ++i)
    {
      if (fixed[i]) continue;
      slots[i] = from_seconds(seconds(rest) * shares[i] / sum);
      if (slots[i] < least)
      {
        slots[i] = least;
        fixed[i] = again = true;
      }
    }
    if (!again) return slots;
  }
}

} // namespace tandem::association
