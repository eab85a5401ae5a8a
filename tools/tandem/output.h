// What every command prints, and how.
#pragma once

#include <nlohmann/json.hpp>

#include <optional>
#include <string>

namespace tandem::cli
{

// With a line break at its end; `indent` below 0: on one line.
std::string pretty(const nlohmann::json& value, int indent = 2);

// Writes out what standard output still keeps, and says why it, or something before, could not be written; empty: the
// reader of a pipe has gone, which nobody is told.
std::optional<std::string> output_problem();

// To standard output, at once. Throws Failure when it cannot be written.
void print(const std::string& text);

} // namespace tandem::cli
