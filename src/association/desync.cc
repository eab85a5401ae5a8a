#include "src/association/desync.h"

#include "src/association/channel_slots.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>

namespace tandem::association
{

PhaseShift::PhaseShift(std::uint32_t channels, Duration cycle) : PhaseShift(channels, cycle, Config {}) {}

PhaseShift::PhaseShift(std::uint32_t channels, Duration cycle, const Config& config) : config_(config)
{
  if (channels == 0) throw std::invalid_argument("no channel; one at least is needed");
  slot_ = cycle / channels;
  if (cycle > longest_cycle || slot_ < least_slot)
    throw std::invalid_argument(std::to_string(channels) + " slots in " + std::to_string(milliseconds(cycle))
                                + " ms; allowed: a cycle of at most 200 ms, slots from 10 ms");
}

Duration PhaseShift::slot_over(const Half& first, const Half& second)
{
  first_.bytes += first.bytes;
  first_.time += first.time;
  second_.bytes += second.bytes;
  second_.time += second.time;
  if (++looked_ < config_.look_every) return {};
  const double early = first_.time > Duration {} ? first_.bytes / seconds(first_.time) : 0;
  const double late = second_.time > Duration {} ? second_.bytes / seconds(second_.time) : 0;
  looked_ = 0;
  first_ = second_ = {};
  const double most = std::max(early, late);
  if (most <= 0) return {};
  const double difference = (late - early) / most;
  if (std::abs(difference) < config_.dead_band) return {};
  return from_seconds(config_.gain * difference * seconds(slot_));
}

StayOrMove::StayOrMove(std::uint32_t channels, std::uint64_t seed) : StayOrMove(channels, seed, Config {}) {}

StayOrMove::StayOrMove(std::uint32_t channels, std::uint64_t seed, const Config& config)
    : channels_(channels), config_(config), random_(seed)
{
  if (channels == 0) throw std::invalid_argument("no channel; one at least is needed");
  channel_ = static_cast<std::uint32_t>(uniform() * channels_);
}

double StayOrMove::uniform() // SplitMix64
{
  std::uint64_t z = random_ += 0x9E3779B97F4A7C15u;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
  z = (z ^ z >> 27) * 0x94D049BB133111EBu;
  return static_cast<double>((z ^ z >> 31) >> 11) * 0x1p-53;
}

std::uint32_t StayOrMove::look(double share)
{
  ++looks_;
  if (channels_ < 2 || share >= config_.whole) return channel_;
  // Right after a move much is tried; the longer nothing changes, the less.
  const double calm = std::min(1.0, looks_ / config_.patience);
  const double chance = config_.least_chance + (config_.most_chance - config_.least_chance) * (1 - share) * (1 - calm);
  if (uniform() >= chance) return channel_;
  channel_ = (channel_ + 1 + static_cast<std::uint32_t>(uniform() * (channels_ - 1))) % channels_;
  looks_ = 0;
  return channel_;
}

} // namespace tandem::association
