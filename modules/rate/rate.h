// Rates by what links carry: near a handoff little waits at the access point that will be left, and MPTCP downloads
// keep R0 by as little cellular as that takes. After Sinky, Hamdaoui and Guizani (CLA-MPTCP), from the client alone.
#pragma once

#include "modules/rate/bounded_window.h"
#include "modules/rate/difference.h"
#include "modules/rate/knobs.h"
#include "modules/rate/paced_upload.h"
#include "modules/rate/published.h"
#include "modules/rate/roam_wish.h"
#include "modules/rate/stages.h"
#include "modules/rate/subflows.h"
#include "modules/rate/told_pace.h"
#include "modules/rate/wifi_endpoint.h"

#include <tandem/module.h>

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace tandem::rate
{

struct State
{
  Subflow subflow {};
  BoundedWindow window {};
  PacedUpload upload {};
  ToldPace by_cell {};
  bool up = true; // the Wi-Fi link, as last told
  bool upload_up = true;
};

class RatePolicy final : public FlowModule<State>
{
public:
  std::string_view name() const override { return "rate"; }
  std::string_view summary() const override;
  std::string_view manual() const override;
  std::span<const Knob> knobs() const override;
  void set(std::string_view knob, double value) override;
  double get(std::string_view knob) const override;
  std::string complaint() const override { return wrong_; }
  Interest interest() const override;
  int priority() const override { return 50; }
  Plan decide(const Event& event, const FlowView& flow, State& state) override;
  void describe(const FlowView& flow, const State& state, Facts& facts) const override;
  void report(Facts& facts) const override;

private:
  bool promises() const { return knobs_.promise != 0; }
  bool promises_uploads() const { return promises() && knobs_.r0_up > 0 && !published(); }
  static Difference of_uploads() { return Difference { "rate: an MPTCP upload begins", "rate: no MPTCP upload" }; }
  // Something of what is promised is under way.
  bool transfers() const { return !difference_.idle() || (promises_uploads() && !uploads_.idle()); }
  bool published() const { return knobs_.strategy != 0; }
  ClaState state_of(double wifi_rate, double cell_rate) const;
  std::optional<double> published_rate(double wifi_rate) const;
  void hear(const Event& event);
  Plan decide_flow(const Event& event, const FlowView& flow, State& state);
  Plan decide_plain(const Event& event, const FlowView& flow, State& state);
  Plan bound(const Event& event, const FlowView& flow, State& state);
  Plan bound_as_published(const Event& event, const FlowView& flow, State& state);
  void bound_upload(const Event& event, const FlowView& flow, State& state, Plan& plan);
  void share_cellular(const Event& event, const FlowView& flow, State& state, Plan& plan);
  Plan keep(const Event& event, const FlowView& flow);
  Plan say_again(const Event& event, const FlowView& flow);
  void tell(Tick now, bool away, Plan& plan);
  Plan take_back();
  std::string_view hindered(const LinkStates& links) const;
  void ask_for_roam(const Event& event, const FlowView& flow, Plan& plan);

  Knobs knobs_ {};
  std::string wrong_; // of the knobs together
  Stages stages_;
  Signals signals_ {};
  std::optional<std::uint64_t> budget_ {}; // bytes that are left by cellular; none: no limit
  Subflows subflows_;
  Difference difference_;
  Difference uploads_ = of_uploads();
  PublishedShare share_;
  Tick next_ {}, looked_at_ {}; // look
  WifiEndpoint wifi_endpoint_;
  Tick told_at_ {}; // the requests
  bool told_ = false, used_ = false;
  bool told_away_ = false; // of the Wi-Fi endpoint
  std::array<LinkRequest, 2> requests_ {};
  RoamWish roam_;
  Tick roam_told_at_ {};
  bool roam_told_ = false; // that the card shall move
  std::array<LinkRequest, 1> roam_requests_ {};
};

} // namespace tandem::rate
