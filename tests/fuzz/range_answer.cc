// Any bytes as the head of the answer to a Range request: taken only when it says that its body is exactly the piece
// asked for, of the same representation.
// Input: four bytes (from, length of the piece, of the whole), then the head.
#include "src/fetch/http_head.h"
#include "tests/fuzz/check.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

using namespace tandem;
using tandem::fuzz::check;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
  if (size < 4) return 0;
  const std::uint64_t from = data[0], to = from + 1 + data[1], length = to + data[2];
  const std::string validator = (data[3] & 1) != 0 ? "\"tag\"" : "Sat, 01 Jan 2022 00:00:00 GMT";
  const std::span head { reinterpret_cast<const std::byte*>(data + 4), size - 4 };
  const fetch::RangeHead read = fetch::read_range_head(head, from, to, length, validator);
  check(read.ok == read.why.empty(), "the piece, or a reason");
  check(!read.ok || !read.final, "nothing final about what is taken");
  if (!read.ok) return 0;
  std::string text { reinterpret_cast<const char*>(data + 4), size - 4 };
  const auto says = [&](const std::string& words) { return text.find(words) != std::string::npos; };
  check(text.starts_with("HTTP/1."), "an answer of HTTP/1");
  check(says(" 206"), "partial content");
  check(says(std::to_string(from) + "-" + std::to_string(to - 1)), "the range is named");
  check(says(validator), "of the same representation");
  return 0;
}
