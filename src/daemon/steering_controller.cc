#include "src/daemon/steering_controller.h"

#include <utility>

namespace tandem::daemon
{

using namespace std::chrono_literals;

void SteeringController::take(const chain::ModuleRequest& request)
{
  ++taken_;
  requests_.take(request.request, request.slot, request.why);
}

void SteeringController::links_changed(const links::LinkTable& table)
{
  for (const Link link : all_links)
    if (!table[link].present()) requests_.gone(link);
}

bool SteeringController::look(std::uint8_t slot, const chain::Chain::ModuleStats& module, Tick now)
{
  constexpr Duration timeout = 5s;
  Requester& its = requesters_[slot];
  if (module.flows > 0) its.flowless = now;
  const bool failed = std::exchange(its.excluded, module.excluded) != module.excluded;
  if (!requests_.any(slot)) return false;
  if (failed) requests_.lapse(slot);
  requests_.suspend(slot, now - its.flowless >= timeout);
  return true;
}

std::optional<kernel::SteeringPlan> SteeringController::due(const links::LinkTable& table, Tick now)
{
  constexpr Duration apart = 95ms;
  requests_.advance(now);
  kernel::SteeringPlan wanted = requests_.plan(table, cell_, away_);
  const bool changed = wanted != told_;
  told_newest_ = !changed || now - told_at_ >= apart;
  if (!changed || !told_newest_) return {};
  told_at_ = now;
  told_ = wanted;
  return wanted;
}

bool SteeringController::again(const kernel::SteeringState& state, Tick now)
{
  constexpr Duration pause = 60s;
  const bool all_done = state.refused.empty() && state.last_error.empty();
  if (all_done || !settled() || now - told_at_ < pause) return false;
  not_sent();
  return true;
}

KeeperChange compare(const kernel::KeeperState& before, const kernel::KeeperState& after)
{
  KeeperChange change {};
  change.steering_only =
      (before.steering != after.steering || before.placement != after.placement || before.pacing != after.pacing)
      && before.phase == after.phase && before.route.v4 == after.route.v4 && before.route.v6 == after.route.v6
      && before.last_error == after.last_error && before.restored == after.restored;
  if (after.restored != before.restored)
    change.warnings.emplace_back("another program took rules of Tandem's away; they are back");
  const auto tell = [&change](const std::string& was, const std::string& is, const char* what = "steering: ")
  {
    if (was != is && !is.empty()) change.warnings.push_back(what + is);
  };
  tell(before.steering.mptcp_why, after.steering.mptcp_why);
  tell(before.steering.last_error, after.steering.last_error);
  tell(before.steering.recovered, after.steering.recovered);
  tell(before.placement.why, after.placement.why, "new connections are not placed: ");
  tell(before.placement.last_error, after.placement.last_error, "placed connections: ");
  tell(before.pacing.last_error, after.pacing.last_error, "uploads are not paced: ");
  tell(before.pacing.recovered, after.pacing.recovered, "pacing: ");
  if (after.steering.ce_backend.empty()) tell(before.steering.ce_why, after.steering.ce_why);
  return change;
}

} // namespace tandem::daemon
