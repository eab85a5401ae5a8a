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
// Why a module that is on does not reach packets yet; empty when it does, is off, or the daemon does not say.
std::string not_in_force(const nlohmann::json& module);
// One module with its knobs and decisions.
std::string show_module(const nlohmann::json& module, const Style& style);
std::string show_flows(const nlohmann::json& flows, const Style& style);
// How a link is steered: {ce_rate, ce_rate_requested, backup_requested, endpoint_requested, roam_requested} of the
// status.
std::string steering_words(const nlohmann::json& steering);
// The endpoints of the kernel's MPTCP, and what is not carried out and why. Empty when there is nothing to say.
std::string show_steering(const nlohmann::json& steering, const Style& style);
std::string show_doctor(const nlohmann::json& doctor, const Style& style);

} // namespace tandem::cli
