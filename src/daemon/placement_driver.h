// Keeps what is known of the links for placing connections, and says when the keeper is to be told another plan.
#pragma once

#include "src/daemon/placement.h"
#include "src/kernel/keeper/keeper_state.h"

#include <nlohmann/json.hpp>

#include <array>
#include <cstdint>
#include <optional>

namespace tandem::daemon
{

class PlacementDriver
{
public:
  // What the keeper has counted, and what has arrived by each link's interface. Returns what was put on the cellular
  // link since the last call, in bytes.
  std::uint64_t counted(const kernel::PlacementState& state, const std::array<std::uint64_t, link_count>& arrived,
                        Tick now);

  // What is known of the link; `barred`: what else speaks against it; `away`: the card is mostly on another channel.
  LinkOutlook outlook(Link link, bool up, std::string barred, bool away, Tick now);

  // The plan that the keeper is to be told now, if any; it counts as told. `state`: what the keeper has told.
  std::optional<kernel::PlacementPlan> due(const PlacementInputs& inputs, const kernel::PlacementState& state,
                                           Tick now);
  // What due() gave last did not reach the keeper: the next due() gives it again.
  void not_sent() { unsent_ = true; }
  // Once a second.
  bool look_due(bool enabled, Tick now) const;

  const PlacementDecision& decision() const { return decision_; }
  nlohmann::json json(const Config::Placement& settings, const kernel::PlacementState& state) const;

private:
  std::array<LinkCapacity, link_count> capacity_ {};
  std::array<LinkTrial, link_count> trial_ {};
  std::array<std::optional<Duration>, link_count> rtt_ {};
  std::array<std::optional<Tick>, link_count> away_at_ {}; // last
  std::uint64_t cell_bytes_ = 0;
  PlacementDecision decision_ { .why = "switched off" };
  kernel::PlacementPlan told_ {};
  bool unsent_ = false;
  Tick looked_ {};
  Tick again_ {}; // when a plan that came to nothing is told again
};

// Whether the kernel drops what arrives by the interface for an address of another one (rp_filter 1, RFC 3704 strict).
bool filters_reverse_path(const std::string& interface);

} // namespace tandem::daemon
