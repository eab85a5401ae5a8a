// What was meant, and where to read on: words that are no command, and `tandem help`.
#pragma once

#include "tools/tandem/client.h"

#include <string>

namespace CLI
{
class App;
}

namespace tandem::cli
{

// What is wrong with a command line that lacks a command: the word that is none with the one that is near to it, or
// what there is to choose from. `app` has refused it.
std::string lacking_command(const CLI::App& app);

// Prints the overview, the options of a command, or the manual of a module of the running daemon. Throws Failure.
void show_help(CLI::App& app, const std::string& topic, const Client& client);

} // namespace tandem::cli
