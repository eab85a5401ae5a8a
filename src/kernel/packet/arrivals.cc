#include "src/kernel/packet/arrivals.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <span>
#include <string_view>

namespace tandem::kernel
{

namespace
{

std::string_view read_at_start(int file, std::span<char> buffer) noexcept
{
  const ssize_t count = ::pread(file, buffer.data(), buffer.size(), 0);
  return { buffer.data(), static_cast<std::size_t>(count > 0 ? count : 0) };
}

// Of a table in /proc the kernel gives a page at a time.
std::string_view read_whole_table(int file, std::span<char> buffer) noexcept
{
  std::size_t used = 0;
  while (used < buffer.size())
  {
    const ssize_t count = ::pread(file, buffer.data() + used, buffer.size() - used, static_cast<off_t>(used));
    if (count <= 0) break;
    used += static_cast<std::size_t>(count);
  }
  return { buffer.data(), used };
}

std::optional<std::uint64_t> number(std::string_view text) noexcept
{
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  std::uint64_t value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec != std::errc {}) return {};
  return value;
}

} // namespace

void FrameCounter::open(const std::string& interface)
{
  interface_ = interface;
  table_ = false;
  const std::string directory = "/sys/class/net/" + interface;
  // A program entered into a network namespace may still see the /sys of another one, with its own wlan0.
  std::array<char, 64> text {};
  const Fd index { ::open((directory + "/ifindex").c_str(), O_RDONLY | O_CLOEXEC) };
  const auto here = index ? number(read_at_start(index.get(), text)) : std::nullopt;
  if (here && *here == ::if_nametoindex(interface.c_str()))
    file_.reset(::open((directory + (of_ == Of::sent ? "/statistics/tx_packets" : "/statistics/rx_packets")).c_str(),
                       O_RDONLY | O_CLOEXEC));
  else
  {
    table_ = true;
    file_.reset(::open("/proc/self/net/dev", O_RDONLY | O_CLOEXEC));
  }
}

std::optional<std::uint64_t> FrameCounter::read() noexcept
{
  if (!file_) return {};
  if (!table_)
  {
    std::array<char, 64> text {};
    return number(read_at_start(file_.get(), text));
  }
  std::array<char, 32768> buffer;
  std::string_view text = read_whole_table(file_.get(), buffer);
  // "  wlan0: BYTES PACKETS ..." a line: eight columns of what was received, then what was sent.
  while (!text.empty())
  {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    if (!line.starts_with(interface_) || line.size() <= interface_.size() || line[interface_.size()] != ':') continue;
    line.remove_prefix(interface_.size() + 1);
    for (int column = of_ == Of::sent ? 9 : 1; column > 0; --column)
    {
      line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
      line.remove_prefix(std::min(line.find(' '), line.size()));
    }
    return number(line);
  }
  return {};
}

bool ArrivalBell::arm(int ifindex) noexcept
{
  socket_.reset(::socket(AF_PACKET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket_) return false;
  const int one = 1;
  ::setsockopt(socket_.get(), SOL_PACKET, PACKET_IGNORE_OUTGOING, &one, sizeof one);
  sockaddr_ll here {};
  here.sll_family = AF_PACKET;
  here.sll_protocol = htons(ETH_P_ALL);
  here.sll_ifindex = ifindex;
  if (::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&here), sizeof here) == 0) return true;
  socket_.reset();
  return false;
}

bool ArrivalBell::rung() noexcept
{
  if (!socket_) return false;
  bool any = false;
  std::array<char, 16> head {};
  sockaddr_ll from {};
  for (int i = 0; i < 256; ++i)
  {
    socklen_t length = sizeof from;
    if (::recvfrom(socket_.get(), head.data(), head.size(), MSG_DONTWAIT, reinterpret_cast<sockaddr*>(&from), &length)
        < 0)
    {
      if (errno == EINTR) continue;
      break;
    }
    any = any || from.sll_pkttype != PACKET_OUTGOING; // a kernel without PACKET_IGNORE_OUTGOING shows those, too
  }
  return any;
}

} // namespace tandem::kernel
