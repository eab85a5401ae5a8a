// The simulator's commands about rate policies: slots, round-trip times over them.
#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

namespace tandem::sim
{

// Each leaves what came of it in `result`.
void add_rate_commands(CLI::App& app, nlohmann::json& result);

} // namespace tandem::sim
