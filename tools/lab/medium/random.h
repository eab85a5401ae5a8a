// Seeded randomness with a fixed algorithm, so that one seed gives the same air on every machine and library version.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

namespace tandem::medium
{

// xoshiro256++ (Blackman and Vigna, "Scrambled linear pseudorandom number generators", 2021), seeded through
// splitmix64. The distributions are spelled out here because the standard leaves theirs to the library.
class Random
{
public:
  // Two generators with the same seed and different `stream` are independent: each consumer draws from its own, so that
  // switching one effect on does not shift the draws of another.
  explicit Random(std::uint64_t seed, std::uint64_t stream = 0)
  {
    std::uint64_t mix = seed ^ (stream * 0xd1342543de82ef95u + 0x2545f4914f6cdd1du);
    for (auto& word : state_)
    {
      mix += 0x9e3779b97f4a7c15u;
      std::uint64_t z = mix;
      z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
      z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
      word = z ^ (z >> 31);
    }
  }

  std::uint64_t bits()
  {
    const std::uint64_t result = rotate(state_[0] + state_[3], 23) + state_[0];
    const std::uint64_t shifted = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= shifted;
    state_[3] = rotate(state_[3], 45);
    return result;
  }

  // Uniform in [0, 1).
  double uniform() { return static_cast<double>(bits() >> 11) * 0x1p-53; }

  // Uniform in 0 .. limit, both included (Lemire's multiply-shift; the bias of 2^-32 is far below what a run can show).
  std::uint32_t up_to(std::uint32_t limit)
  {
    return static_cast<std::uint32_t>(((bits() >> 32) * (static_cast<std::uint64_t>(limit) + 1)) >> 32);
  }

  // True with probability p; draws nothing when the answer is certain.
  bool chance(double p)
  {
    if (p <= 0) return false;
    return p >= 1 || uniform() < p;
  }

  // Exponentially distributed with the given mean.
  double exponential(double mean) { return -mean * std::log1p(-uniform()); }
  // With mean 0 and deviation 1 (Box and Muller, 1958).
  double normal()
  {
    const double radius = std::sqrt(2 * exponential(1));
    return radius * std::cos(2 * std::numbers::pi * uniform());
  }

private:
  static std::uint64_t rotate(std::uint64_t x, int k) { return (x << k) | (x >> (64 - k)); }

  std::uint64_t state_[4] {};
};

} // namespace tandem::medium
