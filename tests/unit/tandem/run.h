// Runs a program as a user would and keeps what it said.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

namespace tandem::test
{

struct Run
{
  int code = -1;
  std::string out;
  std::string err;
};

// `command` goes through the shell. Neither stream is a terminal.
inline Run run(const std::string& command)
{
  Run result;
  const std::string errors = "/tmp/tandem-test-stderr." + std::to_string(::getpid());
  FILE* pipe = ::popen(("( " + command + " ) 2>" + errors).c_str(), "r");
  if (!pipe) return result;
  char some[4096];
  for (std::size_t count = 0; (count = std::fread(some, 1, sizeof some, pipe)) > 0;)
    result.out.append(some, count);
  const int status = ::pclose(pipe);
  result.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  std::ifstream in { errors };
  result.err.assign(std::istreambuf_iterator<char> { in }, {});
  std::filesystem::remove(errors);
  return result;
}

} // namespace tandem::test
