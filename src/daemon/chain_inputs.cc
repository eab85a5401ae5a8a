#include "src/daemon/chain_inputs.h"

#include <array>
#include <utility>

namespace tandem::daemon
{

void ChainInputs::add(Tick now, const trace::ChainInput& one)
{
  if (!on()) return;
  std::array<std::byte, trace::longest_input> buffer; // not initialised: written before it is read
  const std::size_t size = trace::encode(one, buffer);
  recorder_->add({ .at = now, .input = { buffer.data(), size } });
}

void ChainInputs::called(Tick now)
{
  if (!on()) return;
  follow_damage(now, false);
  std::uint64_t faults = 0;
  for (std::size_t i = 0; i < chain_.module_count(); ++i)
    faults += chain_.stats(i).faults;
  if (faults != faults_told_) add(now, trace::input::ModuleFault {});
  faults_told_ = faults;
}

void ChainInputs::follow_damage(Tick now, bool whole)
{
  if (damage_ == nullptr) return;
  const DamageLog& log = *damage_;
  if (!whole && log.listening == damage_told_.listening && log.count == damage_told_.count && log.at == damage_told_.at)
    return;
  trace::input::Damage changed { .listening = log.listening, .whole = whole, .count = log.count };
  for (std::size_t i = 0; i < log.at.size(); ++i)
    if (whole ? log.at[i] != Tick {} : log.at[i] != damage_told_.at[i])
      changed.places.emplace_back(static_cast<std::uint8_t>(i), log.at[i]);
  damage_told_ = log;
  add(now, changed);
}

std::vector<trace::KnobIs> ChainInputs::all_knobs() const
{
  std::vector<trace::KnobIs> all {};
  for (std::size_t i = 0; i < chain_.module_count(); ++i)
  {
    const Module& module = chain_.module(i);
    for (const auto& knobs : { module.knobs(), module.test_knobs() })
      for (const Knob& knob : knobs)
        all.push_back({ std::string { module.name() }, std::string { knob.name }, module.get(knob.name) });
  }
  return all;
}

void ChainInputs::knobs(Tick now)
{
  if (on()) add(now, trace::input::Knobs { all_knobs() });
}

void ChainInputs::state(Tick now)
{
  if (!on()) return;
  const chain::Chain::Options& options = chain_.options();
  const chain::Chain::Memory memory = chain_.memory();
  trace::input::State state { .first = std::exchange(first_, false),
                              .seed = options.seed,
                              .capacity = options.table.capacity,
                              .idle = options.table.idle,
                              .cell_budget = options.cell_budget,
                              .cell_bytes = memory.cell_bytes,
                              .knobs = all_knobs(),
                              .links = memory.links,
                              .radio_told = memory.radio_told,
                              .rates = memory.rates };
  for (std::size_t i = 0; i < chain_.module_count(); ++i)
    state.modules.emplace_back(chain_.module(i).name(), chain_.enabled(i));
  add(now, state);
  follow_damage(now, true);
}

} // namespace tandem::daemon
