#pragma once

#include <stdexcept>

namespace tandem::trace_tool
{

// What was asked for is not possible, in words for the user: exit code 2.
class BadRequest : public std::runtime_error
{
public:
  using std::runtime_error::runtime_error;
};

} // namespace tandem::trace_tool
