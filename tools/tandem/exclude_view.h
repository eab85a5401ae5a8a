// What is left alone, as text.
#pragma once

#include "tools/tandem/table.h"

#include <nlohmann/json.hpp>

#include <string>

namespace tandem::cli
{

// Of GET /v1/exclusions.
std::string show_exclusions(const nlohmann::json& exclusions, const Style& style);

// A line of the status, with the line break before it; nothing where nothing is excluded.
std::string excluded_line(const nlohmann::json& excluded, const Style& style);

// Likewise of routes that lead into tunnels; nothing where none does.
std::string tunnels_line(const nlohmann::json& tunnels);

} // namespace tandem::cli
