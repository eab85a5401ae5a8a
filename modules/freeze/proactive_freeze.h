// Strategy proactive: the window is closed before a predicted blackout, so that nothing is in flight when it comes, and
// reopened at the pace that the flow had.
#pragma once

#include "modules/freeze/blackout_strategy.h"

namespace tandem::freeze
{

class ProactiveFreeze : public BlackoutStrategy
{
public:
  static constexpr std::string_view name = "proactive";
  static constexpr std::string_view help = "the window is closed before a predicted blackout";
  static constexpr std::array rows { bulk_window_row,   withheld_share_row, withheld_queue_row,
                                     release_after_row, closed_longest_row, deadline_row };
  static constexpr std::array test_rows { bulk_bytes_row, resumes_row, undo_row, closed_back_off_row };

  struct State : BlackoutState
  {
    std::uint8_t misses = 0; // warnings in a row without a blackout
    Seq edge {};             // offered at reopening_at
    float pace = 0;          // bytes per second, of the reopening
    Tick released_at {};     // the last part of what is withheld, with a closed window
    Tick heeded_from {};     // no warning is before
    Tick reopening_at {};
  };

protected:
  Plan withhold(const Event& event, const FlowView& flow, BlackoutState& state, bool progress) override;
  Plan warned(const Event& event, const FlowView& flow, BlackoutState& state) override;
  Plan warning_over(const Event& event, const FlowView& flow, BlackoutState& state) override;
  Plan link_lost(const Event& event, const FlowView& flow, BlackoutState& state, const Plan& plan) override;
  Plan alarm(const Event& event, const FlowView& flow, BlackoutState& state) override;
  Plan link_back(const Event& event, const FlowView& flow, BlackoutState& state) override;
  std::uint16_t window_now(const Event& event, const FlowView& flow, const BlackoutState& state, Seq ack,
                           std::uint16_t real) const override;

private:
  static State& own(BlackoutState& state) { return static_cast<State&>(state); }
  Plan while_closed(const Event& event, const FlowView& flow, State& state);
  Plan reopen(const Event& event, const FlowView& flow, State& state, const char* why);
  void back_off(const Event& event, State& state) const;
  Tick longest_closed(const State& state) const { return state.since + from_seconds(knobs.closed_longest); }
};

} // namespace tandem::freeze
