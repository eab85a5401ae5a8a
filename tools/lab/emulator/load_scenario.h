// From a scenario file to a Scenario.
#pragma once

#include "tools/lab/emulator/scenario.h"

#include <filesystem>
#include <string>
#include <vector>

namespace tandem::lab
{

// Reads a scenario. `overrides` are SECTION.KEY=VALUE texts (--set); a key of server, ap or station goes to each of
// them. Profiles (NAME.toml) are looked up in `profile_dirs`, or beside the scenario when the name has a '/'. Throws
// BadInput with every mistake, one a line.
Scenario load_scenario(const std::filesystem::path& file, const std::vector<std::string>& overrides,
                       const std::vector<std::filesystem::path>& profile_dirs);

} // namespace tandem::lab
