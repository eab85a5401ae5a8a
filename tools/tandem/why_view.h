// Why one connection is treated as it is, in sentences. Pure; tolerant of missing members.
#pragma once

#include "tools/tandem/table.h"

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace tandem::cli
{

// A server as the user names it: its addresses as text, and a port (0: any).
struct Peer
{
  std::string name;
  std::vector<std::string> addresses;
  std::uint16_t port = 0;
};

// The flows of /v1/flows to that server, the fastest first.
std::vector<nlohmann::json> flows_to(const Peer& peer, const nlohmann::json& flows);
// What is done to them, by which module and why. `modules` is the answer of /v1/modules.
std::string explain_flows(const std::vector<nlohmann::json>& flows, const nlohmann::json& modules, const Style& style);

} // namespace tandem::cli
