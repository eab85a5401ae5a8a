// The keeper's own process: see keeper.h.
#pragma once

#include "src/kernel/keeper.h"

#include <atomic>
#include <cstdint>

namespace tandem::kernel
{

constexpr std::size_t keeper_message_limit = 64 * 1024; // bytes of one command or answer

void to_json(nlohmann::json& out, const KeeperState& state);
void from_json(const nlohmann::json& in, KeeperState& state);

// Serves `socket` until its other end closes, undoes everything and ends the process.
[[noreturn]] void run_keeper(int socket, const std::atomic<std::uint64_t>& heartbeat, const KeeperOptions& options,
                             const RoutePlan& stale) noexcept;

} // namespace tandem::kernel
