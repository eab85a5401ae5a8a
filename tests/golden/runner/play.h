// Plays a script on the real chain and modules and compares every plan.
#pragma once

#include "tests/golden/runner/script.h"

#include <string>
#include <vector>

namespace tandem::golden
{

// One sentence or small diff for each difference; empty when all is as written. Throws ScriptError.
std::vector<std::string> play(const Script& script);

} // namespace tandem::golden
