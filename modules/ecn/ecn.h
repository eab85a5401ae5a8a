// Steering away from inefficient access points, after Croitoru et al. (NSDI 2015): of several access points on one
// channel the slow ones cost the air that the fast ones could use better. Beyond the paper: how far they may be used is
// found by measuring, and senders that do not couple their subflows are steered by MP_PRIO.
#pragma once

#include "modules/ecn/closed_loop.h"
#include "modules/ecn/marking.h"
#include "modules/ecn/on_off.h"
#include "modules/ecn/packet_times.h"
#include "modules/ecn/published.h"
#include "modules/ecn/ranking.h"
#include "modules/ecn/strategy.h"
#include "modules/ecn/subflows.h"

#include <tandem/module.h>

#include <array>
#include <cstddef>
#include <span>
#include <string_view>

namespace tandem::ecn
{

struct Knobs
{
  double leave_dead = 1; // whether a link that is down loses its endpoint
};

class Ecn final : public FlowModule<State>
{
public:
  std::string_view name() const override { return "ecn"; }
  std::string_view summary() const override;
  std::string_view manual() const override;
  std::span<const Knob> knobs() const override;
  std::span<const RetiredKnob> retired_knobs() const override;
  void set(std::string_view knob, double value) override;
  double get(std::string_view knob) const override;
  Interest interest() const override;
  int priority() const override { return 40; }
  Plan decide(const Event& event, const FlowView& flow, State& state) override;
  void describe(const FlowView& flow, const State& state, Facts& facts) const override;

private:
  Strategy& strategy() const { return *strategies_[chosen_]; }
  void tick(const Event& event);
  Plan plan(const Event& event);

  Knobs knobs_ {};
  Subflows subflows_;
  PacketTimes times_;
  Ranking ranking_;
  Marking marking_;
  ClosedLoop closed_loop_ { marking_ };
  Published published_ { marking_ };
  OnOff on_off_;
  std::array<Strategy*, 3> strategies_ { &closed_loop_, &published_, &on_off_ }; // as the knob has them
  std::size_t chosen_ = 0;

  Treatments wanted_ {}, told_ {};
  Tick next_ {};        // look
  Tick wake_ {};        // asked for
  bool retell_ = false; // what was told before may be forgotten
  Tick told_at_ {};     // everything
  std::string_view why_ {};
  std::array<LinkRequest, 3 * link_count> requests_ {};
};

} // namespace tandem::ecn
