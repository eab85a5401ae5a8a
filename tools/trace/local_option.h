// The option --local, and what is wrong with options.
#pragma once

#include <tandem/segment.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace CLI
{
class App;
}

namespace tandem::trace_tool
{

// What was asked for is not possible, in words for the user: exit code 2.
class BadRequest : public std::runtime_error
{
public:
  using std::runtime_error::runtime_error;
};

void add_local_option(CLI::App& command, std::vector<std::string>& locals);

// Throws BadRequest.
std::vector<Address> addresses(const std::vector<std::string>& locals);

} // namespace tandem::trace_tool
