// Finds the fetch service (src/fetch/interface.h): services/fetch.so in the directory of the modules.
#pragma once

#include "src/fetch/interface.h"

#include <filesystem>
#include <string>

namespace tandem::daemon
{

std::filesystem::path fetch_library(const std::filesystem::path& module_directory);

// Empty when it can be loaded as far as can be told without doing so, else a sentence.
std::string fetch_problem(const std::filesystem::path& module_directory);

// Loads it, with the checks that modules are loaded with. Null: then `problem` is a sentence.
//
// It is never unloaded: reasons that it gave are literals in it, and counters, flows and the flight recorder keep them.
// What ends when nobody wants to fetch any more is the service, with its thread, sockets and memory.
const fetch::ServiceEntry* load_fetch(const std::filesystem::path& module_directory, std::string& problem);

} // namespace tandem::daemon
