// Whether the rules that are wanted are those in force, and when a plan that failed is tried again. Pure.
#pragma once

#include "src/kernel/rules/rules.h"

#include <tandem/units.h>

#include <chrono>
#include <cstdint>
#include <string>

namespace tandem::kernel
{

class RuleDelivery
{
public:
  // The first pause after a failure; each further failure of the same plan doubles it.
  static constexpr Duration first_back_off = std::chrono::seconds { 1 };
  static constexpr Duration longest_back_off = std::chrono::seconds { 60 };

  // Takes over what shall be in force. True when it differs from what was wanted before: post it now.
  bool want(const RulePlan& plan);
  // The wanted plan failed and its pause is over: post it again.
  bool due(Tick now) const;
  // It left under this ticket (Keeper::post_apply).
  void posted(std::uint64_t ticket);
  // How that ended; an empty reason: the plan is in force. An answer to an earlier ticket does not concern this plan.
  void answered(std::uint64_t ticket, const std::string& failure, Tick now);

  const RulePlan& wanted() const { return wanted_; }
  // The plan that the keeper acknowledged last is the one that is wanted, and no other has left since.
  bool in_force() const { return in_force_; }
  // Why not: the reason of the last failure; empty while the answer is awaited.
  const std::string& why() const { return why_; }
  // Until it is tried again; nothing to wait for: Tick::max().
  Tick next() const { return next_; }

private:
  RulePlan wanted_ {};
  bool in_force_ = true; // no rules before the first plan
  std::uint64_t ticket_ = 0;
  std::string why_ {};
  Duration back_off_ = first_back_off;
  Tick next_ = Tick::max();
};

} // namespace tandem::kernel
