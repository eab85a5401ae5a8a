#include "tools/trace/unread.h"

#include "src/trace/reader.h"
#include "tools/trace/event.h"

namespace tandem::trace_tool
{

void Unread::take(const trace::Recorded& packet, const wire::Parsed& parsed)
{
  if (parsed.ok())
    ++segments_;
  else if (packet.bytes.empty())
    ++frames_[packet.link_type];
  else if (packet.bytes.size() < packet.length
           && (parsed.fault == wire::ParseFault::truncated_ip || parsed.fault == wire::ParseFault::truncated_tcp))
    ++cut_;
}

std::vector<std::string> Unread::words() const
{
  std::vector<std::string> all;
  if (cut_ != 0)
    all.push_back(amount(cut_, "packet") + (cut_ == 1 ? " was" : " were")
                  + " captured too short for the headers, and left out: capture 200 bytes of each or more (tcpdump "
                    "-s 200)");
  for (const auto& [link_type, number] : frames_)
    if (!trace::is_read(link_type))
      all.push_back(amount(number, "frame") + (number == 1 ? " has" : " have") + " link type "
                    + std::to_string(link_type)
                    + ", in which no packets are found: Ethernet, raw IP, Linux cooked, BSD loopback and 802.11 are "
                      "read");
    else if (trace::is_wifi(link_type) && segments_ == 0)
      all.emplace_back(
          "these are Wi-Fi frames as the air has them, commonly encrypted; capture on the interface itself "
          "(tcpdump -i wlan0), or decrypt them first");
  return all;
}

} // namespace tandem::trace_tool
