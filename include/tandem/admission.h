// Which packets are seen: what the enabled modules want, together, decides what becomes of a segment of each kind. The
// kernel's rules and the observer's filter are made from Wanted; the simulator and the golden harness ask admit().
#pragma once

#include <tandem/classify.h>
#include <tandem/link.h>
#include <tandem/module.h>
#include <tandem/segment.h>

#include <cstdint>
#include <string_view>

namespace tandem
{

enum class Admission : std::uint8_t
{
  unseen,   // passes without Tandem's knowledge
  observed, // a copy is shown, sampled where there are many
  queued,   // waits for a verdict
};

constexpr std::string_view name(Admission admission)
{
  return admission == Admission::queued ? "queued" : admission == Admission::observed ? "observed" : "unseen";
}

// What all enabled modules want together.
struct Wanted
{
  std::uint32_t queued = 0;             // traffic:: bits, of Link::wifi alone
  std::uint32_t observed = 0;           // likewise
  std::uint32_t observed_elsewhere = 0; // of every other link but Link::other (Interest::every_link)
  // Something is wanted of Link::wifi: handshakes and ends of its flows are then observed, even while nothing is
  // queued.
  bool any = false;

  constexpr void add(const Interest& interest)
  {
    queued |= interest.decide & (traffic::egress | traffic::ingress);
    observed |= interest.observe;
    if (interest.every_link) observed_elsewhere |= interest.observe;
    any = any || interest.decide != 0 || interest.observe != 0;
  }
  // Whether anything of the link's flows is to be seen.
  constexpr bool watches(Link link) const
  {
    return link == Link::wifi ? any : link != Link::other && observed_elsewhere != 0;
  }
  constexpr std::uint32_t queued_of(Link link) const { return link == Link::wifi ? queued : 0; }
  // Queued packets already reach every module; a copy would show the edited packet, or the same one twice.
  constexpr std::uint32_t observed_of(Link link) const
  {
    return link == Link::wifi ? observed & ~queued : link == Link::other ? 0 : observed_elsewhere;
  }

  bool operator==(const Wanted&) const = default;
};

// `exempt`: the user excepted the flow's addresses or ports.
constexpr Admission admit(const Wanted& wanted, const Segment& segment, bool exempt = false)
{
  if (exempt || !wanted.watches(segment.link) || !plain_ip_header(segment)) return Admission::unseen;
  const KindRule& rule = kind_rule(segment.direction, segment.flags, segment.payload_length > 0);
  if ((wanted.queued_of(segment.link) & rule.kind) != 0) return Admission::queued;
  const bool observed = rule.always_observed || (wanted.observed_of(segment.link) & rule.kind) != 0;
  return observed ? Admission::observed : Admission::unseen;
}

} // namespace tandem
