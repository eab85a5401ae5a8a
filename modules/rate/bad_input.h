// What a rate policy cannot work with.
#pragma once

#include <stdexcept>

namespace tandem::rate
{

// Its text says which value, why, and what is allowed.
struct BadInput : std::invalid_argument
{
  using std::invalid_argument::invalid_argument;
};

} // namespace tandem::rate
