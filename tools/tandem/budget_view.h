// What was put on the cellular link, as text for people. Pure; tolerant of missing members.
#pragma once

#include "tools/tandem/table.h"

#include <nlohmann/json.hpp>

#include <string>

namespace tandem::cli
{

std::string show_budget(const nlohmann::json& budget, const Style& style);

} // namespace tandem::cli
