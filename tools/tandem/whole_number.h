// Checks of numbers on the command line.
#pragma once

#include <CLI/CLI.hpp>

#include <algorithm>
#include <string>

namespace tandem::cli
{

// CLI11's own would name the largest floating-point number, digit by digit, as the end of its range.
inline CLI::Validator whole_number_from_1()
{
  return { [](const std::string& text)
           {
             const bool digits =
                 !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
             return digits && text.find_first_not_of('0') != std::string::npos
                        ? std::string {}
                        : text + ": a whole number from 1 is needed";
           },
           "from 1" };
}

} // namespace tandem::cli
