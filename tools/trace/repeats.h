// Captures that hold each packet twice, as the kernel shows it at several interfaces: copies look like retransmissions.
#pragma once

#include "src/trace/recorded.h"
#include "src/wire/parse.h"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>

namespace tandem::trace_tool
{

class Repeats
{
public:
  // In the order of the file.
  void take(const trace::Recorded& packet, const wire::Parsed& parsed);
  // A sentence when nearly every segment is there again to the byte within 1 ms, which no sender does; else empty.
  std::string words() const;

private:
  struct Seen
  {
    std::int64_t at = 0;
    std::size_t hash = 0;
  };
  std::deque<Seen> recent_ {};
  std::uint64_t segments_ = 0, repeated_ = 0;
};

} // namespace tandem::trace_tool
