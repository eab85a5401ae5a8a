// Members of the daemon's answers, tolerant: what is missing or of another kind is nothing.
#pragma once

#include <nlohmann/json.hpp>

#include <optional>
#include <string>

namespace tandem::cli
{

// A member as it is; null when it is missing or `object` is none.
const nlohmann::json& member(const nlohmann::json& object, const char* key);
// A member that is an array, or an object; else an empty one.
const nlohmann::json& list(const nlohmann::json& object, const char* key);
const nlohmann::json& part(const nlohmann::json& object, const char* key);
// A finite number; nothing else.
std::optional<double> value_of(const nlohmann::json& object, const char* key);
// The same, with 0 for what is missing.
double number(const nlohmann::json& object, const char* key);
// A number with so many digits behind the point.
std::string fixed(double value, int digits);
// A span in seconds and a count of bytes as people write them; "-" for what is none.
std::string duration_of(double in_seconds);
std::string bytes_of(double count);
// A string, printable; else empty.
std::string words_of(const nlohmann::json& object, const char* key);

} // namespace tandem::cli
