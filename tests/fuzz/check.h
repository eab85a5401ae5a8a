// What a fuzz entry point calls when a property does not hold: abort, so that libFuzzer and the replay keep the input.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace tandem::fuzz
{

inline void check(bool holds, const char* what)
{
  if (holds) return;
  std::fprintf(stderr, "property broken: %s\n", what);
  std::abort();
}

} // namespace tandem::fuzz
