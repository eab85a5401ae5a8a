// Members of the daemon's answers, tolerant: what is missing or of another kind is nothing.
#pragma once

#include <nlohmann/json.hpp>

#include <optional>
#include <string>

namespace tandem::cli
{

// A finite number; nothing else.
std::optional<double> value_of(const nlohmann::json& object, const char* key);
// A string, printable; else empty.
std::string words_of(const nlohmann::json& object, const char* key);

} // namespace tandem::cli
