// Strategy lcd: RFC 6069, the latest ACK, then an ICMP host unreachable that quotes SND.UNA. It takes back the
// doublings of the sender's timer.
#pragma once

#include "modules/freeze/blackout_strategy.h"

namespace tandem::freeze
{

// Behind the ACK, so that it quotes SND.UNA.
inline InjectedSegment host_unreachable(const FlowView& flow)
{
  return { .kind = InjectedKind::host_unreachable, .by = flow.link, .seq = flow.rcv_nxt };
}

class TcpLcd final : public BlackoutStrategy
{
public:
  static constexpr std::string_view name = "lcd";
  static constexpr std::string_view help = "RFC 6069, host unreachable at link-up";
  static constexpr std::array rows { release_after_row, deadline_row };
  static constexpr std::array test_rows { resumes_row, undo_row };

protected:
  std::optional<InjectedSegment> after_resume(const Event&, const FlowView& flow, const BlackoutState&) const override
  {
    return host_unreachable(flow);
  }
};

} // namespace tandem::freeze
