// What was learnt of networks, as text for people. Pure; tolerant of missing members.
#pragma once

#include "tools/tandem/table.h"

#include <nlohmann/json.hpp>

#include <string>

namespace tandem::cli
{

// What a module gains, from its `evidence`: "+3.1 % (-0.5 to +6.9)"; or why that is never asked.
std::string gain_words(const nlohmann::json& evidence);
// Its standing, when that is another than acting: "rests for 2 h"; else empty.
std::string standing_words(const nlohmann::json& evidence);

std::string show_networks(const nlohmann::json& networks, const Style& style);
// One line of the status: where we are and how much is compared. Empty while nothing is.
std::string evidence_line(const nlohmann::json& evidence);

} // namespace tandem::cli
