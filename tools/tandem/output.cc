#include "tools/tandem/output.h"

#include "src/control/standard_output.h"
#include "tools/tandem/client.h"

#include <cerrno>
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
  if (control::output_written()) return std::nullopt;
  return errno == EPIPE ? "" : control::output_fault(); // SIGPIPE is ignored here, and whoever reads has had enough
}

void print(const std::string& text)
{
  std::cout << text;
  if (const auto problem = output_problem()) throw Failure { *problem };
}

} // namespace tandem::cli
