// Parts of the text of rules that every renderer writes.
#pragma once

#include <algorithm>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

namespace tandem::kernel::render
{

inline bool is_v6(const std::string& address)
{
  return address.find(':') != std::string::npos;
}

// Of addresses and networks, those of one IP version.
inline std::vector<std::string> of_version(const std::vector<std::string>& all, bool v6)
{
  std::vector<std::string> some;
  std::copy_if(all.begin(), all.end(), std::back_inserter(some), [&](const auto& a) { return is_v6(a) == v6; });
  return some;
}

// "22, 5060": what stands in the braces of a set.
template <class List>
std::string join(const List& list)
{
  std::ostringstream text;
  const char* comma = "";
  for (const auto& item : list)
  {
    text << comma << item;
    comma = ", ";
  }
  return text.str();
}

// The end of a table of nftables. With any hook that goes the kernel drops what waits in every queue
// (nf_queue_nf_hook_drop()): where hooks stay the table keeps its chains and counters, and only its rules go.
inline std::string nft_end_of(const std::string& table, bool hooks_stay)
{
  return (hooks_stay ? "flush table inet " : "delete table inet ") + table + "\n";
}

} // namespace tandem::kernel::render
