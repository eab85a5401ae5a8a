// Uploads whose pace modules bound: whose sockets they are, and what the keeper is told (docs/decisions/0032).
#include "src/daemon/packet_loop.h"
#include "src/kernel/clock.h"

#include <optional>
#include <vector>

namespace tandem::daemon
{

void PacketLoop::take_paces(const std::vector<chain::PaceRequest>& paces)
{
  const auto find = [this](const FlowKey& flow) -> std::optional<std::uint64_t>
  {
    const auto owner = owner_of(flow);
    return owner && owner->cookie != 0 ? std::optional { owner->cookie } : std::nullopt;
  };
  for (const chain::PaceRequest& one : paces)
    pacing_.take(one, kernel::now(), find);
  if (!paces.empty()) steer_soon();
}

void PacketLoop::pace()
{
  if (const auto plan = pacing_.due(kernel::now()))
    if (!keeper_.post_pacing(*plan)) pacing_.not_sent();
}

} // namespace tandem::daemon
