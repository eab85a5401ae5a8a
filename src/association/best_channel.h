// Channel switching, ours for one download: where the radio is the limit, time on a worse channel only costs, and what
// waits at its access point holds up the connection. All channels are compared now and then; in between the card stays
// on the best one, and the subflows by the others are backups.
#pragma once

#include "src/association/channel_slots.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace tandem::association
{

class BestChannel
{
public:
  struct Config
  {
    Duration cycle = longest_cycle;
    std::uint32_t compare = 5; // cycles with equal slots
    std::uint32_t drain = 15;  // cycles at most in which the others' access points deliver what they still have
    std::uint32_t stay =
        100; // cycles on the best channel; doubled when the comparison gave the same one, up to `longest_stay`
    std::uint32_t longest_stay = 400;
    double much_worse = 0.6; // of what the best one brought: compare at once
  };
  // What a channel brought in the last cycle.
  struct Visit
  {
    double bytes = 0;
    Duration receiving {}; // without the costs of switching
  };
  struct Plan
  {
    std::vector<Duration> slots; // 0: not visited
    std::vector<bool> backup;    // MP_PRIO of each channel's subflow
    std::string_view why;        // literal
  };

  BestChannel() = default;
  explicit BestChannel(const Config& config) : config_(config) {}

  // The next cycle. Throws std::invalid_argument as channel_slots() does.
  Plan next(std::span<const Visit> visits);
  std::size_t best() const { return best_; }

private:
  enum class Stage : std::uint8_t
  {
    compare,
    drain,
    stay,
  };
  void begin(Stage stage);

  Config config_ {};
  Stage stage_ = Stage::compare;
  std::uint32_t cycles_ = 0; // in this stage
  std::uint32_t stay_ = 0;   // how long this time
  std::size_t best_ = 0;
  double known_ = 0;   // bytes/s that the best one brought, smoothed
  bool found_ = false; // best_ says something
  std::vector<Visit> sums_;
};

} // namespace tandem::association
