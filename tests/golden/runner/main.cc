// golden_runner FILE...: exit 0 when every script is as written, 1 when a plan differs, 2 when a script cannot be read.
#include "tests/golden/runner/play.h"
#include "tests/golden/runner/script.h"

#include <cstdio>
#include <exception>
#include <span>

int main(int argc, char** argv)
{
  if (argc < 2)
  {
    std::fputs("usage: golden_runner FILE.seg...\n", stderr);
    return 2;
  }
  int status = 0;
  for (const char* file : std::span { argv + 1, static_cast<std::size_t>(argc - 1) })
  {
    try
    {
      const auto differences = tandem::golden::play(tandem::golden::read_script(file));
      for (const std::string& one : differences)
        std::printf("%s\n", one.c_str());
      std::printf("%s: %s\n", file, differences.empty() ? "as written" : "DIFFERS (- as written, + as it was)");
      if (!differences.empty() && status == 0) status = 1;
    }
    catch (const std::exception& error)
    {
      std::fprintf(stderr, "%s\n", error.what());
      status = 2;
    }
  }
  return status;
}
