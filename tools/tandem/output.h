// What every command prints, and how.
#pragma once

#include <nlohmann/json.hpp>

#include <string>

namespace tandem::cli
{

// With a line break at its end; `indent` below 0: on one line.
std::string pretty(const nlohmann::json& value, int indent = 2);

// To standard output, at once. Throws Failure when it cannot be written.
void print(const std::string& text);

} // namespace tandem::cli
