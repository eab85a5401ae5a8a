// How many columns of a terminal a text takes, as wcwidth(3) counts: names come from the air, in any script.
#pragma once

#include <cstddef>
#include <string_view>

namespace tandem::cli
{

struct Letter
{
  std::size_t bytes = 1;
  std::size_t columns = 1; // 2: East Asian wide letters and emoji; 0: what combines with the letter before
};

// The first code point of a text that is not empty. A byte that is no UTF-8 is a letter of its own.
Letter first_letter(std::string_view text);

std::size_t columns_of(std::string_view text);

} // namespace tandem::cli
