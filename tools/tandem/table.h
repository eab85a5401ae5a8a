// Text for a terminal: aligned columns, colours where they are welcome.
#pragma once

#include "src/control/printable.h"

#include <string>
#include <string_view>
#include <vector>

namespace tandem::cli
{

enum class Tone : unsigned char
{
  plain,
  strong,
  good,
  warning,
  bad,
  faint,
};

// Colours only when `on`: a terminal that has not asked for none.
struct Style
{
  bool on = false;
  bool utf8 = true; // whether characters beyond ASCII can be shown

  std::string operator()(Tone tone, std::string_view text) const;
};

// Whether descriptor 1 is a terminal that can move its cursor: $TERM is not "dumb".
bool stdout_is_screen();

// On for such a terminal unless $NO_COLOR is set; characters by the locale of the environment.
Style style_of_stdout();

class Table
{
public:
  struct Cell
  {
    Cell(std::string words, Tone colour = Tone::plain) : text { std::move(words) }, tone { colour } {}
    Cell(const char* words) : text { words } {}
    std::string text;
    Tone tone = Tone::plain;
  };

  // A heading that starts with '>' aligns its column to the right.
  explicit Table(std::vector<std::string> headings);
  void add(std::vector<Cell> cells);
  bool empty() const { return rows_.empty(); }
  // Two blanks between columns, none at the end of a line.
  std::string text(const Style& style) const;

private:
  std::vector<std::string> headings_;
  std::vector<bool> right_;
  std::vector<std::vector<Cell>> rows_;
};

} // namespace tandem::cli
