// Strategy zero_window, as published in 2009 (Tsao and Sivakumar, CoNEXT): the window is closed over the second
// interface once the link is gone, and opened over both when it is back. Worse than nothing against today's Linux
// senders, because they have data in flight.
#pragma once

#include "modules/freeze/by_cellular.h"

namespace tandem::freeze
{

class ZeroWindow final : public ByCellular
{
public:
  static constexpr std::string_view name = "zero_window";
  static constexpr std::string_view help = "as published in 2009, the window is closed by cellular";
  static constexpr std::array rows { bulk_window_row, release_after_row, validate_path_row, deadline_row };
  static constexpr std::array test_rows { bulk_bytes_row, resumes_row, undo_row };

protected:
  Plan send_by_cellular(const Event& event, const FlowView& flow, BlackoutState& state, const Plan& plan) override;
  std::optional<InjectedSegment> after_resume(const Event& event, const FlowView& flow,
                                              const BlackoutState& state) const override;
  std::uint16_t window_now(const Event&, const FlowView&, const BlackoutState& state, Seq,
                           std::uint16_t real) const override
  {
    return state.window_closed ? std::uint16_t { 0 } : real;
  }
};

} // namespace tandem::freeze
