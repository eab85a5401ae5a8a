#include "src/control/nearest.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace tandem
{
namespace
{

// Levenshtein's, one row at a time.
std::size_t edit_distance(std::string_view a, std::string_view b)
{
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j)
    row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i)
  {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j)
    {
      const std::size_t substitution = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({ row[j] + 1, row[j - 1] + 1, substitution });
    }
  }
  return row[b.size()];
}

} // namespace

std::string_view closest(std::string_view word, std::span<const std::string_view> known)
{
  // A name as long as a novel is near to nothing, and the distance takes time in its square.
  if (word.size() > 64) return {};
  std::string_view nearest;
  std::size_t least = std::max<std::size_t>(2, word.size() / 3) + 1;
  for (const std::string_view candidate : known)
    if (const std::size_t distance = edit_distance(word, candidate); distance < least)
    {
      least = distance;
      nearest = candidate;
    }
  return nearest;
}

} // namespace tandem
