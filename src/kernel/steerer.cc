#include "src/kernel/steerer.h"

#include "src/kernel/ce_rules.h"

#include <algorithm>
#include <optional>

namespace tandem::kernel
{

struct Steerer::Parts
{
  std::string file {};
  std::optional<CeMarker> marker {};
  SteeringPlan plan {};
  SteeringState state {};

  void mark(const std::vector<CeRule>& wanted)
  {
    std::vector<CeRule> rules {};
    std::copy_if(wanted.begin(), wanted.end(), std::back_inserter(rules),
                 [](const CeRule& rule) { return render::ce_millionths(rule.rate, 1) > 0; });
    if (rules == state.ce) return;
    if (!marker) marker.emplace();
    state.ce_backend = marker->backend();
    state.ce_why = marker->why();
    if (std::string reason = marker->apply(rules); !reason.empty())
    {
      for (const CeRule& rule : rules)
        state.refused.push_back({ "CE marks on " + rule.interface, reason });
      return;
    }
    state.ce = rules;
    ++state.ce_changes;
  }
};

Steerer::Steerer(const std::string& file) : parts_ { std::make_unique<Parts>() }
{
  parts_->file = file;
  clear(file);
}

Steerer::~Steerer()
{
  parts_->mark({});
}

void Steerer::carry_out(const SteeringPlan& plan)
{
  validate(plan);
  Parts& p = *parts_;
  p.plan = plan;
  p.state.suspended = false;
  p.state.refused.clear();
  p.state.last_error.clear();
  p.mark(plan.ce);
  ++p.state.plans;
}

bool Steerer::in_force() const
{
  return !parts_->state.ce.empty();
}

void Steerer::suspend()
{
  parts_->mark({});
  parts_->state.suspended = true;
}

void Steerer::resume()
{
  carry_out(parts_->plan);
}

const SteeringState& Steerer::state() const
{
  return parts_->state;
}

void Steerer::clear(const std::string&) noexcept
{
  CeMarker::clear();
}

} // namespace tandem::kernel
