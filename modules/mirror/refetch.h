// What the strategies range and replay share: the missing bytes of plaintext HTTP are fetched over the cellular link,
// beside the undo.
#pragma once

#include "modules/mirror/fetching.h"
#include "modules/mirror/undo.h"

#include <memory>

namespace tandem::mirror
{

class Refetch : public Undo
{
public:
  static constexpr bool fetches = true;

  struct State : Undo::State
  {
    std::unique_ptr<fetching::State> holes {}; // apart: only these strategies pay for it
  };
  void describe(const FlowView& flow, const State& state, Facts& facts) const;

protected:
  explicit Refetch(FetchHow how) : settings_ { .how = how } {}

private:
  void repair_too(const Event& event, const FlowView& flow, Undo::State& state, Plan& plan) override;
  Plan alarm(const Event& event, const FlowView& flow, Undo::State& state) override;
  Plan fetched(const Event& event, const FlowView& flow, Undo::State& state) override;

  fetching::Settings settings_;
  fetching::Scratch scratch_ {};
};

} // namespace tandem::mirror
