// A check of numbers on the command line.
#pragma once

#include <CLI/CLI.hpp>

#include <cmath>
#include <cstdlib>
#include <string>

namespace tandem::cli
{

// Beside CLI::Range, which lets "nan" pass: it is neither below nor above.
inline CLI::Validator no_nan()
{
  return { [](const std::string& text)
           { return std::isnan(std::strtod(text.c_str(), nullptr)) ? text + ": a number is needed" : std::string {}; },
           "" };
}

} // namespace tandem::cli
