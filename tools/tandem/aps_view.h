// Access points as a table. Pure text.
#pragma once

#include "tools/tandem/table.h"

#include <nlohmann/json.hpp>

#include <string>

namespace tandem::cli
{

std::string show_aps(const nlohmann::json& aps, const Style& style);

} // namespace tandem::cli
