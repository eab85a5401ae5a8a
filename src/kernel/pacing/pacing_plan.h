// Bounds on how fast sockets of this host send, told to the keeper, and what became of them.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

namespace tandem::kernel
{

constexpr std::size_t most_paced = 64;          // sockets at a time
constexpr std::uint32_t pacing_unlimited = ~0u; // the kernel's own value of a socket that nobody has bounded

// The whole of what is wanted: a socket that is not in it has its own bound again.
struct PacingPlan
{
  std::map<std::uint64_t, std::uint32_t> rates {}; // bytes per second, by the socket's cookie

  bool operator==(const PacingPlan&) const = default;
};

// Throws std::invalid_argument: too many sockets, a rate of 0, which would stop the socket, or one that means "none".
void validate(const PacingPlan& plan);

struct PacingState
{
  std::string why {};         // why nothing can be paced; empty: it can
  std::string how {};         // SocketPacing::how()
  std::uint64_t paced = 0;    // sockets now
  std::uint64_t begun = 0;    // bounds that began
  std::uint64_t restored = 0; // that ended with the value before put back
  std::uint64_t gone = 0;     // that ended with their socket
  std::uint64_t lower = 0;    // not begun: the application's own bound is lower
  std::uint64_t taken = 0;    // that ended because the application has set another value since: it stays
  bool suspended = false;     // the packet loop hangs: all have their own values again
  std::string recovered {};   // what the start undid of a killed run; a sentence, or empty
  std::string last_error {};

  bool operator==(const PacingState&) const = default;
};

void to_json(nlohmann::json& json, const PacingPlan& plan);
void from_json(const nlohmann::json& json, PacingPlan& plan);
void to_json(nlohmann::json& json, const PacingState& state);
void from_json(const nlohmann::json& json, PacingState& state);

} // namespace tandem::kernel
