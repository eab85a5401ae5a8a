// What kind of TCP sends a download, as far as what arrives tells. Kept by src/flow, read by modules: what does not
// help a kind is not done to it.
#pragma once

#include <cstdint>
#include <string_view>

namespace tandem
{

enum class SenderKind : std::uint8_t
{
  unknown,
  // Its window follows losses, and it takes a reaction back that it finds to be without reason (RFC 3522, RFC 4015):
  // Reno, CUBIC, Vegas, Westwood and DCTCP, as Linux runs them.
  loss_based,
  // Sends at a rate of its own, which losses hardly change: BBR and its kin.
  rate_based,
  // Takes nothing back, whatever is echoed: FreeBSD (but for timeouts), Windows, user-space stacks.
  unresponsive,
};

constexpr std::string_view name(SenderKind kind)
{
  switch (kind)
  {
  case SenderKind::unknown:
    return "unknown";
  case SenderKind::loss_based:
    return "loss-based";
  case SenderKind::rate_based:
    return "rate-based";
  case SenderKind::unresponsive:
    return "unresponsive";
  }
  return "?";
}

struct Sender
{
  SenderKind kind = SenderKind::unknown;
  std::uint8_t confidence = 0;             // that it is of this kind, in percent; 0 while unknown
  bool user_space = false;                 // a stack whose segments leave room for all options: gVisor's netstack
  const char* why = "nothing has arrived"; // literal
};

} // namespace tandem
