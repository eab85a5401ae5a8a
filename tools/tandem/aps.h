// tandem aps: access points in range, those that are kept, and roaming.
#pragma once

#include "tools/tandem/client.h"

#include <functional>

namespace CLI
{
class App;
}

namespace tandem::cli
{

void attach_aps(CLI::App& app, std::function<int(const Client&)>& chosen, bool& as_json);

} // namespace tandem::cli
