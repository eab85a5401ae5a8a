// Packets of a capture that cannot be read as segments though they may be some, and what to do about it.
#pragma once

#include "src/trace/recorded.h"
#include "src/wire/parse.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace tandem::trace_tool
{

class Unread
{
public:
  void take(const trace::Recorded& packet, const wire::Parsed& parsed);
  // A sentence for each reason. What is no TCP, as ARP or UDP, is none.
  std::vector<std::string> words() const;

private:
  std::uint64_t segments_ = 0;
  std::uint64_t cut_ = 0;                            // by the capture, within the headers
  std::uint64_t fragments_ = 0;                      // IP fragments of TCP
  std::map<std::uint32_t, std::uint64_t> frames_ {}; // without an IP packet, by link type
};

} // namespace tandem::trace_tool
