// What downloads have shown of the air between this host and an access point, for those that follow them from the same
// server.
//
// A download that meets the end of the queue in slow start loses hundreds of segments there, and while the air goes on
// losing something no congestion window grows again (decision 0008). The short queue that keeps this away begins with a
// flow's first hidden loss, and that is often too late.
#pragma once

#include <tandem/flow.h>
#include <tandem/module.h>

#include <array>

namespace tandem::mirror
{

class LossyAir
{
public:
  struct Expected
  {
    float lost = 0;    // share of all bytes; 0: the air is not known to lose anything
    float carried = 0; // bytes per second by the link while a queue stood
  };

  // An episode of losses that the air alone explains, of a loss-based sender.
  void lost(const FlowView& flow, const Expected& found, Tick now);
  // What a young flow is to expect. Only of what was seen since the link was up, on this link, of the same server.
  Expected expected(const FlowView& flow, const LinkStates& links, Tick now) const;

private:
  static constexpr std::size_t servers = 8;
  // So many losses this close to each other are no accident.
  static constexpr std::size_t enough = 4;

  struct Known
  {
    Address server {};
    Link link = Link::other;
    Expected found {};
    std::size_t next = 0;           // in `at`
    std::array<Tick, enough> at {}; // a ring of the newest
  };

  std::array<Known, servers> known_ {};
};

} // namespace tandem::mirror
