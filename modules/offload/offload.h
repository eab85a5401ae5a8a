// ACK offloading after Tsao and Sivakumar (CoNEXT 2009): the pure ACKs of a download leave by the cellular link, so
// that they no longer contend with the data for the Wi-Fi air. Unlike the published method (fraction.h) ours validates
// the path of every flow before and while it is used (validated_path.h).
#pragma once

#include "modules/offload/fraction.h"
#include "modules/offload/validated_path.h"

#include <tandem/strategy.h>

#include <span>
#include <string_view>

namespace tandem::offload
{

class Offload final : public StrategyModule<ValidatedPath, Fraction>
{
public:
  std::string_view name() const override { return "offload"; }
  std::string_view summary() const override;
  std::string_view manual() const override;
  std::span<const RetiredKnob> retired_knobs() const override;
  Interest interest() const override;
  int priority() const override { return 30; }
};

} // namespace tandem::offload
