#include "src/flow/acceptability.h"

#include <algorithm>

namespace tandem::flow
{

namespace
{

std::uint32_t limited(std::uint32_t window)
{
  constexpr std::uint32_t smallest = 0xffff;  // what a SYN can advertise
  constexpr std::uint32_t largest = 1u << 28; // far beyond it sequence numbers have no order
  return std::clamp(window, smallest, largest);
}

} // namespace

bool in_windows(const Segment& arriving, const Windows& windows)
{
  const std::uint32_t receive = limited(windows.receive);
  if (arriving.end().before(windows.rcv_nxt - receive) || arriving.seq.after(windows.rcv_nxt + 2 * receive))
    return false;
  // A reset is judged by its sequence number alone (RFC 9293 3.5.3).
  if (!arriving.has(tcp_flag::ack) || arriving.has(tcp_flag::rst)) return true;
  // Nothing that this host cannot have sent: data leaves unseen where no module asked for it, at most what the peer's
  // window allows. And nothing older than a window below what is on its way (RFC 5961 5.2).
  const std::uint32_t send = limited(windows.send);
  return !arriving.ack.after(windows.snd_nxt + send) && !arriving.ack.before(windows.snd_nxt - 2 * send);
}

} // namespace tandem::flow
