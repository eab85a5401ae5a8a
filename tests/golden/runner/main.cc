// golden_runner [--module FILE.so]... FILE.seg...: exit 0 when every script is as written, 1 when a plan differs, 2
// when a script or a module cannot be read.
#include "tests/golden/runner/play.h"
#include "tests/golden/runner/script.h"

#include <cstdio>
#include <exception>
#include <string>
#include <vector>

int main(int argc, char** argv)
{
  std::vector<std::string> libraries, files;
  const std::vector<std::string> words { argv + 1, argv + argc };
  for (std::size_t i = 0; i < words.size(); ++i)
    if (words[i] != "--module")
      files.push_back(words[i]);
    else if (i + 1 < words.size())
      libraries.push_back(words[++i]);
  if (files.empty())
  {
    std::fputs("usage: golden_runner [--module FILE.so]... FILE.seg...\n", stderr);
    return 2;
  }
  int status = 0;
  for (const std::string& file : files)
  {
    try
    {
      const auto differences = tandem::golden::play(tandem::golden::read_script(file), libraries);
      for (const std::string& one : differences)
        std::printf("%s\n", one.c_str());
      std::printf("%s: %s\n", file.c_str(), differences.empty() ? "as written" : "DIFFERS (- as written, + as it was)");
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
