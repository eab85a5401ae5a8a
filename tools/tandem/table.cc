#include "tools/tandem/table.h"

#include "tools/tandem/columns.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace tandem::cli
{
namespace
{

// By name (locale(7)), whether that locale is installed or not: it is the terminal's characters that count.
bool environment_says_utf8()
{
  for (const char* name : { "LC_ALL", "LC_CTYPE", "LANG" })
    if (const char* locale = std::getenv(name); locale && *locale != '\0')
      return ::strcasestr(locale, "utf-8") != nullptr || ::strcasestr(locale, "utf8") != nullptr;
  return false;
}

} // namespace

std::string Style::operator()(Tone tone, std::string_view text) const
{
  const char* code = "";
  switch (tone)
  {
  case Tone::plain:
    break;
  case Tone::strong:
    code = "1";
    break;
  case Tone::good:
    code = "32";
    break;
  case Tone::warning:
    code = "33";
    break;
  case Tone::bad:
    code = "31";
    break;
  case Tone::faint:
    code = "2";
    break;
  }
  if (!on || *code == '\0' || text.empty()) return std::string { text };
  return std::string { "\x1b[" } + code + "m" + std::string { text } + "\x1b[0m";
}

bool stdout_is_screen()
{
  const char* terminal = std::getenv("TERM");
  return ::isatty(STDOUT_FILENO) == 1 && (!terminal || std::strcmp(terminal, "dumb") != 0);
}

Style style_of_stdout()
{
  const char* no_color = std::getenv("NO_COLOR");
  return { .on = stdout_is_screen() && (!no_color || *no_color == '\0'), .utf8 = environment_says_utf8() };
}

Table::Table(std::vector<std::string> headings) : headings_ { std::move(headings) }
{
  for (std::string& heading : headings_)
  {
    right_.push_back(heading.starts_with('>'));
    if (right_.back()) heading.erase(0, 1);
  }
}

void Table::add(std::vector<Cell> cells)
{
  for (Cell& cell : cells)
    cell.text = printable(cell.text);
  rows_.push_back(std::move(cells));
}

std::string Table::text(const Style& style) const
{
  std::vector<std::size_t> widths;
  for (const std::string& heading : headings_)
    widths.push_back(columns_of(heading));
  for (const auto& row : rows_)
    for (std::size_t i = 0; i < row.size() && i < widths.size(); ++i)
      widths[i] = std::max(widths[i], columns_of(row[i].text));

  std::string out;
  const auto line = [&](const auto& cell_at, std::size_t count)
  {
    std::string text;
    for (std::size_t i = 0; i < count; ++i)
    {
      const Cell cell = cell_at(i);
      const std::string blanks(widths[i] - columns_of(cell.text), ' ');
      const std::string coloured = style(cell.tone, cell.text);
      text += (i == 0 ? "" : "  ") + (right_[i] ? blanks + coloured : coloured + blanks);
    }
    text.erase(text.find_last_not_of(' ') + 1);
    out += text + '\n';
  };
  line([&](std::size_t i) { return Cell { headings_[i], Tone::faint }; }, headings_.size());
  for (const auto& row : rows_)
    line([&](std::size_t i) { return row[i]; }, std::min(row.size(), headings_.size()));
  return out;
}

} // namespace tandem::cli
