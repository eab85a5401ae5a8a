// The daemon's JSON as text for people. Pure; tolerant of missing or foreign members, since daemon and command line may
// be of different versions.
#pragma once

#include "tools/tandem/table.h"

#include <nlohmann/json.hpp>

#include <string>

namespace tandem::cli
{

std::string show_status(const nlohmann::json& status, const Style& style);
std::string show_modules(const nlohmann::json& modules, const Style& style);
// One module with its knobs and decisions.
std::string show_module(const nlohmann::json& module, const Style& style);
std::string show_flows(const nlohmann::json& flows, const Style& style);
std::string show_doctor(const nlohmann::json& doctor, const Style& style);

} // namespace tandem::cli
