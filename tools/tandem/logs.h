// `tandem logs`: what the daemon has said, from the journal.
#pragma once

#include "tools/tandem/client.h"

#include <functional>

namespace CLI
{
class App;
}

namespace tandem::cli
{

// Adds the command. What is chosen is put into `chosen`.
void attach_logs(CLI::App& app, std::function<int(const Client&)>& chosen);

} // namespace tandem::cli
