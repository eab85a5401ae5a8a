#include "tools/trace/unread.h"

#include "src/trace/reader.h"
#include "tools/trace/event.h"

namespace tandem::trace_tool
{
namespace
{

// Of an IP fragment. In IPv6 the fragment header comes first in all that is met.
bool of_tcp(const std::vector<std::byte>& ip)
{
  constexpr std::byte tcp { 6 }, fragment_header { 44 };
  const bool v6 = std::to_integer<unsigned>(ip[0]) >> 4 == 6;
  return v6 ? ip.size() > 40 && ip[6] == fragment_header && ip[40] == tcp : ip.size() > 9 && ip[9] == tcp;
}

} // namespace

void Unread::take(const trace::Recorded& packet, const wire::Parsed& parsed)
{
  if (parsed.ok())
    ++segments_;
  else if (packet.bytes.empty())
    ++frames_[packet.link_type];
  else if (packet.bytes.size() < packet.length
           && (parsed.fault == wire::ParseFault::truncated_ip || parsed.fault == wire::ParseFault::truncated_tcp))
    ++cut_;
  else if (parsed.fault == wire::ParseFault::fragment && of_tcp(packet.bytes))
    ++fragments_;
}

std::vector<std::string> Unread::words() const
{
  std::vector<std::string> all;
  if (cut_ != 0)
    all.push_back(amount(cut_, "packet") + (cut_ == 1 ? " was" : " were")
                  + " captured too short for the headers, and left out: capture 200 bytes of each or more (tcpdump "
                    "-s 200)");
  if (fragments_ != 0)
    all.push_back(amount(fragments_, "IP fragment")
                  + (fragments_ == 1 ? " of TCP is left out, and what it" : " of TCP are left out, and what they")
                  + " carried may read as lost: capture where packets are whole");
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
