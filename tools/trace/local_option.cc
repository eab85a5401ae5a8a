#include "tools/trace/local_option.h"

#include "tools/trace/bad_request.h"

#include <CLI/CLI.hpp>
#include <arpa/inet.h>

namespace tandem::trace_tool
{

void add_local_option(CLI::App& command, std::vector<std::string>& locals)
{
  command.add_option("--local", locals, "Addresses of the laptop, where the file does not tell")->delimiter(',');
}

std::vector<Address> addresses(const std::vector<std::string>& locals)
{
  std::vector<Address> found;
  for (const std::string& text : locals)
  {
    Address& one = found.emplace_back();
    one.v6 = text.find(':') != std::string::npos;
    if (inet_pton(one.v6 ? AF_INET6 : AF_INET, text.c_str(), one.bytes.data()) != 1)
      throw BadRequest { "--local " + text + ": an IPv4 or IPv6 address is needed" };
  }
  return found;
}

} // namespace tandem::trace_tool
