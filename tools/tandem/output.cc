#include "tools/tandem/output.h"

#include "tools/tandem/client.h"

#include <iostream>

namespace tandem::cli
{

using nlohmann::json;

std::string pretty(const json& value, int indent)
{
  return value.dump(indent, ' ', false, json::error_handler_t::replace) + '\n';
}

void print(const std::string& text)
{
  std::cout << text << std::flush;
  if (!std::cout) throw Failure { "the output cannot be written" };
}

} // namespace tandem::cli
