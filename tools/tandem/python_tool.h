// The parts that are Python programs with command lines of their own: the lab, the benches, the paired evaluation.
#pragma once

#include <string>
#include <vector>

namespace tandem::cli
{

// Becomes TOOL/TOOL.py with these arguments, behind `action` when there is one. Throws Failure when it is not
// installed.
[[noreturn]] void become_python(const std::string& tool, const std::vector<std::string>& arguments,
                                const std::string& action = {});

} // namespace tandem::cli
