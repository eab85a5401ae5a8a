#include "src/control/printable.h"

namespace tandem
{

std::string printable(std::string_view text, char for_newline)
{
  std::string out {};
  for (std::size_t i = 0; i < text.size(); ++i)
  {
    const auto code = static_cast<unsigned char>(text[i]);
    // U+0080 to U+009F are control characters as well: terminals take U+009B for ESC [.
    if (code == 0xc2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xa0)
    {
      out += '?';
      ++i;
    }
    else if (code == '\n')
      out += for_newline;
    else
      out += code < 0x20 || code == 0x7f ? '?' : text[i];
  }
  return out;
}

} // namespace tandem
