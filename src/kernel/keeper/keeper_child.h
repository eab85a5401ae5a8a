// The keeper's own process: see keeper.h.
#pragma once

#include "src/kernel/keeper/keeper_state.h"

#include <atomic>
#include <cstdint>

namespace tandem::kernel
{

// Serves `socket` until its other end closes, undoes everything and ends the process.
[[noreturn]] void run_keeper(int socket, const std::atomic<std::uint64_t>& heartbeat, const KeeperOptions& options,
                             const RoutePlan& stale) noexcept;

} // namespace tandem::kernel
