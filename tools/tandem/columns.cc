#include "tools/tandem/columns.h"

#include <locale.h>
#include <wchar.h>

namespace tandem::cli
{
namespace
{

// glibc 2.35 has it built in, and musl knows no other; 0 where there is none.
locale_t utf8_locale()
{
  static const locale_t locale = ::newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
  return locale;
}

} // namespace

Letter first_letter(std::string_view text)
{
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  const std::size_t bytes = lead < 0xc2 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : 1;
  if (bytes == 1 || text.size() < bytes) return {};
  auto code = static_cast<wchar_t>(lead & (0x7f >> bytes));
  for (std::size_t i = 1; i < bytes; ++i)
  {
    if ((byte(i) & 0xc0) != 0x80) return {};
    code = static_cast<wchar_t>(code << 6 | (byte(i) & 0x3f));
  }
  const locale_t locale = utf8_locale();
  if (!locale) return { .bytes = bytes, .columns = 1 };
  const locale_t before = ::uselocale(locale);
  const int columns = ::wcwidth(code);
  ::uselocale(before);
  return { .bytes = bytes, .columns = columns < 0 ? 1 : static_cast<std::size_t>(columns) };
}

std::size_t columns_of(std::string_view text)
{
  std::size_t columns = 0;
  while (!text.empty())
  {
    const Letter letter = first_letter(text);
    columns += letter.columns;
    text.remove_prefix(letter.bytes);
  }
  return columns;
}

} // namespace tandem::cli
