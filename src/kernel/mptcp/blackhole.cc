#include "src/kernel/mptcp/blackhole.h"

#include <charconv>
#include <fstream>
#include <iterator>
#include <sstream>

namespace tandem::kernel
{

// Two lines a group: the names, then the values in their order.
std::uint64_t netstat_value(std::string_view text, std::string_view group, std::string_view name)
{
  std::istringstream lines { std::string { text } };
  for (std::string names {}, values {}; std::getline(lines, names) && std::getline(lines, values);)
  {
    if (!names.starts_with(group)) continue;
    std::istringstream name_words { names }, value_words { values };
    std::string word {}, value {};
    while (name_words >> word && value_words >> value)
      if (word == name)
      {
        std::uint64_t number = 0;
        std::from_chars(value.data(), value.data() + value.size(), number);
        return number;
      }
  }
  return 0;
}

std::uint64_t mptcp_blackholes(const std::string& netstat)
{
  std::ifstream file { netstat };
  const std::string text { std::istreambuf_iterator<char> { file }, {} };
  return netstat_value(text, "MPTcpExt:", "Blackhole");
}

} // namespace tandem::kernel
