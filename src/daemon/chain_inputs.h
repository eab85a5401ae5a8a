// Writes down what enters the chain besides packets, so that the recording can be replayed (src/trace/chain_input.h).
// Does nothing without a flight recorder.
#pragma once

#include "src/chain/chain.h"
#include "src/trace/chain_input.h"
#include "src/trace/recorder.h"

#include <tandem/link.h>
#include <tandem/units.h>

#include <cstdint>
#include <vector>

namespace tandem::daemon
{

class ChainInputs
{
public:
  // Both must outlive it. `recorder` may be null.
  ChainInputs(chain::Chain& chain, trace::Recorder* recorder) : chain_ { chain }, recorder_ { recorder } {}

  bool on() const { return recorder_ != nullptr; }

  // All that the chain knows apart from flows; a replay begins at one. Takes memory from the heap.
  void state(Tick now);
  // Of Chain::damage(); may be null.
  void damage(const DamageLog* log) { damage_ = log; }

  // Before the entry of whatever the chain was called with: what else it saw, and what befell it meanwhile.
  void called(Tick now);

  // After the chain was called, and what follows from it was carried out.
  void add(Tick now, const trace::ChainInput& one);
  void knobs(Tick now);

private:
  void follow_damage(Tick now, bool whole);
  std::vector<trace::KnobIs> all_knobs() const;

  chain::Chain& chain_;
  trace::Recorder* recorder_;
  const DamageLog* damage_ = nullptr;
  DamageLog damage_told_ {};
  std::uint64_t faults_told_ = 0;
  bool first_ = true;
};

} // namespace tandem::daemon
