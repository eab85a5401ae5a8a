// One profile of the configuration as it is read, see Profile in config.h. Pure.
#pragma once

#include "src/daemon/config.h"
#include "src/daemon/config_value.h"

#include <string_view>

namespace tandem::daemon
{

constexpr std::string_view profile_settings =
    "cell.use, budget.cell_day, budget.cell_month, modules.NAME.enabled or modules.NAME.KNOB";

bool is_profile_name(std::string_view name);

// A setting other than of modules. False: it is not what is `needed`, or no setting of a profile; `needed` is empty
// then.
bool put_in_profile(Profile& profile, std::string_view key, const Value& value, std::string_view& needed);

} // namespace tandem::daemon
