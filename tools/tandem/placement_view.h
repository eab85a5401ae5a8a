// Where new connections are placed, as text for people. Pure; tolerant of missing members.
#pragma once

#include "tools/tandem/table.h"

#include <nlohmann/json.hpp>

#include <string>

namespace tandem::cli
{

// Nothing when it is off and nothing of it is left.
std::string show_placement(const nlohmann::json& placement, const Style& style);

} // namespace tandem::cli
