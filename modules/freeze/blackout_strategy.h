// What all strategies of freeze have in common: the course of a blackout, the ACKs that resume the download when the
// link is back, the undo behind it, and that nothing stays withheld or closed. A strategy adds what it does before and
// during the blackout.
#pragma once

#include "modules/freeze/blackout_state.h"
#include "modules/freeze/knobs.h"

#include <tandem/module.h>

#include <array>
#include <optional>

namespace tandem::freeze
{

class BlackoutStrategy
{
public:
  using State = BlackoutState;
  using Knobs = freeze::Knobs;

  virtual ~BlackoutStrategy() = default;
  Plan decide(const Event& event, const FlowView& flow, BlackoutState& state);
  void describe(const FlowView& flow, const BlackoutState& state, Facts& facts) const;

  Knobs knobs {};

protected:
  // ---- what a strategy may add; these do nothing

  // An ACK leaves while packets flow.
  virtual Plan withhold(const Event&, const FlowView&, BlackoutState&, bool) { return {}; }
  // And its last word on it.
  virtual void acknowledged(const Event&, const FlowView&, BlackoutState&, Plan&) {}
  // A copy of what arrives.
  virtual Plan arrived(const Event&, const FlowView&, BlackoutState&) { return {}; }
  // A blackout is predicted; it no longer is, and the window is closed.
  virtual Plan warned(const Event&, const FlowView&, BlackoutState&) { return {}; }
  virtual Plan warning_over(const Event&, const FlowView&, BlackoutState&) { return {}; }
  // The link is gone; `plan` has the wake for the deadline. And an alarm before that.
  virtual Plan link_lost(const Event&, const FlowView&, BlackoutState&, const Plan& plan) { return plan; }
  virtual Plan while_lost(const Event&, const FlowView&, BlackoutState&, const Plan& plan) { return plan; }
  // What follows the ACK that resumes the download.
  virtual std::optional<InjectedSegment> after_resume(const Event&, const FlowView&, const BlackoutState&) const
  {
    return {};
  }

  // ---- what it may do otherwise

  virtual Plan alarm(const Event& event, const FlowView& flow, BlackoutState& state);
  virtual Plan link_back(const Event& event, const FlowView& flow, BlackoutState& state);
  // The window to offer with `ack` instead of the real one.
  virtual std::uint16_t window_now(const Event& event, const FlowView& flow, const BlackoutState& state, Seq ack,
                                   std::uint16_t real) const;

  // ---- what it may use

  Plan resume(const Event& event, const FlowView& flow, BlackoutState& state, std::string_view why);
  // Acknowledges all that is withheld, with the window as the local TCP offers it.
  Plan release(const FlowView& flow, BlackoutState& state, std::string_view why);
  Plan injected(std::size_t count, std::optional<Tick> wake, std::string_view why) const
  {
    return { .inject = { scratch_.data(), count }, .wake = wake, .why = why };
  }
  Tick deadline(const BlackoutState& state) const { return state.since + from_seconds(knobs.deadline); }

  std::array<InjectedSegment, 3> scratch_ {};

private:
  Plan acknowledge(const Event& event, const FlowView& flow, BlackoutState& state);
  std::optional<bool> heard(const Event& event, const FlowView& flow, BlackoutState& state, bool progress) const;
  std::optional<bool> nothing_came(const Event& event, const FlowView& flow, const BlackoutState& state) const;
  Plan link_changed(const Event& event, const FlowView& flow, BlackoutState& state);
  Plan go_down(const Event& event, const FlowView& flow, BlackoutState& state);
  Plan come_back(const Event& event, const FlowView& flow, BlackoutState& state);
  Plan ask_again(const Event& event, const FlowView& flow, BlackoutState& state);
  Plan give_up(const Event& event, const FlowView& flow, BlackoutState& state, const char* why);
};

} // namespace tandem::freeze
