#include "src/daemon/restart_pause.h"

#include "src/kernel/note_file.h"

#include <algorithm>
#include <charconv>

namespace tandem::daemon
{

Duration restart_pause(unsigned failures)
{
  constexpr Duration first = std::chrono::seconds { 1 }, longest = std::chrono::seconds { 60 };
  if (failures < 2) return {};
  return std::min(longest, first * (1 << std::min(failures - 2, 6u)));
}

unsigned count_failure(const std::string& file, Duration lived)
{
  if (lived >= failed_at_once)
  {
    forget_failures(file);
    return 0;
  }
  const std::string text = kernel::read_note(file).text;
  unsigned before = 0;
  std::from_chars(text.data(), text.data() + text.size(), before);
  const unsigned failures = std::min(before, 1000u) + 1;
  static_cast<void>(kernel::write_note(file, std::to_string(failures) + "\n")); // who cannot count begins anew
  return failures;
}

void forget_failures(const std::string& file)
{
  static_cast<void>(kernel::write_note(file, ""));
}

} // namespace tandem::daemon
