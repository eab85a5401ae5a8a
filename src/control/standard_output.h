// Whether what a program has said on standard output has been written.
#pragma once

#include <cerrno>
#include <cstring>
#include <iostream>
#include <string>

namespace tandem::control
{

// Writes out what is still kept, by stdio, too. False when that, or something before, cannot be written; errno has the
// reason.
inline bool output_written()
{
  std::cout.flush();
  return static_cast<bool>(std::cout);
}

// In words for a user, right after output_written() was false.
inline std::string output_fault()
{
  return "the output cannot be written" + (errno == 0 ? std::string {} : std::string { ": " } + std::strerror(errno));
}

// The exit code of a program whose answer is on standard output: 0, or 1 with words on standard error.
inline int written_out(const char* program)
{
  if (output_written()) return 0;
  std::cerr << program << ": " << output_fault() << '\n';
  return 1;
}

} // namespace tandem::control
