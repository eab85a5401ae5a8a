// What is read as a memory is within its limits, and is read again as it was; what is refused changes nothing.
#include "src/evidence/text.h"
#include "tests/fuzz/check.h"

#include <cstdint>
#include <string>

namespace
{

using namespace tandem::evidence;
using tandem::fuzz::check;

// A first line for any body, so that what is behind it is reached.
std::string sealed(const std::string& body)
{
  std::uint64_t sum = 0xcbf29ce484222325ull;
  for (const char c : body)
    sum = (sum ^ static_cast<unsigned char>(c)) * 0x100000001b3ull;
  std::string digits;
  for (int shift = 60; shift >= 0; shift -= 4)
    digits += "0123456789abcdef"[sum >> shift & 15];
  return "tandem-evidence 1 " + std::to_string(body.size()) + " " + digits + "\n" + body;
}

void read(const std::string& text)
{
  constexpr WallTime now = 1'700'000'000;
  Memory memory { { .networks = 8, .records = 16, .tallies = 4, .paths = 8 } };
  const std::string problem = from_text(text, now, memory);
  check(memory.networks().size() <= 8 && memory.records().size() <= 16 && memory.paths().size() <= 8,
        "within the limits");
  if (!problem.empty())
  {
    check(memory.networks().empty() && memory.records().empty() && memory.paths().empty(),
          "a refused text changes nothing");
    return;
  }
  for (const auto& [place, record] : memory.records())
    for (const auto& [what, tally] : record.tallies)
    {
      const Interval interval = tally.gains.interval();
      check(interval.low <= interval.high, "an interval");
      check(tally.until <= now + Tally::longest_rest, "no rest is endless");
      static_cast<void>(memory.standing(place, what, now));
    }
  Memory again { memory.limits() };
  check(from_text(to_text(memory), now, again).empty(), "what is written is read");
  check(again.networks() == memory.networks() && again.paths() == memory.paths(), "as it was");
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
  const std::string text { reinterpret_cast<const char*>(data), size };
  read(text);
  read(sealed(text));
  return 0;
}
