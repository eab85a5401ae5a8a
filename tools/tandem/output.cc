#include "tools/tandem/output.h"

#include "tools/tandem/client.h"

#include <cerrno>
#include <cstring>
#include <iostream>

namespace tandem::cli
{

using nlohmann::json;

std::string pretty(const json& value, int indent)
{
  return value.dump(indent, ' ', false, json::error_handler_t::replace) + '\n';
}

std::optional<std::string> output_problem()
{
  std::cout.flush();
  if (std::cout) return std::nullopt;
  if (errno == EPIPE) return ""; // SIGPIPE is ignored here, and whoever reads has had enough
  const std::string reason = errno == 0 ? "" : std::string { ": " } + std::strerror(errno);
  return "the output cannot be written" + reason;
}

void print(const std::string& text)
{
  std::cout << text;
  if (const auto problem = output_problem()) throw Failure { *problem };
}

} // namespace tandem::cli
