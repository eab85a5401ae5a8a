// The option --local.
#pragma once

#include <tandem/segment.h>

#include <string>
#include <vector>

namespace CLI
{
class App;
}

namespace tandem::trace_tool
{

void add_local_option(CLI::App& command, std::vector<std::string>& locals);

// Throws BadRequest (bad_request.h).
std::vector<Address> addresses(const std::vector<std::string>& locals);

} // namespace tandem::trace_tool
