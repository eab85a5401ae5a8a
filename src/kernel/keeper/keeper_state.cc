#include "src/kernel/keeper/keeper_state.h"

#include <nlohmann/json.hpp>

namespace tandem::kernel
{

using nlohmann::json;

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RouteState, v4, v6, gateway_v4, gateway_v6, lower)

void to_json(json& out, const KeeperState& state)
{
  out = { { "phase", static_cast<int>(state.phase) },
          { "watching", state.watching },
          { "since", state.since.time_since_epoch().count() },
          { "suspensions", state.suspensions },
          { "suspended_total", state.suspended_total.count() },
          { "applied", state.applied },
          { "restored", state.restored },
          { "backend", state.backend },
          { "why", state.why },
          { "route", state.route },
          { "steering", state.steering },
          { "placement", state.placement },
          { "pacing", state.pacing },
          { "last_error", state.last_error } };
}

void from_json(const json& in, KeeperState& state)
{
  state.phase = static_cast<KeeperState::Phase>(in.at("phase").get<int>());
  state.watching = in.at("watching");
  state.since = Tick { Duration { in.at("since").get<std::int64_t>() } };
  state.suspensions = in.at("suspensions");
  state.suspended_total = Duration { in.at("suspended_total").get<std::int64_t>() };
  state.applied = in.at("applied");
  state.restored = in.at("restored");
  state.backend = in.at("backend");
  state.why = in.at("why");
  state.route = in.at("route");
  state.steering = in.at("steering");
  state.placement = in.at("placement");
  state.pacing = in.at("pacing");
  state.last_error = in.at("last_error");
}

} // namespace tandem::kernel
