#include "tools/tandem/python_tool.h"

#include "src/daemon/layout.h"
#include "tools/tandem/client.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <string_view>

namespace tandem::cli
{

int own_words(int argc, char** argv)
{
  for (int i = 1; i < argc; ++i)
  {
    const std::string_view word { argv[i] };
    if (word == "--socket")
      ++i;
    else if (!word.starts_with('-'))
      return std::ranges::any_of(python_tools, [&](const auto& tool) { return word == tool.first; }) ? i + 1 : argc;
  }
  return argc;
}

[[noreturn]] void become_python(const std::string& tool, const std::vector<std::string>& arguments,
                                const std::string& action)
{
  // For those that ask this very program.
  ::setenv("TANDEM_PROGRAM", (program_directory() / "tandem").c_str(), 1);
  const auto script = tool_dir() / tool / (tool + ".py");
  std::error_code fault;
  if (!std::filesystem::exists(script, fault))
    throw Failure { "`tandem " + tool + (action.empty() ? "" : " " + action) + "` is not part of this installation (no "
                    + script.string() + ")" };
  std::vector<std::string> words { "/usr/bin/python3", script.string() };
  if (!action.empty()) words.push_back(action);
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> list;
  for (std::string& word : words)
    list.push_back(word.data());
  list.push_back(nullptr);
  std::cout.flush();
  ::execv(list[0], list.data());
  throw Failure { words[0] + ": " + std::strerror(errno) + "; install the package python3" };
}

} // namespace tandem::cli
