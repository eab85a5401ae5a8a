#include "tests/turns/null_frames.h"

#include "src/kernel/clock.h"

#include <arpa/inet.h>
#include <linux/filter.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <stdexcept>

namespace tandem::association
{
namespace
{

using namespace std::chrono_literals;

constexpr std::array<std::uint8_t, 8> radiotap { 0, 0, 8, 0, 0, 0, 0, 0 }; // nothing is said of the rate
constexpr std::uint8_t null_data = 0x48, to_ds = 0x01, power_management = 0x10;
constexpr std::size_t header = 24;

// Of all that a monitor sees, null frames alone, or the one that is waited for would find no room among the others: the
// byte behind the radiotap header, whose length is in its third byte.
constexpr std::array<sock_filter, 6> null_frames_only { {
    BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 2),
    BPF_STMT(BPF_MISC | BPF_TAX, 0),
    BPF_STMT(BPF_LD | BPF_B | BPF_IND, 0),
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, null_data, 0, 1),
    BPF_STMT(BPF_RET | BPF_K, 0xffff),
    BPF_STMT(BPF_RET | BPF_K, 0),
} };

// What became of a frame that was sent, by the radiotap header in front of its copy. Nothing: it says nothing of it.
// mac80211 puts the rate there, if anything, before the TX flags, of which bit 0 means that nobody acknowledged it.
std::optional<bool> fate(std::span<const std::uint8_t> copy)
{
  constexpr std::uint32_t rate = 1u << 2, tx_flags = 1u << 15;
  const std::uint32_t fields = copy[4] | copy[5] << 8 | copy[6] << 16 | static_cast<std::uint32_t>(copy[7]) << 24;
  if ((fields & tx_flags) == 0 || (fields & (tx_flags - 1) & ~rate) != 0) return {};
  return (copy[(fields & rate) != 0 ? 10 : 8] & 1) == 0;
}

} // namespace

NullFrames::NullFrames(const std::string& monitor) : socket_ { ::socket(AF_PACKET, SOCK_RAW, htons(ETH_P_ALL)) }
{
  sockaddr_ll to {};
  to.sll_family = AF_PACKET;
  to.sll_protocol = htons(ETH_P_ALL);
  to.sll_ifindex = static_cast<int>(if_nametoindex(monitor.c_str()));
  auto filter = null_frames_only;
  const sock_fprog program { filter.size(), filter.data() };
  if (socket_.get() < 0 || to.sll_ifindex == 0
      || ::setsockopt(socket_.get(), SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) != 0
      || ::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0)
    throw std::runtime_error("monitor interface " + monitor + ": " + std::strerror(errno));
}

Presence::Report NullFrames::order(const std::string& station, bool present)
{
  const auto& [own, ap] = stations_.at(station);
  std::array<std::uint8_t, radiotap.size() + header> frame {};
  std::copy(radiotap.begin(), radiotap.end(), frame.begin());
  std::uint8_t* head = frame.data() + radiotap.size();
  head[0] = null_data;
  head[1] = static_cast<std::uint8_t>(to_ds | (present ? 0 : power_management));
  std::copy(ap.begin(), ap.end(), head + 4);
  std::copy(own.begin(), own.end(), head + 10);
  std::copy(ap.begin(), ap.end(), head + 16);
  if (::send(socket_.get(), frame.data(), frame.size(), 0) != static_cast<ssize_t>(frame.size()))
    return { kernel::now(), std::string { "null frame: " } + std::strerror(errno) };
  const bool heard = acknowledged(std::span { frame }.subspan(radiotap.size()));
  return { kernel::now(), heard ? "" : "the access point does not acknowledge the null frame" };
}

bool NullFrames::acknowledged(std::span<const std::uint8_t> sent)
{
  for (const Tick end = kernel::now() + 100ms; kernel::now() < end;)
  {
    pollfd readable { socket_.get(), POLLIN, 0 };
    if (::poll(&readable, 1, 20) <= 0) continue;
    std::array<std::uint8_t, 2400> got {};
    const ssize_t length = ::recv(socket_.get(), got.data(), got.size(), MSG_DONTWAIT);
    const std::size_t skip = got[2] | got[3] << 8;
    if (length < 0 || skip < 12 || static_cast<std::size_t>(length) < skip + header) continue;
    const std::uint8_t* head = got.data() + skip;
    const bool same = head[0] == sent[0] && (head[1] & (to_ds | power_management)) == sent[1]
                      && std::equal(head + 4, head + 22, &sent[4]);
    if (!same) continue;
    if (const auto known = fate(got)) return *known;
  }
  return false;
}

} // namespace tandem::association
