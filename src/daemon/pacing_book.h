// What modules ask of this host's TCP on uploads, kept until it lapses, and the plan that follows. Pure.
#pragma once

#include "src/chain/output.h"
#include "src/kernel/pacing/pacing_plan.h"

#include <tandem/plan.h>
#include <tandem/units.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

namespace tandem::daemon
{

class PacingBook
{
public:
  // Which socket a flow is; nothing: none of this host's, as far as is known.
  using Find = std::function<std::optional<std::uint64_t>(const FlowKey&)>;

  // Of two modules the lower rate holds.
  void take(const chain::PaceRequest& request, Tick now, const Find& find);
  void lapse(std::uint8_t slot); // the module is off

  // The plan that the keeper is to be told now, if any; it counts as told. Call every 100 ms while settled() is false.
  std::optional<kernel::PacingPlan> due(Tick now);
  // What due() gave last did not reach the keeper: the next due() gives the plan of then.
  void not_sent() { told_.reset(); }
  bool settled() const { return entries_.empty() && told_ && told_->rates.empty(); }

  std::uint64_t asked() const { return asked_; }         // paces, repetitions among them
  std::uint64_t not_found() const { return not_found_; } // flows whose socket the kernel did not tell
  std::uint64_t too_many() const { return too_many_; }

private:
  struct Entry
  {
    std::uint64_t cookie = 0;
    std::uint8_t slot = 0;
    std::uint32_t rate = 0; // bytes per second
    Tick until {};
  };

  std::vector<Entry> entries_ {};
  std::optional<kernel::PacingPlan> told_ { kernel::PacingPlan {} }; // nothing: not known what the keeper has
  std::uint64_t asked_ = 0, not_found_ = 0, too_many_ = 0;
};

} // namespace tandem::daemon
