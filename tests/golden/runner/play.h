// Plays a script on the real chain and modules and compares every plan.
#pragma once

#include "tests/golden/runner/script.h"

#include <string>
#include <vector>

namespace tandem::golden
{

// One sentence or small diff for each difference; empty when all is as written. `libraries`: modules that a script may
// name beside those that are built into the runner. Throws ScriptError, or std::runtime_error for a library.
std::vector<std::string> play(const Script& script, const std::vector<std::string>& libraries = {});

} // namespace tandem::golden
