// `tandem module`, `set`, `enable`, `disable`, `saved`: switches and knobs, for this run and over restarts.
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

// Hangs them into `app`; `chosen` becomes the one that is asked for, `as_json` whether it prints JSON.
void attach_settings(CLI::App& app, std::function<int(const Client&)>& chosen, bool& as_json);

// Of GET /v1/saved.
std::string show_saved(const nlohmann::json& saved, const Style& style);

// Names go into a request's path. Throws Failure.
void need_name(const std::string& name, const char* what);

} // namespace tandem::cli
