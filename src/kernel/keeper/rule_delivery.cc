#include "src/kernel/keeper/rule_delivery.h"

#include <algorithm>

namespace tandem::kernel
{

bool RuleDelivery::want(const RulePlan& plan)
{
  if (plan == wanted_) return false;
  wanted_ = plan;
  in_force_ = false;
  why_.clear();
  back_off_ = first_back_off;
  next_ = Tick::max();
  return true;
}

bool RuleDelivery::due(Tick now) const
{
  return now >= next_;
}

void RuleDelivery::posted(std::uint64_t ticket)
{
  ticket_ = ticket;
  next_ = Tick::max();
}

void RuleDelivery::answered(std::uint64_t ticket, const std::string& failure, Tick now)
{
  if (ticket != ticket_) return;
  why_ = failure;
  in_force_ = failure.empty();
  if (in_force_)
  {
    back_off_ = first_back_off;
    next_ = Tick::max();
    return;
  }
  next_ = now + back_off_;
  back_off_ = std::min(2 * back_off_, longest_back_off);
}

} // namespace tandem::kernel
