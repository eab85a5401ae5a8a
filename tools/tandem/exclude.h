// `tandem exclude`: what is left alone, over restarts, too.
#pragma once

#include "tools/tandem/client.h"

#include <functional>

namespace CLI
{
class App;
}

namespace tandem::cli
{

// Hangs it into `app`; `chosen` becomes the one that is asked for, `as_json` whether it prints JSON.
void attach_exclude(CLI::App& app, std::function<int(const Client&)>& chosen, bool& as_json);

} // namespace tandem::cli
