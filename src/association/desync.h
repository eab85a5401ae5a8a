// Many clients on the same channels without a word between them: each finds, from what it gets itself, times at which
// it is in nobody's way. Two designs.
#pragma once

#include <tandem/units.h>

#include <cstdint>
#include <span>
#include <vector>

namespace tandem::association
{

// Design 1: all channels in turn, in order of their frequency, in slots of C / K on the client's own clock: a switch
// that comes late does not move the next one. The time at which the cycle begins moves. Whoever gets less in the first
// part of its slots than in the second has somebody before it who leaves late, and begins later; whoever gets less in
// the second, earlier. Where all slots are alike that is DESYNC (Degesys et al., IPSN 2007) with goodput in place of
// messages: clients end up evenly spread over the cycle, which leaves no channel empty that could be used.
class PhaseShift
{
public:
  struct Config
  {
    double gain = 0.2;             // slots that the cycle moves when one part brought nothing
    double dead_band = 0.02;       // differences below it are noise
    std::uint32_t look_every = 10; // slots
  };

  // Slots of `cycle` / `channels`, C at most 200 ms. Throws std::invalid_argument for none, or slots below 10 ms.
  PhaseShift(std::uint32_t channels, Duration cycle);
  PhaseShift(std::uint32_t channels, Duration cycle, const Config& config);

  Duration slot() const { return slot_; }
  // A slot is over: bytes in its first and second half, and how long each was (a late switch takes from the first one).
  // Gives how much later (below 0: earlier) the next slots begin; commonly 0.
  struct Half
  {
    double bytes = 0;
    Duration time {};
  };
  Duration slot_over(const Half& first, const Half& second);

private:
  Config config_;
  Duration slot_;
  Half first_ {}, second_ {};
  std::uint32_t looked_ = 0;
};

// Design 2: no slots. A client stays where it is while it gets the whole channel, and else moves by chance, less and
// less likely the larger its share of the channel is. No switching costs and no waiting at access points, but one
// channel at a time.
class StayOrMove
{
public:
  struct Config
  {
    double whole = 0.9; // of the channel's capacity: nobody else is there
    double least_chance = 0.02, most_chance = 0.5;
    double patience = 50; // looks with the same share until the chance is the least one
  };

  StayOrMove(std::uint32_t channels, std::uint64_t seed);
  StayOrMove(std::uint32_t channels, std::uint64_t seed, const Config& config);

  // Since the last look the channel brought `share` of its capacity (0 to 1, as far as the client knows it). The
  // channel to be on from now on.
  std::uint32_t look(double share);
  std::uint32_t channel() const { return channel_; }

private:
  double uniform();

  std::uint32_t channels_;
  Config config_;
  std::uint64_t random_;
  std::uint32_t channel_;
  std::uint32_t looks_ = 0; // since the last move
};

} // namespace tandem::association
