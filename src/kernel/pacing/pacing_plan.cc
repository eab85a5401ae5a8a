#include "src/kernel/pacing/pacing_plan.h"

#include "src/kernel/json_fields.h"

#include <nlohmann/json.hpp>

#include <stdexcept>

namespace tandem::kernel
{

void validate(const PacingPlan& plan)
{
  if (plan.rates.size() > most_paced)
    throw std::invalid_argument { "pacing of " + std::to_string(plan.rates.size()) + " sockets: at most "
                                  + std::to_string(most_paced) + " are allowed" };
  for (const auto& [cookie, rate] : plan.rates)
    if (cookie == 0 || rate == 0 || rate == pacing_unlimited)
      throw std::invalid_argument { "pacing of socket " + std::to_string(cookie) + " to " + std::to_string(rate)
                                    + " bytes/s is not allowed: 1 to 4294967294 of a known socket" };
}

TANDEM_JSON_FIELDS(PacingPlan, rates)
TANDEM_JSON_FIELDS(PacingState, why, how, paced, begun, restored, gone, lower, taken, suspended, recovered, last_error)

} // namespace tandem::kernel
