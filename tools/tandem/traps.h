// `tandem trap`: thresholds at which the daemon keeps what came before.
#pragma once

#include "tools/tandem/client.h"
#include "tools/tandem/table.h"

#include <nlohmann/json.hpp>

#include <functional>
#include <string>

namespace CLI
{
class App;
}

namespace tandem::cli
{

std::string show_traps(const nlohmann::json& traps, const Style& style);

// Adds the command. What is chosen is put into `chosen`; `as_json` is its flag.
void attach_traps(CLI::App& app, std::function<int(const Client&)>& chosen, bool& as_json);

} // namespace tandem::cli
