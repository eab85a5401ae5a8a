// How the tables of a scenario file are read.
#pragma once

#include "tools/lab/emulator/settings.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::lab
{

// Hands `take_value` the value of a key, if the table has it.
template <typename Take>
void with(const toml::table& table, const std::string& where, std::string_view key, Take take_value)
{
  if (const toml::node* node = table.get(key)) take_value(Value(*node, where + "." + std::string(key)));
}

// Throws BadInput for the first key of the table that is not among `known`.
inline void refuse_unknown(const toml::table& table, const std::string& section,
                           const std::vector<std::string_view>& known)
{
  for (const auto& [key, node] : table)
    if (std::find(known.begin(), known.end(), key.str()) == known.end())
      unknown_key(node, section + ".", key.str(), known);
}

inline std::vector<std::string_view> joined(std::vector<std::string_view> a, const std::vector<std::string_view>& b)
{
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

} // namespace tandem::lab
