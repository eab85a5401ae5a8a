// The commands that follow a running daemon: the screen of `tandem top`, and `tandem why`.
#pragma once

#include "tools/tandem/client.h"

#include <string>

namespace tandem::cli
{

// Shows links, modules and flows every second until q or Ctrl-C; keys switch modules. Throws Failure without a
// terminal.
int top(const Client& client);

// Explains what is done to the flows to a server: HOST, ADDRESS, HOST:PORT or [ADDRESS]:PORT. Throws Failure when the
// name cannot be resolved, or there is no such flow.
int why(const Client& client, const std::string& server, bool as_json);

} // namespace tandem::cli
