// Switches and knobs of the loaded modules, by name.
#pragma once

#include "src/chain/chain.h"
#include "src/daemon/config.h"

#include <cstddef>
#include <string>
#include <vector>

namespace tandem::daemon
{

// Throws control::Refused, naming those that are loaded.
std::size_t slot_of(chain::Chain& chain, const std::string& module);

// `value` as the user typed it. Throws control::Refused when there is no such knob, or the value is not allowed.
void set_knob(chain::Chain& chain, const std::string& module, const std::string& knob, const std::string& value);

// Of a configuration that was checked before. Knobs that it does not name are as they are built in.
void take_knobs(chain::Chain& chain, const std::vector<KnobSetting>& knobs);

// module.knob=value for all that differ from their defaults.
std::string knobs_text(chain::Chain& chain);

} // namespace tandem::daemon
